"""Random input on every Microsoft route: provider errors, never a failure of the simulator."""

import json
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from example_counts import examples
from mailsim.graph.api import ROUTES
from simulator.driver import Simulation
from simulator.microsoft_user import MicrosoftUser, MicrosoftUsers

ADDRESS = "noise@example.com"
EVERYTHING = (
    "Mail.ReadWrite", "Mail.Send", "User.Read", "User.Read.All", "MailboxSettings.ReadWrite",
    "offline_access",
)  # fmt: skip
PATTERNS = sorted({route.pattern for route in ROUTES.routes})
SIGN_IN = (
    "/{}/oauth2/v2.0/authorize", "/{}/oauth2/v2.0/token", "/{}/adminconsent", "/{}/v2.0/adminconsent",
    "/{}/v2.0/.well-known/openid-configuration", "/{}/discovery/v2.0/keys", "/common/discovery/instance",
    "/{}/oauth2/v2.0/devicecode", "/devicelogin", "/oidc/userinfo",
    "/api/v2.0/Users('{}')/Messages('x')/AttachmentSessions('{}')",
)  # fmt: skip
NOISE = settings(
    max_examples=examples(250),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
METHOD = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND"])
WORD = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "me", "inbox", "-1", "0", "abc", "9" * 30, "../..", "%00", "true", "AAMkAA==",
            "AAkALgAAAAA=", "'", "('",
            "isRead eq true", "receivedDateTime ge 2026-01-01T00:00:00Z", "subject", "subject desc",
            "*", "attachments",
            "contains(subject,'a')", "categories/any(c:c eq 'x')", "id,body", "latest",
            "attachments($select=id)",
            "http://[x", "https://[::1", "http://a:b/", "http://\u2100.example/", "http://localhost:99999/x",
            "//", "code", "openid",
        ]
    ),
    st.integers(-(2**70), 2**70).map(str),
)  # fmt: skip
NAMES = [
    "$top", "$skip", "$select", "$expand", "$filter", "$orderby", "$count", "$search", "$skiptoken",
    "$deltatoken",
    "top", "changeType", "includeHiddenFolders", "$format", "$apply", "client_id", "redirect_uri",
    "response_type",
    "scope", "state", "prompt", "response_mode", "code_challenge", "code_challenge_method",
    "grant_type", "code",
    "refresh_token", "client_secret", "client_assertion", "client_assertion_type", "login_hint",
    "account", "decision",
]  # fmt: skip
QUERY = st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), WORD), WORD), max_size=4)
KEYS = [
    "requests", "id", "method", "url", "headers", "dependsOn", "body", "destinationId", "displayName",
    "filterQuery",
    "isRead", "flag", "flagStatus", "categories", "importance", "subject", "toRecipients",
    "emailAddress", "address",
    "message", "comment", "body", "inputIds", "attachmentItem",
    "attachments", "name", "contentBytes", "timeZone", "workingHours", "language", "color",
    "conditions", "actions", "sequence", "subjectContains", "fromAddresses", "moveToFolder", "delete",
    "sourceIdType", "changeType", "notificationUrl", "resource",
    "expirationDateTime", "x",
]  # fmt: skip
VALUE = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORD
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)
BODY = st.one_of(st.binary(max_size=40), VALUE.map(lambda value: json.dumps(value).encode()))
HEADERS = st.dictionaries(
    st.sampled_from(["prefer", "content-type", "if-match", "client-request-id", "accept"]),
    st.one_of(
        st.sampled_from(
            [
                "application/json", "text/plain", 'IdType="ImmutableId"', "odata.maxpagesize=0",
                "odata.maxpagesize=x",
                'outlook.body-content-type="text"', "=;,=", "*",
            ]
        ),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=10),
    ),
    max_size=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def known(shared: Simulation) -> Generator[tuple[MicrosoftUser, list[str]]]:
    """Return a user with all permissions, and existing IDs."""
    with ExitStack() as stack:
        user = MicrosoftUsers(stack).connect(shared, ADDRESS, *EVERYTHING, messages=4)
        messages = [one["id"] for one in user.get("messages")["value"]]
        yield user, [*messages, user.get("mailFolders/inbox")["id"], "inbox", "me", ADDRESS]


@pytest.fixture(scope="module")
def stranger(shared: Simulation) -> Generator[httpx2.Client]:
    with httpx2.Client(base_url=shared.http, trust_env=False) as http:
        yield http


def _is_expected(status: int) -> bool:
    """Return whether a status is no server error; 501 is for endpoints that are not simulated."""
    return 200 <= status < 500 or status == 501


def fine(answer: httpx2.Response) -> bool:
    """Return whether the response is a success or an error in Graph's format."""
    if answer.status_code < 400:
        return True
    if not answer.content:
        return answer.request.method == "HEAD" and _is_expected(answer.status_code)
    return _is_expected(answer.status_code) and {"code", "message"} <= set(answer.json()["error"])


@NOISE
@given(st.data())
def test_no_graph_request_causes_a_server_error(sim, known, data):
    user, ids = known
    pattern = data.draw(st.sampled_from(PATTERNS))
    value = st.one_of(st.sampled_from(ids), WORD)
    pieces = [quote(data.draw(value), safe="") if piece == "*" else piece for piece in pattern]
    if data.draw(st.integers(0, 9)) == 0:
        pieces.append(quote(data.draw(WORD), safe=""))
    query = "&".join(f"{quote(name)}={quote(text)}" for name, text in data.draw(QUERY))
    answer = user.http.request(
        data.draw(METHOD),
        f"/v1.0/{'/'.join(pieces)}?{query}",
        content=data.draw(BODY),
        headers=data.draw(HEADERS),
    )
    assert fine(answer), f"{answer.status_code} {answer.text}"


@NOISE
@given(st.lists(VALUE, max_size=4))
def test_no_batch_causes_a_server_error(sim, known, parts):
    user, ids = known
    shaped: list[Any] = [
        {"id": str(place), "method": "GET", "url": f"/me/messages/{ids[0]}", **part}
        if isinstance(part, dict)
        else part
        for place, part in enumerate(parts)
    ]
    answer = user.request("POST", "/$batch", json={"requests": shaped})
    assert fine(answer), f"{answer.status_code} {answer.text}"
    if answer.status_code == 200:
        assert all(_is_expected(part["status"]) for part in answer.json()["responses"])


@NOISE
@given(
    st.sampled_from(SIGN_IN),
    st.one_of(st.sampled_from(["common", "example.com"]), WORD),
    METHOD,
    QUERY,
    QUERY,
    st.one_of(st.none(), st.binary(max_size=30)),
)
def test_no_sign_in_causes_a_server_error(sim, known, stranger, path, tenant, method, query, form, raw):
    client = sim.ready["clients"]["outlook"]
    shown = dict(form)
    if len(form) % 2:
        shown |= {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    encoded = "&".join(f"{quote(name)}={quote(text)}" for name, text in query)
    url = f"{path.format(*[quote(tenant, safe='')] * 2)}?{encoded}"
    if path.endswith(("authorize", "adminconsent")) and len(query) % 2:
        url += f"&client_id={client['client_id']}"
    body = {"content": raw} if raw is not None else {"data": shown}
    answer = stranger.request(method, url, **body)
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("path", ["/common/oauth2/v2.0/authorize", "/common/adminconsent"])
@pytest.mark.parametrize("uri", ["http://[x", "http://\u2100.example/", "//[", "http://[::1:x]/"])
def test_a_malformed_redirect_uri_shows_an_error_page(sim, stranger, path, uri):
    client = sim.ready["clients"]["outlook"]["client_id"]
    asked = {"client_id": client, "redirect_uri": uri, "response_type": "code", "scope": "openid"}
    answer = stranger.get(path, params=asked)
    assert answer.status_code == 400
    assert "AADSTS50011" in answer.text


@NOISE
@given(st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=5))
def test_no_subscription_request_causes_a_server_error(sim, known, order):
    user, _ = known
    if str(order.get("notificationUrl", "")).startswith("http"):
        return
    answer = user.request("POST", "/subscriptions", json=order)
    if answer.status_code == 429:
        sim.move_clock(21)
        answer = user.request("POST", "/subscriptions", json=order)
    assert answer.status_code in {400, 401}, answer.text
    if answer.status_code == 401:
        assert answer.json()["error"]["code"] == "InvalidAuthenticationToken"


@pytest.mark.parametrize("path", ["messages", "/subscriptions", "/$batch", "sendMail", "mailFolders"])
def test_an_oversized_body_is_refused(sim, known, path):
    user, _ = known
    body = b'{"subject":"' + b"x" * (4 << 20) + b'"}'
    answer = user.request("POST", path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in {401, 413}
    assert fine(answer)


def test_an_oversized_form_is_refused(sim, stranger):
    answer = stranger.post("/common/oauth2/v2.0/token", content=b"grant_type=" + b"x" * 300_000)
    assert answer.json()["error_codes"] == [9002313]


def test_unknown_graph_paths_get_graphs_error_format(sim, known):
    user, _ = known
    assert user.http.get("/beta/me/nothing").status_code == 400
    assert fine(user.http.get("/beta/me/nothing"))
    assert user.http.get("/v1.0").status_code in {400, 401, 404}
