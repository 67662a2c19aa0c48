"""Verification of the ledger: every digest, MAC, link, signature and purge, in bounded memory.

Signatures need only the public keys; MACs need the keys in `ledger.macs`. Without these, the result says how
many MACs were not checked. The sealer checked those of sealed entries before it signed. The ledger must
contain the heads that were kept outside the database or published. Otherwise entries were cut off at its end.
Nothing is written: a verification must not vouch for the heads that later ones compare.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final
from uuid import UUID

from postroom.model import OrganizationId
from postroom.store import ledger, organizations
from postroom.store.database import Database
from postroom.store.database_errors import is_unreadable_row
from postroom.store.entry_macs import MacKeys
from postroom.store.ledger import MAX_SEALED, LedgerEntry, Seal
from postroom.vault import LedgerHeads

MAX_FAULTS: Final = 1000

# Whether a signature by the key with this id is valid; None if the key is unknown.
SignatureCheck = Callable[[str, bytes, bytes], bool | None]


@dataclass
class LedgerVerification:
    """The result of a verification. The ledger is intact if there are no faults."""

    entries: int = 0
    purged: int = 0
    unsealed: int = 0
    seals: int = 0
    without_mac: int = 0  # written by earlier versions
    authenticated_from: int | None = None  # the first position whose entry is sealed with its MAC
    unchecked_entries: int = 0  # their MACs are of keys that are not known here
    unchecked_purges: int = 0
    checked_heads: int = 0  # without any, entries may have been cut off at the end
    head: str | None = None
    faults: list[str] = field(default_factory=list[str])

    def add_fault(self, fault: str) -> None:
        """Add a fault. Beyond the first thousand, only their existence matters."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)
        elif len(self.faults) == MAX_FAULTS:
            self.faults.append("there are more faults")


async def verify(
    database: Database, organization: UUID, check: SignatureCheck, *, heads: Iterable[str] = ()
) -> LedgerVerification:
    """Verify the whole ledger. `heads`: kept or published before, or printed by an earlier verification.

    Works in batches, each read in its own transaction and computed in a thread, so a long ledger blocks
    nothing.
    """
    async with database.transaction(organization) as connection:
        last_seal = await ledger.get_last_seal(connection)
        boundary = await ledger.get_boundary(connection)
    is_closed = last_seal is not None and last_seal.version > 1
    run = _Run(
        organization,
        check,
        await asyncio.to_thread(database.entry_macs.load),
        0 if is_closed else boundary,
        is_closed=is_closed,
    )
    for check_part in (_check_seals, _check_rest):
        try:
            await check_part(database, organization, run)
        except Exception as error:
            if not is_unreadable_row(error):
                raise
            run.result.add_fault(f"an entry cannot be read ({type(error).__name__}): it was changed")
    await _check_heads(database, organization, run.result, heads)
    return run.result


async def verify_organizations(
    database: Database,
    check: SignatureCheck,
    kept: LedgerHeads,
    *,
    only: UUID | None = None,
    heads: Sequence[str] = (),
) -> list[tuple[OrganizationId, LedgerVerification]]:
    """Verify the ledgers of all organizations, or of one. An unknown one has no result.

    An organization that is not in the database, but has a known head, lost its whole ledger.
    """
    async with database.engine() as connection:
        present = await organizations.list_ids(connection)
    missing = await asyncio.to_thread(kept.list_organizations) - set(present)
    fault = "the organization is not in the database, but a head of its ledger is known"
    return [
        (each, await verify(database, each, check, heads=chain(heads, kept.list_known(each))))
        for each in present
        if only in {None, each}
    ] + [
        (OrganizationId(each), LedgerVerification(faults=[fault]))
        for each in sorted(missing)
        if only in {None, each}
    ]


async def _check_seals(database: Database, organization: UUID, run: "_Run") -> None:
    while batch := await _load_seals(database, organization, run.previous):
        await asyncio.to_thread(run.check_seals, batch)
        run.result.head = run.previous.head if run.previous else None


async def _check_heads(
    database: Database, organization: UUID, result: LedgerVerification, heads: Iterable[str]
) -> None:
    """Find known heads that are not in the ledger. There may be many, so they make one fault."""
    remaining, newest, count = iter(heads), "", 0
    while batch := await asyncio.to_thread(lambda: set(islice(remaining, MAX_SEALED))):
        result.checked_heads += len(batch)
        async with database.transaction(organization) as connection:
            missing = await ledger.list_missing_heads(connection, sorted(batch))
        count += len(missing)
        newest = max([newest, *missing], key=lambda head: int(head.partition(":")[0] or 0))
    if count:
        others = f" ({count - 1} other known heads are missing too)" if count > 1 else ""
        result.add_fault(
            f"head {newest} is not in the ledger{others}: the ledger was truncated, or rewritten before that"
            " seal"
        )


async def _load_seals(
    database: Database, organization: UUID, previous: Seal | None
) -> list[tuple[Seal, list[LedgerEntry]]]:
    """Load the next seals with their entries: as many as cover a batch without a gap, at least one."""
    async with database.transaction(organization) as connection:
        after = previous.number if previous else 0
        seals = _select_batch(await ledger.list_seals(connection, after=after, limit=MAX_SEALED // 10))
        if not seals:
            return []
        first, last = seals[0].first_position, seals[-1].last_position
        entries = await ledger.list_between(connection, first, last, limit=MAX_SEALED)
    by_seal: list[tuple[Seal, list[LedgerEntry]]] = []
    start = 0
    for seal in seals:
        end = bisect_right(entries, seal.last_position, lo=start, key=_get_position)
        by_seal.append((seal, entries[start:end]))
        start = end
    return by_seal


def _select_batch(seals: Sequence[Seal]) -> list[Seal]:
    """The first of these seals, and those that follow it as long as they cover at most a batch."""
    batch = list(seals[:1])
    for seal in seals[1:]:
        is_adjacent = seal.first_position == batch[-1].last_position + 1 <= seal.last_position
        if not is_adjacent or seal.last_position - batch[0].first_position >= MAX_SEALED:
            break
        batch.append(seal)
    return batch


def _get_position(entry: LedgerEntry) -> int:
    assert entry.position is not None, "selected by their positions"
    return entry.position


async def _check_rest(database: Database, organization: UUID, run: "_Run") -> None:
    """Check the entries that are not sealed yet, and find rows that no seal can cover."""
    after, is_last = ledger.BEFORE_ALL, False
    while not is_last:
        async with database.transaction(organization) as connection:
            entries = await ledger.list_unsealed(connection, after=after, limit=MAX_SEALED)
        await asyncio.to_thread(run.check_unsealed, entries)
        after, is_last = entries[-1].id if entries else after, len(entries) < MAX_SEALED
    async with database.transaction(organization) as connection:
        stray_entries, stray_seals, same_ids, same_numbers = await ledger.count_stray_rows(connection)
    if stray_entries:
        run.result.add_fault(f"{stray_entries} entries have positions outside the seals: they were forged")
    if stray_seals:
        run.result.add_fault(f"{stray_seals} seals have numbers below 1: they were forged")
    if same_ids:
        run.result.add_fault(f"{same_ids} entries have the id of another entry: they were copied")
    if same_numbers:
        run.result.add_fault(f"{same_numbers} seals have the number of another seal: they were copied")


@dataclass
class _Run:
    """One verification.

    Entries up to the id `boundary` may be unsealed without a MAC. `is_closed`: a seal covers MACs, so every
    purge is recorded.
    """

    organization: UUID
    check: SignatureCheck
    macs: MacKeys
    boundary: int
    is_closed: bool
    previous: Seal | None = None
    result: LedgerVerification = field(default_factory=LedgerVerification)

    def check_seals(self, batch: Sequence[tuple[Seal, list[LedgerEntry]]]) -> None:
        for seal, entries in batch:
            self._check_place(seal)
            self._check_content(seal, entries)
            if seal.version > 1 and self.result.authenticated_from is None:
                self.result.authenticated_from = seal.first_position
            for entry in entries:
                self._check_entry(entry, needs_mac=seal.version > 1, is_sealed=True)
            self.previous = seal

    def check_unsealed(self, entries: Sequence[LedgerEntry]) -> None:
        self.result.unsealed += len(entries)
        for entry in entries:
            self._check_entry(entry, needs_mac=not 0 < entry.id <= self.boundary, is_sealed=False)

    def _check_place(self, seal: Seal) -> None:
        """Check that a seal follows the previous one."""
        previous, name = self.previous, f"seal {seal.number}"
        self.result.seals += 1
        if seal.number != (previous.number + 1 if previous else 1):
            self.result.add_fault(f"{name} does not follow the previous seal: one is missing")
        if seal.first_position != (previous.last_position + 1 if previous else 1):
            self.result.add_fault(f"{name} does not start where the previous seal ends")
        if seal.previous_sha256 != (previous.sha256 if previous else None):
            self.result.add_fault(f"{name} is not chained to the previous seal")
        if seal.version not in {1, 2} or (previous is not None and seal.version < previous.version):
            self.result.add_fault(f"{name} has the wrong version {seal.version}")

    def _check_content(self, seal: Seal, entries: Sequence[LedgerEntry]) -> None:
        """Check that a seal covers its entries and is signed."""
        name = f"seal {seal.number}"
        places = [entry.position for entry in entries]
        first, last = seal.first_position, seal.last_position
        if len(places) != last - first + 1 or places != list(range(first, first + len(places))):
            self.result.add_fault(f"{name} covers missing entries")
        expected = ledger.seal_digest(
            seal.previous_sha256, seal.number, first, last, entries, version=seal.version
        )
        if seal.sha256 != expected:
            self.result.add_fault(f"{name} does not match its entries")
        signed = self.check(seal.key_id, seal.signature, ledger.signed_bytes(self.organization, seal.sha256))
        if signed is None:
            self.result.add_fault(f"{name} is signed with the unknown key {seal.key_id}")
        elif not signed:
            self.result.add_fault(f"{name} has an invalid signature")

    def _check_entry(self, entry: LedgerEntry, *, needs_mac: bool, is_sealed: bool) -> None:
        self.result.entries += 1
        digest = ledger.entry_digest(self.organization, entry, entry.personal_sha256, entry.occurred_at)
        if entry.sha256 != digest:
            self.result.add_fault(f"entry {entry.id} was changed")
        data = ledger.entry_mac_data(self.organization, entry.id, entry.sha256)
        if entry.mac is not None:
            if not self._check_mac(f"entry {entry.id}", entry.mac, data, is_sealed=is_sealed):
                self.result.unchecked_entries += 1
        elif needs_mac:
            self.result.add_fault(f"entry {entry.id} has no MAC: Postroom did not write it")
        else:
            self.result.without_mac += 1
        self._check_personal(entry)
        recorded = entry.payload.get("entries") if entry.event_type == ledger.PURGE_EVENT else 0
        if entry.purged_entries != recorded:
            self.result.add_fault(
                f"entry {entry.id} records {recorded} purges, but {entry.purged_entries} entries name it"
            )

    def _check_mac(self, name: str, mac: bytes, data: bytes, *, is_sealed: bool = False) -> bool:
        """Check a MAC, and return False if its key is unknown, so that it cannot be checked here.

        Where other keys are known, that is a fault, unless a seal shows that the sealer knew the key.
        """
        is_valid = self.macs.check(mac, data)
        if is_valid is None:
            if is_sealed or not self.macs.by_id:
                return False
            self.result.add_fault(f"{name} has a MAC of the key {mac[:8].hex()}, which is not known here")
        elif not is_valid:
            self.result.add_fault(f"{name} has an invalid MAC: Postroom did not write it")
        return True

    def _check_personal(self, entry: LedgerEntry) -> None:
        """Check that personal values are those that were written, or that Postroom purged them."""
        if entry.salt is not None:
            if entry.personal_sha256 != ledger.personal_digest(entry.salt, entry.personal):
                self.result.add_fault(f"the personal values of entry {entry.id} were changed")
            if entry.purge_mac is not None:
                self.result.add_fault(f"the personal values of entry {entry.id} are back after their purge")
        elif entry.personal_sha256 is not None:
            self.result.purged += 1
            self._check_purge(entry)

    def _check_purge(self, entry: LedgerEntry) -> None:
        if entry.purge_mac is None or entry.purge_entry_id is None:
            if self.is_closed or entry.mac is not None:
                self.result.add_fault(f"the personal values of entry {entry.id} were deleted without a purge")
            return
        if entry.purge_event_type != ledger.PURGE_EVENT:
            self.result.add_fault(f"entry {entry.id} was purged by something that is not a purge")
        data = ledger.purge_mac_data(self.organization, entry.id, entry.sha256, entry.purge_entry_id)
        if not self._check_mac(f"the purge of entry {entry.id}", entry.purge_mac, data):
            self.result.unchecked_purges += 1
