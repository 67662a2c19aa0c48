"""The work `seal`: number the feed and seal the ledger. Also the verification of the ledger.

Verification needs only the public keys. It reports purged values as purged. With the head that an earlier
verification printed, it also detects entries cut off at the end. The digests are defined in `store.ledger`,
the keys in `vault.ledger_keys`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import OrganizationId, WorkKind
from postroom.store import feed, ledger, webhooks, work
from postroom.store.database import Database
from postroom.store.ledger import LedgerEntry, Seal, Signer
from postroom.store.work import FinishedWork, Lease, WorkRequest

BATCH = 1000

# Whether a signature by the key with this id is valid; None if the key is unknown.
SignatureCheck = Callable[[str, bytes, bytes], bool | None]


@dataclass
class LedgerVerification:
    """The result of a verification. The ledger is intact if there are no faults."""

    entries: int = 0
    purged: int = 0
    unsealed: int = 0
    seals: int = 0
    head: str | None = None
    faults: list[str] = field(default_factory=list[str])


async def run(database: Database, signer: Signer, lease: Lease) -> None:
    """Number and seal what was committed. The last batch also finishes the lease."""
    numbered = BATCH
    while numbered == BATCH:
        async with work.fenced_transaction(database, lease) as connection:
            numbered = await feed.assign_positions(connection, batch=BATCH)
            behind = await webhooks.list_behind(connection)
            await work.enqueue(
                connection, [WorkRequest(lease.organization, WorkKind.DELIVER, str(each)) for each in behind]
            )
    while True:
        async with work.fenced_transaction(database, lease) as connection:
            sealed = await ledger.seal_entries(connection, lease.organization, signer, batch=BATCH)
            if sealed < BATCH:
                await work.finish(connection, [FinishedWork(lease)])
                return


async def run_with_current_key(database: Database, find_signer: Callable[[], Signer], lease: Lease) -> None:
    """Seal with the key that is current now: a process that seals nothing creates none."""
    await run(database, find_signer(), lease)


async def keep_scheduled(database: Database) -> None:
    """Enqueue sealing for organizations with new entries or events, forever.

    Writers only send a NOTIFY, so they do not contend for a row. Commits that were missed are found at the
    start and once a minute.
    """
    async for notified in database.listen("postroom_feed", every_seconds=60):
        with suppress(DatabaseUnavailable, TransientError):
            async with database.engine() as connection:
                organizations = (
                    await ledger.list_organizations_to_seal(connection)
                    if notified is None
                    else [OrganizationId(UUID(notified))]
                )
                await work.enqueue(
                    connection, [WorkRequest(each, WorkKind.SEAL, str(each)) for each in organizations]
                )


async def verify(
    database: Database, organization: UUID, check: SignatureCheck, *, head: str | None = None
) -> LedgerVerification:
    """Recompute every digest and check every signature. `head` was printed by an earlier verification.

    Works in batches, each read in its own transaction and computed in a thread, so a long ledger blocks
    nothing.
    """
    result, previous, seen_head = LedgerVerification(), None, head is None
    while batch := await _load_seals(database, organization, previous):
        await asyncio.to_thread(_check_seals, result, organization, previous, batch, check)
        seen_head = seen_head or any(_format_head(seal) == head for seal, _ in batch)
        previous = batch[-1][0]
    result.head = _format_head(previous) if previous else None
    if not seen_head:
        result.faults.append(
            f"head {head} is not in the ledger: the ledger was truncated, or rewritten before that seal"
        )
    await _check_unsealed(result, organization, database)
    return result


async def _load_seals(
    database: Database, organization: UUID, previous: Seal | None
) -> list[tuple[Seal, list[LedgerEntry]]]:
    """Load the next seals with their entries: as many as cover a batch, at least one."""
    batch: list[tuple[Seal, list[LedgerEntry]]] = []
    left = BATCH
    async with database.transaction(organization) as connection:
        for seal in await ledger.list_seals(
            connection, after=previous.number if previous else 0, limit=BATCH // 10
        ):
            left -= seal.last_position - seal.first_position + 1
            if batch and left < 0:
                break
            entries = await ledger.list_between(connection, seal.first_position, seal.last_position)
            batch.append((seal, entries))
    return batch


def _check_seals(
    result: LedgerVerification,
    organization: UUID,
    previous: Seal | None,
    batch: Sequence[tuple[Seal, list[LedgerEntry]]],
    check: SignatureCheck,
) -> None:
    for seal, entries in batch:
        _check_seal(result, organization, previous, seal, entries, check)
        _check_entries(result, organization, entries)
        previous = seal


def _format_head(seal: Seal) -> str:
    return f"{seal.number}:{seal.sha256.hex()}"


def _check_seal(
    result: LedgerVerification,
    organization: UUID,
    previous: Seal | None,
    seal: Seal,
    entries: Sequence[LedgerEntry],
    check: SignatureCheck,
) -> None:
    name = f"seal {seal.number}"
    result.seals += 1
    if seal.number != (previous.number + 1 if previous else 1):
        result.faults.append(f"{name} does not follow the previous seal: one is missing")
    if seal.first_position != (previous.last_position + 1 if previous else 1):
        result.faults.append(f"{name} does not start where the previous seal ends")
    if seal.previous_sha256 != (previous.sha256 if previous else None):
        result.faults.append(f"{name} is not chained to the previous seal")
    if [entry.position for entry in entries] != list(range(seal.first_position, seal.last_position + 1)):
        result.faults.append(f"{name} covers missing entries")
    expected = ledger.seal_digest(
        seal.previous_sha256,
        seal.number,
        seal.first_position,
        seal.last_position,
        [entry.sha256 for entry in entries],
    )
    if seal.sha256 != expected:
        result.faults.append(f"{name} does not match its entries")
    signed = check(seal.key_id, seal.signature, ledger.signed_bytes(organization, seal.sha256))
    if signed is None:
        result.faults.append(f"{name} is signed with the unknown key {seal.key_id}")
    elif not signed:
        result.faults.append(f"{name} has an invalid signature")


def _check_entries(result: LedgerVerification, organization: UUID, entries: Sequence[LedgerEntry]) -> None:
    for entry in entries:
        result.entries += 1
        if entry.sha256 != ledger.entry_digest(organization, entry, entry.personal_sha256, entry.occurred_at):
            result.faults.append(f"entry {entry.id} was changed")
        if entry.personal_sha256 is None:
            continue
        if entry.salt is None:
            result.purged += 1
        elif entry.personal_sha256 != ledger.personal_digest(entry.salt, entry.personal):
            result.faults.append(f"the personal values of entry {entry.id} were changed")


async def _check_unsealed(result: LedgerVerification, organization: UUID, database: Database) -> None:
    after: int | None = 0
    while after is not None:
        async with database.transaction(organization) as connection:
            entries = await ledger.list_unsealed(connection, after=after, limit=BATCH)
        await asyncio.to_thread(_check_entries, result, organization, entries)
        result.unsealed += len(entries)
        after = entries[-1].id if entries else None
