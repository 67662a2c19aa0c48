"""Mailboxes of a simulated provider whose push subscriptions a test can observe."""

import asyncio
import secrets
from dataclasses import dataclass, field
from uuid import UUID

from postroom.errors import PostroomError
from postroom.flow.mailboxes import subscribe
from postroom.flow.mailboxes.subscribe_context import SubscribeContext
from postroom.model import Grant, MailboxId, OrganizationId, ProviderName, WorkKind
from postroom.ports import RemoteMailbox
from postroom.store import work
from postroom.store.database import Database
from postroom.store.mailboxes import Mailbox
from postroom.store.work import WorkRequest
from providers.conftest import Contract
from providers.receiver import Receiver

DAY = 86400
HOUR = 3600
RENEWAL_SECONDS = {ProviderName.OUTLOOK: DAY, ProviderName.GMAIL: DAY}


@dataclass
class SubscribedMailbox:
    """One mailbox, connected; its provider, its receiver, and both clocks."""

    contract: Contract
    receiver: Receiver
    database: Database
    owner: object
    organization: OrganizationId
    mailbox: MailboxId
    grant: Grant
    tokens: dict = field(default_factory=dict)

    @property
    def sim(self):
        return self.contract.sim

    @property
    def base(self) -> str:
        return self.receiver.url.removesuffix("/push")

    def open_mailbox(self, mailbox: Mailbox) -> RemoteMailbox:
        tokens = self.tokens[mailbox.id]
        return self.contract.provider.mailbox(mailbox.provider_user_id, tokens, mailbox.folder)

    def build_context(self, **changed) -> SubscribeContext:
        given = {
            "database": self.database,
            "remote": self.open_mailbox,
            "public_url": self.base,
            "renewal_seconds": RENEWAL_SECONDS,
        }
        return SubscribeContext(**given | changed)

    async def set_app_only(self) -> None:
        """Store an application's own credential. Requests keep the tokens of this object."""
        await self.owner.execute(
            """
            INSERT INTO credentials (organization_id, mailbox_id, kind, tenant_id, client_id, ssm_parameter)
            VALUES (%s, %s, 'app_secret', 'example.com', 'app', '/app')
            """,
            [self.organization, self.mailbox],
        )

    async def wake(self, mailbox: UUID | None = None, organization: UUID | None = None) -> None:
        async with self.database.engine() as connection:
            subject = str(mailbox or self.mailbox)
            await work.enqueue(
                connection, [WorkRequest(organization or self.organization, WorkKind.SUBSCRIBE, subject)]
            )

    async def work_off(self, **changed) -> list[PostroomError]:
        """Do what is due, as a worker does; the errors that it would have backed off from."""
        errors: list[PostroomError] = []
        async with self.database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.SUBSCRIBE], batch=10, lease_seconds=60)
        for lease in claim.leases:
            try:
                await subscribe.run(self.build_context(**changed), lease)
            except PostroomError as error:
                errors.append(error)
                async with self.database.engine() as connection:
                    await work.retry(connection, lease, delay=60, error="again")
        return errors

    async def run(self, **changed) -> list[PostroomError]:
        await self.wake()
        return await self.work_off(**changed)

    async def move(self, seconds: float) -> None:
        """Both clocks advance together."""
        await asyncio.to_thread(self.sim.move_clock, seconds)
        await self.owner.execute(
            "UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", [seconds]
        )

    async def rows(self, mailbox: UUID | None = None) -> list[dict]:
        cursor = await self.owner.execute(
            "SELECT to_jsonb(subscriptions) FROM subscriptions WHERE mailbox_id = %s ORDER BY created_at",
            [mailbox or self.mailbox],
        )
        return [row[0] for row in await cursor.fetchall()]

    async def live_row(self, mailbox: UUID | None = None) -> dict:
        [row] = [
            row for row in await self.rows(mailbox) if row["status"] == "active" and not row["replaced_at"]
        ]
        assert row["confirmed_at"]
        return row

    async def health(self, mailbox: UUID | None = None) -> tuple[str, str | None]:
        cursor = await self.owner.execute(
            "SELECT health, last_error FROM mailboxes WHERE id = %s", [mailbox or self.mailbox]
        )
        return await cursor.fetchone()

    async def events(self) -> list[str]:
        cursor = await self.owner.execute(
            "SELECT event_type FROM ledger WHERE entity_type = 'subscription' ORDER BY id"
        )
        return [row[0] for row in await cursor.fetchall()]

    async def due_in(self) -> float | None:
        cursor = await self.owner.execute(
            "SELECT extract(epoch FROM due_at - postroom_now())::float8 FROM work WHERE kind = 'subscribe'"
        )
        row = await cursor.fetchone()
        return row[0] if row else None

    def remote_subscriptions(self) -> list[dict]:
        """The subscriptions that exist at the provider."""
        return self.sim.get(f"mailboxes/{self.contract.address}")["subscriptions"]

    def calls(self, endpoint: str) -> list[dict]:
        """The requests of this mailbox to an endpoint, the oldest first."""
        return self.sim.get("requests", mailbox=self.contract.address, endpoint=endpoint, limit=1000)[::-1]

    async def assert_one_live(self) -> None:
        """Exactly one subscription at the provider, and it is the one that the live row knows."""
        row = await self.live_row()
        [found] = self.remote_subscriptions()
        if found["kind"] == "subscription":
            assert (found["id"], found["url"]) == (row["provider_subscription_id"], row["notification_url"])
            assert found["lifecycle"] == found["url"] == f"{self.base}/webhooks/outlook/{row['id']}"


async def insert_mailbox(owner, organization, provider: str, account, *, folder=None) -> MailboxId:
    cursor = await owner.execute(
        """
        INSERT INTO mailboxes (organization_id, provider, account_id, provider_user_id, address,
            content_policy, folder)
        VALUES (%s, %s, %s, %s, %s, 'full', %s) RETURNING id
        """,
        [
            organization,
            provider,
            account.account_id or secrets.token_hex(4),
            account.provider_user_id,
            account.address.lower(),
            folder,
        ],
    )
    [row] = await cursor.fetchall()
    return MailboxId(row[0])
