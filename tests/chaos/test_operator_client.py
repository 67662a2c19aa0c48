"""How the operator of a chaos run behaves when the provider's sign-in does not work."""

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from postroom_chaos import operator_client
from postroom_chaos.operator_client import MAX_REJECTIONS, ActionFailed, OperatorClient


@pytest.fixture
async def visit(monkeypatch):
    """Connect a mailbox at a site that answers the sign-in with these statuses, then with success."""
    monkeypatch.setattr(operator_client, "RETRY_SECONDS", 0.0)
    statuses: list[int] = []

    async def authorize(_: web.Request) -> web.Response:
        if statuses:
            return web.Response(status=statuses.pop(0))
        raise web.HTTPFound("/mailboxes")

    async def mailboxes(_: web.Request) -> web.Response:
        return web.Response(text="connected")

    site = web.Application()
    site.add_routes([web.get("/oauth/outlook/authorize", authorize), web.get("/mailboxes", mailboxes)])
    async with TestServer(site) as server, aiohttp.ClientSession() as session:
        client = OperatorClient(session, str(server.make_url("")).rstrip("/"), "")

        async def connect(*given: int) -> None:
            statuses[:] = given
            await client.connect("outlook", {})

        yield connect


async def test_throttling_and_server_errors_of_the_sign_in_are_outlasted(visit):
    await visit(*[429, 503] * (MAX_REJECTIONS + 1))


async def test_a_sign_in_that_is_rejected_again_and_again_fails(visit):
    with pytest.raises(ActionFailed, match="403"):
        await visit(*[403] * (MAX_REJECTIONS + 1))
