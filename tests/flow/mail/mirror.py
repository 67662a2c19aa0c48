"""A mailbox being mirrored from a provider in memory, and what the store has of it."""

from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from hashlib import sha256

from flow.mail.fake_provider import FakeMailbox
from postroom.flow.mail import sync
from postroom.flow.mail.sync import SyncContext
from postroom.model import MailboxId, OrganizationId, ProviderName, WorkKind
from postroom.ports import Blob
from postroom.store import mailboxes, notifications, work
from postroom.store.database import Database
from postroom.store.notifications import MailboxNotification, NotifiedMailbox
from postroom.store.work import WorkRequest


@dataclass
class MemoryBlobs:
    """Bytes kept in memory."""

    kept: dict[bytes, bytes] = field(default_factory=dict)

    async def put(self, organization, content) -> Blob:
        if isinstance(content, AsyncIterable):
            content = b"".join([piece async for piece in content])
        digest = sha256(content).digest()
        created = digest not in self.kept
        self.kept[digest] = content
        return Blob(digest, len(content), created=created)


@dataclass
class Mirror:
    remote: FakeMailbox
    database: Database
    owner: object
    organization: OrganizationId
    mailbox: MailboxId
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)

    def build_context(self, **changed) -> SyncContext:
        given = {
            "database": self.database,
            "remote": lambda _: self.remote,
            "blobs": self.blobs,
            "sweep_seconds": dict.fromkeys(ProviderName, 900.0),
            "sweep_stretch": dict.fromkeys(ProviderName, 1),
            "backfill_days": 30,
            "slice_seconds": 60,
            "covers_sender": lambda *_: True,
        }
        return SyncContext(**given | changed)

    async def hint(self, *keys: str, missed: bool = False) -> None:
        reached = NotifiedMailbox(self.organization, self.mailbox)
        async with self.database.engine() as connection:
            await notifications.record_notifications(
                connection,
                [MailboxNotification(reached, keys, missed)],
                [],
                [WorkRequest(self.organization, WorkKind.SYNC, str(self.mailbox))],
            )

    async def claim(self):
        async with self.database.engine() as connection:
            await work.enqueue(connection, [WorkRequest(self.organization, WorkKind.SYNC, str(self.mailbox))])
            claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=60)
        [lease] = claim.leases
        return lease

    async def sync(self, **changed) -> None:
        """One run, by itself."""
        self.remote.calls.clear()
        await sync.run(self.build_context(**changed), await self.claim())

    async def settle(self) -> None:
        """Runs until nothing is to be done at once."""
        while True:
            await self.sync()
            if not await self.one("SELECT due_at <= postroom_now() FROM work WHERE kind = 'sync'"):
                return

    async def one(self, query: str, *parameters):
        row = await (await self.owner.execute(query.encode(), parameters)).fetchone()
        return row[0] if row else None

    async def rows(self, query: str, *parameters) -> list[tuple]:
        return await (await self.owner.execute(query.encode(), parameters)).fetchall()

    async def events(self, key: str) -> list[tuple]:
        return await self.rows(
            """
            SELECT kind, a.provider_folder_id, b.provider_folder_id, labels_added, labels_removed, changed
            FROM mail_events JOIN messages ON messages.id = message_id
            LEFT JOIN folders a ON a.id = from_folder_id LEFT JOIN folders b ON b.id = to_folder_id
            WHERE provider_message_id = %s ORDER BY mail_events.id
            """,
            key,
        )

    async def get(self):
        async with self.database.transaction(self.organization) as connection:
            return await mailboxes.get(connection, self.mailbox)

    async def assert_mirrors(self, *, but: set[str] = frozenset(), left: set[str] = frozenset()) -> None:
        """The store shows what the provider has, row by row. What left the scope is still in its thread."""
        stored = await self.rows(
            """
            SELECT provider_message_id, provider_thread_id, provider_folder_id, messages.labels, is_read,
                is_flagged, is_draft, messages.subject, body_plain, (
                    SELECT array_agg(encode(sha256, 'hex') ORDER BY part) FROM attachments
                    WHERE message_id = messages.id)
            FROM messages JOIN threads ON threads.id = thread_id
            LEFT JOIN folders ON folders.id = folder_id
            LEFT JOIN message_contents ON message_id = messages.id
            WHERE messages.mailbox_id = %s AND messages.deleted_at IS NULL AND left_at IS NULL ORDER BY 1
            """,
            self.mailbox,
        )
        out = but | left
        assert stored == [_row(item) for key, item in sorted(self.remote.items.items()) if key not in out]
        await self._assert_threads(but)
        await self._assert_ledger()

    async def _assert_threads(self, but: set[str]) -> None:
        expected: dict[str, int] = {}
        for key, item in self.remote.items.items():
            if key not in but:
                expected[item.state.thread] = expected.get(item.state.thread, 0) + 1
        rows = await self.rows(
            "SELECT provider_thread_id, message_count FROM threads WHERE mailbox_id = %s", self.mailbox
        )
        assert {key: count for key, count in rows if count} == expected

    async def _assert_ledger(self) -> None:
        recorded = await self.rows(
            "SELECT entity_id::bigint FROM ledger WHERE event_type = 'MESSAGE_INGESTED' ORDER BY 1"
        )
        assert recorded == await self.rows("SELECT id FROM messages ORDER BY 1")


def _row(item) -> tuple:
    state = item.state
    digests = [sha256(each.content).hexdigest() for each in item.attachments] or None
    return (
        item.key,
        state.thread,
        state.folder,
        sorted(state.labels or ()),
        state.is_read,
        state.is_flagged,
        state.is_draft,
        item.subject,
        item.body,
        digests,
    )
