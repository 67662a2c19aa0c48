"""The work `seal`: number the feed, and seal the ledger.

Only entries with a valid MAC are sealed; others stay without a position, and the verification reports them.
Entries that earlier versions wrote without MACs are sealed first, once, in seals of version 1. The newest
head is then published, and kept outside the database. The digests are defined in `store.ledger`, the keys in
`vault`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from postroom.errors import DatabaseUnavailable, OperatorError, TransientError
from postroom.flow.outbound import deliver
from postroom.logs import Log
from postroom.model import OrganizationId, StepResult, WorkKind
from postroom.store import feed, ledger, webhooks, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.entry_macs import MacKeys
from postroom.store.ledger import NewLedgerEntry, Seal, Signer, UnsealedEntry
from postroom.store.notifier import FEED_CHANNEL
from postroom.store.work import Lease, WorkRequest
from postroom.vault import LedgerHeads

# After a head could not be kept or published. Until then the feed is still numbered whenever it grows.
RETRY_HEAD_SECONDS: Final = 60

log = Log()


@dataclass(frozen=True)
class SealContext:
    """Collaborators of the sealer. `find_signer` returns the current key, and creates it if there is none."""

    database: Database
    find_signer: Callable[[], Signer]
    heads: LedgerHeads


async def run(context: SealContext, lease: Lease) -> StepResult:
    """Number and seal what was committed, then keep the head. After a crash, the next run keeps it."""
    numbered = feed.BATCH
    while numbered == feed.BATCH:
        async with work.fenced_transaction(context.database, lease) as connection:
            numbered = await feed.assign_positions(connection)
            behind = await webhooks.list_behind(connection)
            await work.enqueue(
                connection, [WorkRequest(lease.organization, WorkKind.DELIVER, str(each)) for each in behind]
            )
    macs = await asyncio.to_thread(context.database.entry_macs.load)
    sealing = _Sealing(context, lease, context.find_signer(), macs)
    while not sealing.is_finished:
        async with work.fenced_transaction(context.database, lease) as connection:
            await sealing.seal_batch(connection)
            if sealing.is_finished and sealing.sealed:
                await _announce_head(connection, lease.organization)
    if sealing.waiting:
        log.warning("ledger.entries_waiting", organization=lease.organization, count=sealing.waiting)
    if sealing.forged:
        log.error("ledger.entries_forged", organization=lease.organization, count=sealing.forged)
    try:
        await keep_head(context.database, context.heads, lease.organization)
    except OperatorError as error:
        # A failed step would wait for its backoff, and with it the feed.
        log.warning("ledger.head_not_kept", organization=lease.organization, error=error)
        return StepResult(again_after=RETRY_HEAD_SECONDS)
    return StepResult()


@dataclass
class _Sealing:
    """One run of the sealer: how far it has read, and what it found."""

    context: SealContext
    lease: Lease
    signer: Signer
    macs: MacKeys
    after: int = ledger.BEFORE_ALL
    sealed: int = 0
    waiting: int = 0  # their key is not known here: sealed once it is
    forged: int = 0  # without a valid MAC: never sealed
    is_finished: bool = False

    async def seal_batch(self, connection: Connection) -> None:
        """Seal the next entries with valid MACs, and skip the others."""
        last_seal = await ledger.get_last_seal(connection)
        if (last_seal is None or last_seal.version == 1) and self.after == ledger.BEFORE_ALL:
            boundary = await ledger.get_boundary(connection)
            if boundary and await self._seal_earlier(connection, boundary, last_seal):
                return
        entries = await ledger.list_entries_to_seal(connection, after=self.after, limit=ledger.MAX_SEALED)
        checks = [self._check_mac(entry) for entry in entries]
        valid = [entry for entry, is_valid in zip(entries, checks, strict=True) if is_valid]
        if valid:
            await self._seal(connection, valid, last_seal, version=2)
        self.waiting += checks.count(None)
        self.forged += checks.count(False)
        self.is_finished = len(entries) < ledger.MAX_SEALED
        self.after = entries[-1].id if entries else self.after

    async def _seal_earlier(self, connection: Connection, boundary: int, last_seal: Seal | None) -> bool:
        """Seal what an earlier version wrote, one batch; False if nothing was left.

        Then an entry with a MAC follows. Its seal, of version 2, ends the time in which others are accepted.
        """
        earlier = await ledger.list_earlier_entries(connection, boundary, limit=ledger.MAX_SEALED)
        if earlier:
            await self._seal(connection, earlier, last_seal, version=1)
            return True
        if await ledger.record_earlier_purges(connection, boundary, limit=ledger.MAX_SEALED):
            return True
        organization = self.lease.organization
        payload = {"earlier_entries": last_seal.last_position if last_seal else 0}
        entry = NewLedgerEntry(
            ledger.AUTHENTICATION_EVENT, "organization", str(organization), payload=payload
        )
        await ledger.append_entries(connection, organization, [entry])
        return False

    async def _seal(
        self,
        connection: Connection,
        entries: Sequence[UnsealedEntry],
        last_seal: Seal | None,
        *,
        version: int,
    ) -> None:
        organization = self.lease.organization
        await ledger.seal_entries(connection, organization, self.signer, entries, last_seal, version=version)
        self.sealed += len(entries)

    def _check_mac(self, entry: UnsealedEntry) -> bool | None:
        """Whether Postroom wrote the entry; None if the key of its MAC is not known here."""
        if entry.mac is None:
            return False
        data = ledger.entry_mac_data(self.lease.organization, entry.id, entry.sha256)
        return self.macs.check(entry.mac, data)


async def _announce_head(connection: Connection, organization: UUID) -> None:
    """Append the newest head to the feed, if a webhook asks for it, so that it is known elsewhere too."""
    filters = await webhooks.list_filters(connection)
    if any(deliver.matches_filter(kinds, "ledger.sealed") for kinds in filters):
        last_seal = await ledger.get_last_seal(connection)
        assert last_seal is not None, "sealed in this run"
        data = {"head": last_seal.head, "entries": last_seal.last_position}
        await feed.append_event(connection, "ledger.sealed", "ledger", str(organization), data)


async def keep_head(database: Database, heads: LedgerHeads, organization: UUID) -> None:
    """Publish the newest head and keep it outside the database, if it extends those from before.

    A head that is missing from the ledger stays the newest one: it is the evidence of a truncation.
    """
    before = await asyncio.to_thread(heads.list_newest, organization)
    async with database.transaction(organization) as connection:
        last_seal = await ledger.get_last_seal(connection)
        missing = await ledger.list_missing_heads(connection, before)
    if missing:
        log.error("ledger.truncated", organization=organization)
    elif last_seal is not None:
        await asyncio.to_thread(heads.keep, organization, last_seal.head)


async def keep_scheduled(database: Database) -> None:
    """Enqueue sealing for organizations with new entries or events, forever.

    Writers only notify, so they do not contend for a row. Commits that were missed are found at the start and
    once a minute.
    """
    async for notified in database.listen(FEED_CHANNEL, every_seconds=60):
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
