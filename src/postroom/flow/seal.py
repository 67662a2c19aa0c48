"""Numbers the feed; seals the ledger, and proves it: entries, seals, signatures, by nothing but the keys.

What a purge took away is reported as purged. Whoever kept a head from an earlier day can also prove that
nothing was cut off the end.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import OrganizationId
from postroom.store import feed, ledger, webhooks, work
from postroom.store.database import Connection, Database
from postroom.store.ledger import Seal, Signer, Stored
from postroom.store.work import Finish, Lease, Wake

KIND = "seal"
DELIVER = "deliver"  # what follows where somebody outside wants to be told
BATCH = 1000

# Whether a signature by the key of this id is good; None where the key is not known here.
SignatureCheck = Callable[[str, bytes, bytes], bool | None]


@dataclass
class Proof:
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
        async with work.fenced(database, lease) as connection:
            numbered = await feed.number(connection, batch=BATCH)
            behind = await webhooks.behind(connection)
            await work.wake(connection, [Wake(lease.organization, DELIVER, str(each)) for each in behind])
    while True:
        async with work.fenced(database, lease) as connection:
            sealed = await ledger.seal(connection, lease.organization, signer, batch=BATCH)
            if sealed < BATCH:
                await work.finish(connection, [Finish(lease)])
                return


async def listen(database: Database) -> None:
    """Make sealing due where entries or events came, for ever. Writers only notify, so they share no row.

    What was committed while nobody listened is found when the listening begins, and once a minute.
    """
    async for heard in database.heard("postroom_feed", every_seconds=60):
        with suppress(DatabaseUnavailable, TransientError):
            async with database.engine() as connection:
                organizations = (
                    await ledger.organizations_to_seal(connection)
                    if heard is None
                    else [OrganizationId(UUID(heard))]
                )
                await work.wake(connection, [Wake(each, KIND, str(each)) for each in organizations])


async def verify(
    database: Database, organization: UUID, check: SignatureCheck, *, head: str | None = None
) -> Proof:
    """Compute everything again. `head` is what an earlier verification printed."""
    proof = Proof()
    async with database.transaction(organization) as connection:
        before: Seal | None = None
        seen_head = head is None
        async for seal in ledger.seals(connection):
            entries = await ledger.entries_between(connection, seal.first_position, seal.last_position)
            _check_seal(proof, organization, before, seal, entries, check)
            _check_entries(proof, organization, entries)
            before = seal
            seen_head = seen_head or _head(seal) == head
        proof.head = _head(before) if before else None
        if not seen_head:
            proof.faults.append(
                f"the head {head} is not in the ledger: it was cut off, or rewritten before there"
            )
        await _check_unsealed(proof, organization, connection)
    return proof


def _head(seal: Seal) -> str:
    return f"{seal.number}:{seal.sha256.hex()}"


def _check_seal(
    proof: Proof,
    organization: UUID,
    before: Seal | None,
    seal: Seal,
    entries: Sequence[Stored],
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


def _check_entries(proof: Proof, organization: UUID, entries: Sequence[Stored]) -> None:
    for entry in entries:
        proof.entries += 1
        if entry.sha256 != ledger.digest(organization, entry, entry.personal_sha256, entry.occurred_at):
            proof.faults.append(f"entry {entry.id} was changed")
        if entry.personal_sha256 is None:
            continue
        if entry.salt is None:
            proof.purged += 1
        elif entry.personal_sha256 != ledger.personal_digest(entry.salt, entry.personal):
            proof.faults.append(f"the personal values of entry {entry.id} were changed")


async def _check_unsealed(proof: Proof, organization: UUID, connection: Connection) -> None:
    after = 0
    while entries := await ledger.unsealed(connection, after=after, limit=BATCH):
        _check_entries(proof, organization, entries)
        proof.unsealed += len(entries)
        after = entries[-1].id
