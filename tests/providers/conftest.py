"""Both providers over one simulator: each contract test runs twice. Waits only move clocks."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from secrets import token_urlsafe

import pytest

from postroom.model import ContentPolicy, Login, Secret
from postroom.ports import Provider
from postroom.providers import registry
from postroom.providers.rate_limit import Clock
from postroom.providers.transport import open_client
from providers.consent import consent
from simulator.driver import Simulation, running

_numbers = count(1)
REDIRECT = "http://127.0.0.1:9/oauth/callback"
TOPIC = "projects/mailsim/topics/gmail"
TOKEN = "shared-between-us"


@pytest.fixture(scope="module")
def shared():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def sim(shared: Simulation):
    yield shared
    shared.delete("faults")
    shared.delete("microsoft/refusals")


@dataclass
class Tokens:
    """A token source that counts how often a token was refused."""

    provider: Provider
    access: Secret
    refresh: Secret | None
    refused: list[Secret] = field(default_factory=list)

    async def get_token(self) -> Secret:
        return self.access

    async def replace_rejected(self, refused: Secret) -> Secret:
        self.refused.append(refused)
        assert self.refresh
        self.access = (await self.provider.login.refresh(self.refresh, frozenset())).access
        return self.access

    async def find_newer(self, denied: Secret) -> Secret | None:
        return None if denied == self.access else self.access


@dataclass
class Contract:
    """One provider, one account there, and the simulator behind both."""

    provider: Provider
    address: str
    sim: Simulation

    async def wait(self, **duration: float) -> None:
        """The clock moves on."""
        await asyncio.to_thread(self.sim.move_clock, timedelta(**duration).total_seconds())

    def new_login(self, **options) -> Login:
        state = Secret(f"state-{next(_numbers)}")
        policy = options.pop("policy", ContentPolicy.FULL)
        return Login(state, Secret(token_urlsafe(48)), REDIRECT, policy, **options)

    async def code(self, login: Login, **options) -> Secret:
        url = self.provider.login.authorization_url(login)
        answer = await consent(url, self.address, **options)
        assert answer["state"] == login.state.reveal()
        return Secret(answer["code"])

    async def connect(self, *, folder: str | None = None, **options):
        login = self.new_login(**options)
        grant = await self.provider.login.exchange(login, await self.code(login))
        tokens = Tokens(self.provider, grant.tokens.access, grant.tokens.refresh)
        return grant, tokens, self.provider.mailbox(grant.account.provider_user_id, tokens, folder)


@dataclass
class Hurried:
    """A clock that moves only while something sleeps, together with the simulator's."""

    sim: Simulation
    now: float = 0.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        await asyncio.to_thread(self.sim.move_clock, seconds)
        self.now += seconds


def gmail(sim: Simulation, client, clock: Clock | None = None) -> Provider:
    known = sim.ready["clients"]["gmail"]
    return registry.build_gmail(
        client,
        registry.GoogleProject(
            client_id=known["client_id"],
            client_secret=Secret(known["client_secret"]),
            topic=TOPIC,
            subscription=None,
            audience=None,
            service_account=None,
            shared_token=Secret(TOKEN),
            accounts_url=sim.http,
            token_url=sim.http,
            certs_url=sim.http,
            api_url=sim.http,
        ),
        clock or Hurried(sim).clock(),
    )


def graph(sim: Simulation, client) -> Provider:
    known = sim.ready["clients"]["outlook"]
    return registry.build_graph(
        client,
        registry.EntraApplication(
            client_id=known["client_id"],
            client_secret=Secret(known["client_secret"]),
            tenant="organizations",
            login_url=sim.http,
            api_url=sim.http,
        ),
        Hurried(sim).clock(),
    )


@pytest.fixture(params=[gmail, graph], ids=["gmail", "graph"])
async def contract(request, sim: Simulation) -> AsyncGenerator[Contract]:
    async with open_client() as client:
        provider = request.param(sim, client)
        address = f"person{next(_numbers)}@example.com"
        sim.create(provider.name, address, messages=3)
        yield Contract(provider, address, sim)
