"""The API for tests: served in this process over a database that has a row of everything."""

from contextlib import asynccontextmanager

import httpx2

from postroom.config import Settings
from postroom.flow.access import api_keys
from postroom.model import Scope
from postroom.web import api, app, event_stream
from postroom.web.api.operations import ApiContext
from postroom.wiring.engine import open_engine
from shared_sandbox import SharedSandbox
from web.sign_in_support import URL, build_site

VAULT_KEYS = "one:" + "A" * 43 + "="


@asynccontextmanager
async def open_api_application(database, organization, home, **options):
    """The whole application, and its blob store."""
    settings = Settings(home=home, vault_keys=VAULT_KEYS)
    async with (
        open_engine(settings, database, url=URL) as engine,
        event_stream.open_streams(database) as streams,
        SharedSandbox(parallel=1) as sandbox,
    ):
        site = build_site(database, organization)
        context = ApiContext(
            engine.connect,
            engine.blobs,
            streams,
            engine.remote,
            engine.deliver,
            engine.review,
            sandbox,
            engine.directories,
            engine.notices,
        )
        yield app.create(site, routes=api.routes(site, context, **options)), engine.blobs


async def create_key_header(database, organization, *scopes, **options) -> dict[str, str]:
    """The header that shows a new key; without scopes, one that opens everything."""
    _, key = await api_keys.create(database, organization, "tests", frozenset(scopes or Scope), **options)
    return {"authorization": f"Bearer {key.reveal()}"}


def build_client(made, headers) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(made, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=f"{URL}/api/v1", headers=headers)
