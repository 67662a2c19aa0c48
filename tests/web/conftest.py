import logging
import sys
from io import StringIO

import httpx2
import pytest
import structlog

from postroom import logs
from postroom.config import Settings
from postroom.store.database import open_database
from postroom.store.health import process_name
from postroom.web import server
from store.rows import Filling
from web.calling import VAULT_KEYS
from web.signing import URL, cookie_of, gate_of


@pytest.fixture
async def database(database_url):
    async with open_database(database_url, pool_size=3, name=process_name("web")) as database:
        yield database


@pytest.fixture
async def site(database, organization, tmp_path):
    """All that a Postroom serves, in this process."""
    settings = Settings(
        home=tmp_path, vault_keys=VAULT_KEYS, organization=organization, webhook_networks="127.0.0.0/8"
    )
    async with server.application(settings, database, URL) as (made, _):
        yield made


@pytest.fixture
async def visitor(site, database, organization):
    """An admin of the organization, before the pages."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site, raise_app_exceptions=False),
        base_url=URL,
        cookies=await cookie_of(gate_of(database, organization)),
        headers={"origin": URL},
    ) as client:
        yield client


@pytest.fixture
async def filled(owner, organization, other_organization):
    """A row of everything, ours and theirs."""
    found = []
    for each in (organization, other_organization):
        filling = Filling(owner, each)
        await filling.fill()
        found.append(filling)
    return found


@pytest.fixture
def log():
    """Every log line of this process, at the finest level."""
    hook, root = sys.excepthook, logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written = StringIO()
    logs.configure("web", level="debug", style="json", stream=written)
    yield written
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:], sys.excepthook = handlers, hook
    root.setLevel(level)
