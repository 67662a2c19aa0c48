"""The webhooks on a real socket over a real database, and what a test needs to push to them."""

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_network
from uuid import UUID, uuid4

import httpx2
import uvicorn

from postroom.model import OrganizationId, ProviderName, Secret
from postroom.providers import registry
from postroom.providers.transport import open_client
from postroom.web import app, push
from postroom.web.push_admission import WAITING_SINCE
from web.sign_in_support import build_site

TOKEN = "shared-between-us"
SUBSCRIPTION = "projects/mailsim/subscriptions/push"
ACCOUNT = "pusher@mailsim.iam.gserviceaccount.com"
AUDIENCE = "https://postroom.example/push"


@asynccontextmanager
async def serve(application) -> AsyncGenerator[str]:
    """The address of an application that answers on a socket of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        configuration = uvicorn.Config(application, log_config=None, lifespan="off", proxy_headers=False)
        server = uvicorn.Server(configuration)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


def google_project(certs_url: str = "http://127.0.0.1:9", *, signed: bool = False) -> registry.GoogleProject:
    return registry.GoogleProject(
        client_id="x",
        client_secret=Secret("x"),
        topic="projects/mailsim/topics/gmail",
        subscription=SUBSCRIPTION,
        audience=AUDIENCE if signed else None,
        service_account=ACCOUNT if signed else None,
        shared_token=Secret(TOKEN),
        accounts_url=certs_url,
        token_url=certs_url,
        certs_url=certs_url,
        api_url=certs_url,
    )


MICROSOFT = registry.EntraApplication(
    "x", Secret("x"), "organizations", "http://127.0.0.1:9", "http://127.0.0.1:9"
)


@dataclass
class PushServer:
    """A running web process; `client` asks it, `url` is where others find it."""

    url: str
    client: httpx2.AsyncClient

    async def push(self, path: str, *items: dict, again: bool = True, **options) -> int:
        """The status for a batch of Graph's items, sent again when asked to, as the provider does."""
        for _ in range(30):
            answer = await self.client.post(path, json={"value": list(items)}, **options)
            if answer.status_code != 503 or not again:
                break
        return answer.status_code


@asynccontextmanager
async def open_push_server(
    database, *, trusted: tuple[str, ...] = (), settings=None, waited_seconds: float | None = None
) -> AsyncGenerator[PushServer]:
    """A web process. Pushes have waited for so long in the kernel, if that is given."""
    async with open_client() as client:
        providers = {
            ProviderName.OUTLOOK: registry.build_graph(client, MICROSOFT),
            ProviderName.GMAIL: registry.build_gmail(client, settings or google_project()),
        }
        operator = OrganizationId(uuid4())
        async with push.open_endpoints(database, providers, operator) as routes:
            application = app.create(
                build_site(database, operator),
                push_routes=routes,
                trusted_proxies=tuple(map(ip_network, trusted)),
            )

            async def receive_late(scope, receive, send):
                scope["state"][WAITING_SINCE] = time.monotonic() - waited_seconds
                await application(scope, receive, send)

            async with (
                serve(application if waited_seconds is None else receive_late) as url,
                httpx2.AsyncClient(
                    base_url=url,
                    trust_env=False,
                    timeout=60,
                    # The server closes idle connections: one that is reused late would break a request.
                    limits=httpx2.Limits(max_keepalive_connections=0),
                ) as asking,
            ):
                yield PushServer(url, asking)


@dataclass(frozen=True)
class SubscriptionFixture:
    """A subscription's row and what a genuine notification of it looks like."""

    id: UUID
    mailbox: UUID
    provider_id: str
    secret: str

    @property
    def path(self) -> str:
        return f"/webhooks/outlook/{self.id}"

    def item(self, message: str | None = None, **changed) -> dict:
        reported = {
            "subscriptionId": self.provider_id,
            "subscriptionExpirationDateTime": "2026-11-20T18:23:45.9356913+00:00",
            "clientState": self.secret,
            "changeType": "created",
            "tenantId": "84bd8158-6d4d-4958-8b9f-9d6445542f95",
            "resource": f"Users/u1/Messages/{message}",
            "resourceData": {"@odata.type": "#Microsoft.Graph.Message", "id": message},
        }
        return reported | changed

    def lifecycle(self, event: str, **changed) -> dict:
        reported = {
            "subscriptionId": self.provider_id,
            "subscriptionExpirationDateTime": "2026-11-20T11:00:00.0000000Z",
            "tenantId": "84bd8158-6d4d-4958-8b9f-9d6445542f95",
            "clientState": self.secret,
            "lifecycleEvent": event,
        }
        return reported | changed


async def insert_subscription(
    owner, organization, mailbox, *, confirmed=True, replaced_days=None
) -> SubscriptionFixture:
    secret, provider_id = secrets.token_urlsafe(32), secrets.token_hex(16)
    cursor = await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, provider_subscription_id, resource,
            notification_url, client_state_sha256, replaced_at)
        VALUES (%s, %s, %s, 'users/u1/messages', 'https://postroom.example/', %s,
            postroom_now() - %s * interval '1 day')
        RETURNING id
        """,
        [
            organization,
            mailbox,
            provider_id if confirmed else None,
            sha256(secret.encode()).digest(),
            replaced_days,
        ],
    )
    [row] = await cursor.fetchall()
    return SubscriptionFixture(row[0], mailbox, provider_id, secret)


async def list_due_mailboxes(owner, kind="sync") -> set[UUID]:
    """The mailboxes for which this kind of work is due."""
    cursor = await owner.execute(
        "SELECT subject FROM work WHERE kind = %s AND due_at <= postroom_now()", [kind]
    )
    return {UUID(row[0]) for row in await cursor.fetchall()}


async def list_hinted_messages(owner, mailbox) -> set[str]:
    cursor = await owner.execute("SELECT message_ids FROM notifications WHERE mailbox_id = %s", [mailbox])
    return {each for row in await cursor.fetchall() for each in row[0]}
