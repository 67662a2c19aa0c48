"""Log lines of requests name the route and the method, also of rejected requests."""

import json

import httpx2
import pytest

from postroom import logs
from web.sign_in_support import URL

log_of_requests = logs.Log()


def read_requests(log):
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [
        (each["method"], each["route"], each["status"]) for each in lines if each["event"] == "request.served"
    ]


def list_paths(routes, prefix=""):
    for route in routes:
        path = prefix + route.path
        yield path
        yield from list_paths(getattr(route, "routes", None) or [], path)


async def test_every_route_can_be_logged(site, log):
    made = site
    while not hasattr(made, "routes"):
        made = made._app
    paths = set(list_paths(made.routes))
    assert {"/sign-in/openid/callback", "/api/v1/mailboxes"} <= paths
    for path in paths:
        log_of_requests.info("request.served", method="GET", route=path, status=200)
    assert {route for _, route, _ in read_requests(log)} == paths


@pytest.mark.parametrize(
    "method, path, line",
    [
        ("POST", "/sign-in", ("POST", "/sign-in", 403)),
        ("GET", "/api/v1/mailboxes?token=x", ("GET", "/api/v1/mailboxes", 401)),
        ("M-SEARCH", "/sign-in/link", ("M-SEARCH", "/sign-in/link", 405)),
        ("GET", "/wp-admin/setup.php", ("GET", "/", 404)),
    ],
)
async def test_rejected_request_is_logged_by_route(site, log, method, path, line):
    transport = httpx2.ASGITransport(site, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=URL) as client:
        answer = await client.request(method, path)
    assert answer.status_code == line[2]
    assert read_requests(log) == [line]
    assert logs.REFUSED not in log.getvalue()
