"""Numbers the feed; seals the ledger, and proves it: entries, seals, signatures, by nothing but the keys.

What a purge took away is reported as purged. Whoever kept a head from an earlier day can also prove that
nothing was cut off the end.
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

# Whether a signature by the key of this id is good; None where the key is not known here.
SignatureCheck = Callable[[str, bytes, bytes], bool | None]


@dataclass
class LedgerVerification:
    """What a verification found. The ledger is whole when there is no fault."""

    entries: int = 0
    purged: int = 0
    unsealed: int = 0
    seals: int = 0
    head: str | None = None
    faults: list[str] = field(default_factory=list[str])


async def run(database: Database, signer: Signer, lease: Lease) -> None:
    """Number and seal what was committed; the last batch and the end of the lease are one transaction."""
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
    """Make sealing due where entries or events came, for ever. Writers only notify, so they share no row.

    What was committed while nobody listened is found when the listening begins, and once a minute.
    """
    async for heard in database.heard("postroom_feed", every_seconds=60):
        with suppress(DatabaseUnavailable, TransientError):
            async with database.engine() as connection:
                organizations = (
                    await ledger.list_organizations_to_seal(connection)
                    if heard is None
                    else [OrganizationId(UUID(heard))]
                )
                await work.enqueue(
                    connection, [WorkRequest(each, WorkKind.SEAL, str(each)) for each in organizations]
                )


async def verify(
    database: Database, organization: UUID, check: SignatureCheck, *, head: str | None = None
) -> LedgerVerification:
    """Compute everything again. `head` is what an earlier verification printed.

    Piece by piece, each in a transaction of its own and computed in a thread: however long the ledger is,
    nobody waits for it.
    """
    proof, before, seen_head = LedgerVerification(), None, head is None
    while piece := await _load_seals(database, organization, before):
        await asyncio.to_thread(_check_seals, proof, organization, before, piece, check)
        seen_head = seen_head or any(_format_head(seal) == head for seal, _ in piece)
        before = piece[-1][0]
    proof.head = _format_head(before) if before else None
    if not seen_head:
        proof.faults.append(
            f"the head {head} is not in the ledger: it was cut off, or rewritten before there"
        )
    await _check_unsealed(proof, organization, database)
    return proof


async def _load_seals(
    database: Database, organization: UUID, before: Seal | None
) -> list[tuple[Seal, list[LedgerEntry]]]:
    """The next seals with what they cover: as many as cover a batch, one at least."""
    piece: list[tuple[Seal, list[LedgerEntry]]] = []
    left = BATCH
    async with database.transaction(organization) as connection:
        for seal in await ledger.list_seals(
            connection, after=before.number if before else 0, limit=BATCH // 10
        ):
            left -= seal.last_position - seal.first_position + 1
            if piece and left < 0:
                break
            entries = await ledger.list_between(connection, seal.first_position, seal.last_position)
            piece.append((seal, entries))
    return piece


def _check_seals(
    proof: LedgerVerification,
    organization: UUID,
    before: Seal | None,
    piece: Sequence[tuple[Seal, list[LedgerEntry]]],
    check: SignatureCheck,
) -> None:
    for seal, entries in piece:
        _check_seal(proof, organization, before, seal, entries, check)
        _check_entries(proof, organization, entries)
        before = seal


def _format_head(seal: Seal) -> str:
    return f"{seal.number}:{seal.sha256.hex()}"


def _check_seal(
    proof: LedgerVerification,
    organization: UUID,
    before: Seal | None,
    seal: Seal,
    entries: Sequence[LedgerEntry],
    check: SignatureCheck,
) -> None:
    name = f"seal {seal.number}"
    proof.seals += 1
    if seal.number != (before.number + 1 if before else 1):
        proof.faults.append(f"{name} does not follow the seal before it: one is missing")
    if seal.first_position != (before.last_position + 1 if before else 1):
        proof.faults.append(f"{name} does not begin where the seal before it ends")
    if seal.previous_sha256 != (before.sha256 if before else None):
        proof.faults.append(f"{name} is not chained to the seal before it")
    if [entry.position for entry in entries] != list(range(seal.first_position, seal.last_position + 1)):
        proof.faults.append(f"{name} covers entries that are missing")
    expected = ledger.seal_digest(
        seal.previous_sha256,
        seal.number,
        seal.first_position,
        seal.last_position,
        [entry.sha256 for entry in entries],
    )
    if seal.sha256 != expected:
        proof.faults.append(f"{name} does not fit its entries")
    signed = check(seal.key_id, seal.signature, ledger.signed_bytes(organization, seal.sha256))
    if signed is None:
        proof.faults.append(f"{name} is signed with the key {seal.key_id}, which is not known here")
    elif not signed:
        proof.faults.append(f"{name} has a false signature")


def _check_entries(proof: LedgerVerification, organization: UUID, entries: Sequence[LedgerEntry]) -> None:
    for entry in entries:
        proof.entries += 1
        if entry.sha256 != ledger.entry_digest(organization, entry, entry.personal_sha256, entry.occurred_at):
            proof.faults.append(f"entry {entry.id} was changed")
        if entry.personal_sha256 is None:
            continue
        if entry.salt is None:
            proof.purged += 1
        elif entry.personal_sha256 != ledger.personal_digest(entry.salt, entry.personal):
            proof.faults.append(f"the personal values of entry {entry.id} were changed")


async def _check_unsealed(proof: LedgerVerification, organization: UUID, database: Database) -> None:
    after: int | None = 0
    while after is not None:
        async with database.transaction(organization) as connection:
            entries = await ledger.list_unsealed(connection, after=after, limit=BATCH)
        await asyncio.to_thread(_check_entries, proof, organization, entries)
        proof.unsealed += len(entries)
        after = entries[-1].id if entries else None
