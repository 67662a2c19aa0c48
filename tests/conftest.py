"""Fixtures for all tests: a fresh database, its owner, an organization, a mailbox, the clock.

No test reaches beyond this machine: connecting to anything but loopback and local sockets raises.
"""

import gc
import logging
import os
import secrets
import socket
import ssl
import sys
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

import httpcore2
import hypothesis
import pytest
import structlog

import databases
from example_counts import examples
from postroom.model import OrganizationId
from postroom_chaos.launcher import Launcher
from scenarios.postroom_process import environment


def _stay_on_this_machine(event: str, arguments: tuple) -> None:
    if event in {"socket.connect", "socket.sendto"}:
        endpoint, address = arguments
        if endpoint.family in {socket.AF_INET, socket.AF_INET6} and not _is_loopback(address[0]):
            raise RuntimeError(f"a test tried to reach {address[0]}; only this machine is allowed")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


sys.addaudithook(_stay_on_this_machine)

# A context reads the machine's certificate authorities, which takes longer than most tests: they share one.
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
_create_context, _shared_context = ssl.create_default_context, cache(ssl.create_default_context)


def _create_or_share_context(*given, cafile=None, **more):
    return _create_context(*given, cafile=cafile, **more) if given or cafile or more else _shared_context()


ssl.create_default_context = _create_or_share_context

# The duration of an example depends on the machine's load, so there is no deadline.
hypothesis.settings.register_profile("postroom", max_examples=examples(100), deadline=None)
hypothesis.settings.load_profile("postroom")


# Nothing that the collection imports and creates is garbage: searching it takes a fifth of its time.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_configure(config):
    """The first process of the run names the place of the embedded server; the others inherit it.

    `scripts/mutants` names one for all its runs.
    """
    if "TEST_SERVERS" not in os.environ:
        config.own_servers = databases.make_home()
        os.environ["TEST_SERVERS"] = str(config.own_servers)


def pytest_unconfigure(config):
    if hasattr(config, "own_servers"):
        databases.remove_home(config.own_servers)


def pytest_collection_modifyitems(items):
    """The long ones first: so that none of them is still running when the rest is done."""
    items.sort(key=lambda item: "scenarios" not in item.path.parts)


@pytest.fixture(autouse=True)
def _restore_logging():
    """A test that configures logging, directly or by a command, leaves nothing of it to the next one."""
    configuration, root, excepthook = structlog.get_config(), logging.getLogger(), sys.excepthook
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**configuration)
    logging.captureWarnings(capture=False)
    root.handlers[:], sys.excepthook = handlers, excepthook
    root.setLevel(level)


@pytest.fixture(scope="session")
def major():
    """The PostgreSQL that a test runs on. The store's own tests run on each that we have."""
    return databases.MAJORS[0]


@pytest.fixture(scope="session")
def database_server(major):
    with databases.server(Path(os.environ["TEST_SERVERS"]), major) as server:
        yield server


@pytest.fixture
def database_url(database_server):
    """A fresh, migrated database."""
    url = database_server.create()
    yield url
    database_server.drop(url)


@pytest.fixture
def service_url(database_url):
    """The same database for pools: its role owns nothing."""
    return databases.to_service(database_url)


@pytest.fixture
async def database(service_url):
    """The pools of one process, logged in as a role that owns nothing."""
    async with databases.open_pools(service_url) as opened:
        yield opened


@pytest.fixture
def empty_database_url(database_server):
    """A database with nothing in it, not even a schema."""
    url = database_server.create(template="template0")
    yield url
    database_server.drop(url)


@pytest.fixture
async def owner(database_url):
    """A connection of the owner, who sees everything."""
    async with databases.session(database_url) as connection:
        yield connection


@pytest.fixture
def make_organization(owner):
    async def make(name: str | None = None) -> OrganizationId:
        cursor = await owner.execute(
            "INSERT INTO organizations (name) VALUES (%s) RETURNING id", [name or secrets.token_hex(4)]
        )
        [row] = await cursor.fetchall()
        return OrganizationId(row[0])

    return make


@pytest.fixture
async def organization(make_organization):
    return await make_organization()


@pytest.fixture
async def other_organization(make_organization):
    return await make_organization()


@pytest.fixture
def make_mailbox(owner):
    async def make(organization: UUID, *, provider: str = "gmail", address: str | None = None) -> UUID:
        account = secrets.token_hex(8)
        cursor = await owner.execute(
            """
            INSERT INTO mailboxes
                (organization_id, provider, account_id, provider_user_id, address, content_policy)
            VALUES (%s, %s, %s, %s, %s, 'full') RETURNING id
            """,
            [organization, provider, account, account, address or f"{account}@example.org"],
        )
        [row] = await cursor.fetchall()
        return row[0]

    return make


@pytest.fixture
def move_clock(owner):
    """Move the database's clock forward by this many seconds."""

    async def move(seconds: float) -> None:
        await owner.execute("UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", [seconds])

    return move


@pytest.fixture(scope="session")
def launcher():
    """Starts commands without importing everything again."""
    launcher = Launcher(environment())
    yield launcher
    launcher.end()
