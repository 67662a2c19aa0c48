"""Random requests on every Google route get the provider's errors, never a server error."""

import json
from collections.abc import Generator
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from example_counts import examples
from mailsim.gmail.methods import METHODS
from simulator.driver import Simulation
from simulator.google_user import FULL, GoogleUser, GoogleUsers

ADDRESS = "fuzzing@example.com"
SIGN_IN = (
    "/o/oauth2/v2/auth", "/o/oauth2/auth", "/token", "/oauth2/v4/token", "/o/oauth2/token", "/revoke",
    "/o/oauth2/revoke", "/oauth2/v1/certs", "/oauth2/v3/certs", "/.well-known/openid-configuration",
    "/oauth2/v3/userinfo", "/oauth2/v2/userinfo", "/oauth2/v1/userinfo", "/v1/userinfo", "/userinfo/v2/me",
    "/tokeninfo", "/oauth2/v3/tokeninfo", "/oauth2/v2/tokeninfo", "/oauth2/v1/tokeninfo",
    "/device/code", "/o/oauth2/device/code", "/device",
)  # fmt: skip
DIRECTORY_SCOPES = tuple(
    f"https://www.googleapis.com/auth/admin.directory.{name}.readonly" for name in ("user", "group")
)
DIRECTORY = (
    "/admin/directory/v1/users", "/admin/directory/v1/users/x@y", "/admin/directory/v1/groups",
    "/admin/directory/v1/groups/x@y/members", "/admin/directory/v1/customers", "/admin/reports",
)  # fmt: skip
PUBSUB_SCOPE = "https://www.googleapis.com/auth/pubsub"
PUBSUB = tuple(
    f"/v1/projects/mailsim/{path}"
    for path in (
        "topics", "subscriptions", "snapshots", "schemas", "nothing", "topics/fuzz", "topics/fuzz:publish",
        "topics/fuzz/subscriptions", "topics/fuzz:setIamPolicy", "topics/fuzz:testIamPermissions",
        "subscriptions/fuzz", "subscriptions/fuzz:acknowledge", "subscriptions/fuzz:modifyAckDeadline",
        "subscriptions/fuzz:modifyPushConfig", "subscriptions/fuzz:getIamPolicy", "subscriptions/fuzz:seek",
    )
)  # fmt: skip
PUBSUB_NAMES = [
    "topic", "labels", "messages", "data", "attributes", "ackIds", "ackDeadlineSeconds", "policy", "bindings",
    "role", "members", "permissions", "pushConfig", "pushEndpoint", "oidcToken", "etag", "retryPolicy",
    "minimumBackoff", "expirationPolicy", "deadLetterPolicy", "filter",
]  # fmt: skip
PUBSUB_BODIES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just("projects/mailsim/topics/fuzz")
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(PUBSUB_NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)
FUZZING = settings(
    max_examples=examples(250),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
METHOD = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND"])
WORD = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["me", "INBOX", "-1", "0", "abc", "18c9a1b2c3d4e5f6", "9" * 30, "../..", "%00", "raw", "full", "true",
         "http://[x", "https://[::1", "http://a:b/", "http://\u2100.example/", "http://localhost:99999/x",
         "//", "code", "openid", "urn:ietf:params:oauth:grant-type:jwt-bearer", "e30.e30.e30",
         "eyJhbGciOiJub25lIn0.W10.", "eyJhbGciOiJSUzI1NiIsImtpZCI6WzFdfQ.eyJpc3MiOlsxXX0.e30"]
    ),
    st.integers(-(2**70), 2**70).map(str),
)  # fmt: skip
NAMES = [
    *sorted({name for method in METHODS for name in method.parameters}),
    "alt", "fields", "prettyPrint", "$.xgafv", "access_token", "client_id", "client_secret", "redirect_uri",
    "response_type", "scope", "state", "code", "grant_type", "refresh_token", "token", "code_challenge",
    "uploadType", "upload_id",
    "assertion", "customer", "domain", "query", "userKey", "orderBy", "projection", "roles", "showDeleted",
]  # fmt: skip
QUERY = st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), WORD), WORD), max_size=4)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "raw",
                    "message",
                    "ids",
                    "addLabelIds",
                    "removeLabelIds",
                    "name",
                    "topicName",
                    "labelIds",
                    "id",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(
    ["application/json", "application/x-www-form-urlencoded", "message/rfc822", "multipart/mixed; boundary=b",
     "multipart/related; boundary=b", "multipart/mixed", "text/html", ";;;", ""]
)  # fmt: skip
TOKENS = st.sampled_from(
    ["", "Bearer", "Bearer x y", "Basic !!!!", "Basic eDp5", "bearer {}", "Bearer {}", "Negotiate {}"]
)


@pytest.fixture(scope="module")
def user(shared: Simulation) -> Generator[GoogleUser]:
    shared.control.patch("google/options", json={"user_units": 10**9, "project_units": 10**9})
    with ExitStack() as stack:
        scopes = (FULL, *DIRECTORY_SCOPES, PUBSUB_SCOPE)
        user = GoogleUsers(stack).connect(shared, ADDRESS, *scopes, messages=40)
        shared.post("google/topics", name="projects/mailsim/topics/fuzz")
        shared.post(f"google/accounts/{ADDRESS}/admin", admin=True)
        yield user


def paths() -> st.SearchStrategy[str]:
    templates = [method.path for method in METHODS]

    def filled(template: tuple[str, ...]) -> st.SearchStrategy[str]:
        parts = [
            WORD.map(lambda word: quote(word, safe="")) if part[0] == "{" else st.just(part)
            for part in template
        ]
        root = st.sampled_from(["/gmail/v1/users/me/", "/upload/gmail/v1/users/me/", "/gmail/v1/users/x@y/"])
        return st.tuples(root, *parts).map(lambda pieces: pieces[0] + "/".join(pieces[1:]))

    return st.one_of(
        st.sampled_from(templates).flatmap(filled),
        st.sampled_from(
            [
                *SIGN_IN,
                *DIRECTORY,
                *PUBSUB,
                "/batch",
                "/batch/gmail/v1",
                "/gmail",
                "/gmail/",
                "/gmail/v2/users/me/profile",
            ]
        ),
        WORD.map(lambda word: "/gmail/v1/" + quote(word, safe="/")),
    )


def bodies() -> st.SearchStrategy[bytes]:
    part = st.tuples(st.sampled_from(["GET", "POST", "", "FOO BAR"]), paths(), st.binary(max_size=30)).map(
        lambda made: (
            b"--b\r\nContent-Type: application/http\r\n\r\n%s %s HTTP/1.1\r\n\r\n%s\r\n"
            % (made[0].encode(), made[1].encode(), made[2])
        )
    )
    return st.one_of(
        st.binary(max_size=80),
        JSON.map(lambda value: json.dumps(value).encode()),
        QUERY.map(lambda pairs: "&".join(f"{quote(a)}={quote(b)}" for a, b in pairs).encode()),
        st.lists(part, max_size=4).map(lambda parts: b"".join(parts) + b"--b--"),
    )


@FUZZING
@given(method=METHOD, path=paths(), query=QUERY, token=TOKENS, kind=TYPES, body=bodies())
def test_random_requests_are_rejected_without_server_errors(
    sim, user, method, path, query, token, kind, body
):
    headers = {"authorization": token.format(user.tokens["access_token"]), "content-type": kind}
    answer = user.request(method, path, params=query, headers=headers, content=body, follow_redirects=False)
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        kinds = ("application/json", "text/html", "multipart/mixed")
        assert answer.headers["content-type"].startswith(kinds)
        assert answer.content


@FUZZING
@given(query=st.lists(st.tuples(st.sampled_from(NAMES), WORD), max_size=6), path=st.sampled_from(METHODS))
def test_read_methods_answer_or_reject(sim, user, query, path):
    names = "/".join("18c9a1b2c3d4e5f6" if part[0] == "{" else part for part in path.path)
    answer = user.request(path.http, names, params=query, content=b"{}")
    assert answer.status_code in {200, 204, 400, 401, 403, 404, 409}, answer.text


@FUZZING
@given(query=st.lists(st.tuples(st.sampled_from(NAMES), WORD), max_size=5), path=st.sampled_from(DIRECTORY))
def test_random_directory_requests_cause_no_server_errors(sim, user, query, path):
    asked = [("customer", "my_customer"), *query]
    answer = user.request("GET", path, params=asked)
    assert answer.status_code in {200, 400, 401, 403, 404, 501}, answer.text


@FUZZING
@given(method=METHOD, path=st.sampled_from(PUBSUB), body=PUBSUB_BODIES)
def test_random_pubsub_requests_cause_no_server_errors(sim, user, method, path, body):
    answer = user.request(method, path, json=body)
    assert answer.status_code in {200, 400, 404, 405, 409, 501}, answer.text


@FUZZING
@given(query=QUERY, uri=WORD, path=st.sampled_from(SIGN_IN), post=st.booleans())
def test_random_sign_ins_cause_no_server_errors(sim, user, query, uri, path, post):
    client = sim.ready["clients"]["gmail"]
    asked = {**dict(query), "client_id": client["client_id"], "redirect_uri": uri}
    if post:
        asked["client_secret"] = client["client_secret"]
    sent = {"data": asked} if post else {"params": asked}
    answer = user.request("POST" if post else "GET", path, **sent, follow_redirects=False)
    assert answer.status_code < 500, answer.text


def test_oversized_bodies_are_rejected(user):
    upload = user.request(
        "POST",
        "/upload/gmail/v1/users/me/messages",
        content=b"x" * (65 << 20),
        headers={"content-type": "message/rfc822"},
    )
    assert (upload.status_code, upload.json()["error"]["code"]) == (413, 413)
    form = user.request("POST", "/token", data={"code": "x" * 70_000})
    assert (form.status_code, form.json()["error"]) == (400, "invalid_request")
    assert user.request("POST", "/o/oauth2/v2/auth", data={"state": "x" * 70_000}).status_code == 400


def test_wrong_methods_are_rejected_in_googles_format(user):
    for path in SIGN_IN:
        answer = user.request("DELETE", path)
        assert answer.status_code == 405
        assert answer.json()["error"]


def test_unknown_paths_are_rejected(user):
    for path in ("/gmail", "/gmail/v3/x", "/batch/drive/v3", "/oauth2/v9/certs", "/o/oauth2/x"):
        answer = user.request("GET", path)
        assert answer.status_code == 404
