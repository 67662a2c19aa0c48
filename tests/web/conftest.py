from io import StringIO

import httpx2
import pytest
from argon2 import PasswordHasher

import databases
from postroom import logs
from postroom.config import Settings
from postroom.flow.access import passwords
from postroom.store.health import process_name
from postroom.web import server
from postroom.wiring.engine import open_engine
from store.table_filler import TableFiller
from web.api_client import VAULT_KEYS
from web.sign_in_support import URL, build_site, create_session_cookie


@pytest.fixture(autouse=True)
def password_hasher(monkeypatch):
    """The hasher that members have. In these tests a hash costs as little as Argon2 allows."""
    hasher = passwords._hasher
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    passwords._dummy_hash.cache_clear()
    yield hasher
    passwords._dummy_hash.cache_clear()


@pytest.fixture
async def database(service_url):
    async with databases.open_pools(service_url, name=process_name("web")) as database:
        yield database


@pytest.fixture
async def site(database, organization, tmp_path):
    """The whole application, served in this process."""
    settings = Settings(
        home=tmp_path, vault_keys=VAULT_KEYS, organization=organization, webhook_networks="127.0.0.0/8"
    )
    async with (
        open_engine(settings, database, url=URL) as engine,
        server.open_application(engine) as (application, _),
    ):
        yield application


@pytest.fixture
async def visitor(site, database, organization):
    """A client signed in as an admin of the organization."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site, raise_app_exceptions=False),
        base_url=URL,
        cookies=await create_session_cookie(build_site(database, organization)),
        headers={"origin": URL},
    ) as client:
        yield client


@pytest.fixture
async def filling(owner, organization):
    """A row in every table, for our organization."""
    filler = TableFiller(owner, organization)
    await filler.fill()
    return filler


@pytest.fixture
async def filled(filling, owner, other_organization):
    """A row in every table, for our organization and another one."""
    other = TableFiller(owner, other_organization)
    await other.fill()
    await owner.execute("UPDATE records SET supplier_id = id, supplier_pending = false")
    for each in (filling, other):
        each.whole["records"]["supplier_id"] = each.whole["records"]["id"]
    return [filling, other]


@pytest.fixture
def log():
    """Every log line of this process, at the finest level."""
    written = StringIO()
    logs.configure("web", level="debug", style="json", stream=written)
    return written
