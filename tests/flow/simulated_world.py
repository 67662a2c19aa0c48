"""A Postroom that connects mailboxes at the simulator, in this process: contexts, tokens, logins."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from postroom.config import Settings
from postroom.engine import Engine
from postroom.flow.mailboxes import connect
from postroom.flow.mailboxes.connect import ConnectContext, ConnectedMailbox
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.login_checks import LoginRefusal
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.model import OrganizationId, ProviderName, Secret
from postroom.providers.transport import open_client
from postroom.store import ledger
from postroom.store.database import Database
from postroom.wiring.engine import build_engine
from providers.consent import consent
from simulator.driver import Simulation

TOPIC = "projects/mailsim/topics/gmail"
URL = "http://127.0.0.1:9"
KEYS = "one:" + "A" * 43 + "="
_numbers = count(1)


def settings_given(sim: Simulation) -> dict[str, str]:
    """The settings that make the simulator both providers."""
    google, microsoft = sim.ready["clients"]["gmail"], sim.ready["clients"]["outlook"]
    places = ("google_accounts", "google_token", "google_certs", "gmail", "microsoft_login", "graph")
    return {
        "vault_keys": KEYS,
        "google_client_id": google["client_id"],
        "google_client_secret": google["client_secret"],
        "pubsub_topic": TOPIC,
        "microsoft_client_id": microsoft["client_id"],
        "microsoft_client_secret": microsoft["client_secret"],
    } | {f"{place}_url": sim.http for place in places}


def settings(sim: Simulation, home: Path, **changed) -> Settings:
    return Settings(home=home, **settings_given(sim) | changed)


@dataclass
class SimulatedWorld:
    sim: Simulation
    database: Database
    connect_context: ConnectContext
    tokens: AccessTokens
    organization: OrganizationId
    browser: Secret
    engine: Engine

    def person(self, provider: ProviderName, name: str = "person") -> str:
        """A new account at the provider."""
        address = f"{name}{next(_numbers)}@example.com"
        self.sim.create(provider, address, messages=3)
        return address

    async def begin(self, provider: ProviderName, request: ConnectRequest | None = None, **given) -> str:
        return await connect.begin_login(
            self.connect_context,
            given.get("organization", self.organization),
            provider,
            request or ConnectRequest(),
            browser=given.get("browser", self.browser),
            login_id=given.get("login_id") or uuid4(),
        )

    async def finish(
        self, provider: ProviderName, answer: dict[str, str], **given
    ) -> ConnectedMailbox | LoginRefusal:
        code = answer.get("code")
        return await connect.complete_login(
            self.connect_context,
            provider,
            state=Secret(answer["state"]),
            browser=given.get("browser", self.browser),
            code=Secret(code) if code else None,
            error=answer.get("error"),
        )

    async def login(self, provider, address, request=None, *, decision="allow", untick=(), **given):
        url = await self.begin(provider, request, **given)
        return await self.finish(provider, await consent(url, address, decision=decision, untick=untick))

    async def connected(self, provider, **given):
        """The mailbox of a new account."""
        done = await self.login(provider, self.person(provider), **given)
        assert isinstance(done, ConnectedMailbox), done
        return done.mailbox

    def source(self, mailbox, tokens: AccessTokens | None = None):
        return (tokens or self.tokens).for_mailbox(mailbox.organization, mailbox.id)

    def remote(self, mailbox):
        return self.connect_context.providers[mailbox.provider].mailbox(
            mailbox.provider_user_id, self.source(mailbox)
        )

    def another_process(self) -> AccessTokens:
        """Tokens as a process that just started has them: none in memory."""
        return AccessTokens(
            self.database,
            self.connect_context.providers,
            self.connect_context.vault,
            self.connect_context.sealer,
        )

    async def ledger_events(self, mailbox=None) -> list[str]:
        async with self.database.transaction(self.organization) as connection:
            entries = await ledger.list_newest(connection, limit=100)
        wanted = [each for each in entries if mailbox is None or each.entity_id == str(mailbox.id)]
        return [each.event_type for each in reversed(wanted)]

    def token_calls(self) -> int:
        """How often the token endpoints were asked."""
        return sum(each["path"].endswith("/token") for each in self.sim.get("requests", limit=1000))


def state_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["state"][0]


@asynccontextmanager
async def open_world(
    sim: Simulation, database, organization, home, *, read_seconds: float = 30, **changed
) -> AsyncGenerator[SimulatedWorld]:
    async with open_client(read_seconds=read_seconds) as client:
        engine = build_engine(settings(sim, home, **changed), database, client, url=URL)
        browser = Secret(uuid4().hex)
        yield SimulatedWorld(sim, database, engine.connect, engine.tokens, organization, browser, engine)
