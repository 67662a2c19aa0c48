"""The API for tests: served in this process over a database that has a row of everything."""

from contextlib import asynccontextmanager

import httpx2

from postroom import wiring
from postroom.blobs import DiskBlobStore
from postroom.config import Settings
from postroom.flow.access import api_keys
from postroom.model import Scope
from postroom.providers.transport import open_client
from postroom.web import api, app, event_stream
from postroom.web.api.operations import ApiContext
from postroom.wiring.documents import reviewing
from web.signing import URL, gate_of

VAULT_KEYS = "one:" + "A" * 43 + "="


@asynccontextmanager
async def application(database, organization, home, **options):
    """The whole application, and its blob store."""
    settings = Settings(home=home, vault_keys=VAULT_KEYS)
    async with open_client() as client, event_stream.open_streams(database) as streams:
        site = gate_of(database, organization)
        desk = wiring.desk(settings, database, client, URL)
        blobs = DiskBlobStore(home / "blobs")
        parts = ApiContext(
            desk,
            blobs,
            streams,
            lambda mailbox: wiring.remote(settings, database, client, mailbox),
            wiring.delivering(settings, database),
            reviewing(settings),
        )
        yield app.create(site, routes=api.routes(site, parts, **options)), blobs


async def key_of(database, organization, *scopes, **options) -> dict[str, str]:
    """The header that shows a new key; without scopes, one that opens everything."""
    _, key = await api_keys.create(database, organization, "tests", frozenset(scopes or Scope), **options)
    return {"authorization": f"Bearer {key.reveal()}"}


def client_of(made, headers) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(made, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=f"{URL}/api/v1", headers=headers)
