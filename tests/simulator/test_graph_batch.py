"""$batch: several requests in one.

"Combine multiple HTTP requests using JSON batching", https://learn.microsoft.com/graph/json-batching
"""

import base64

import pytest


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", "User.Read", messages=25, spread=False)


def run(user, *requests, status=200):
    answer = user.request("POST", "/$batch", json={"requests": list(requests)})
    assert answer.status_code == status, answer.text
    return {one["id"]: one for one in answer.json()["responses"]} if status == 200 else answer.json()["error"]


def get(name, url, **more):
    return {"id": name, "method": "GET", "url": url, **more}


def test_twenty_parts_of_one_mailbox_are_all_answered(sim, user):
    truth = sim.truth(user.address)
    parts = run(user, *(get(str(i), f"/me/messages/{truth[i]['id']}?$select=subject") for i in range(20)))
    assert {int(name) for name in parts} == set(range(20))
    for name, part in parts.items():
        assert part["status"] == 200
        assert part["headers"]["Content-Type"].startswith("application/json;odata.metadata=minimal")
        assert part["body"]["subject"] == " ".join(truth[int(name)]["subject"].split())


def test_parts_have_their_own_headers_bodies_and_errors(sim, user):
    entry = sim.truth(user.address)[0]
    prefer = {"Prefer": 'IdType="ImmutableId"'}
    parts = run(
        user,
        get("ids", "/me/messages?$top=1", headers=prefer),
        get("raw", f"/me/messages/{entry['id']}/$value"),
        get("none", "/me/messages/nonsense"),
        get("where", "/nowhere"),
        {
            "id": "patch",
            "method": "PATCH",
            "url": f"/me/messages/{entry['id']}",
            "body": {"isRead": True},
            "headers": {"Content-Type": "application/json"},
        },
    )
    assert {name: part["status"] for name, part in parts.items()} == {
        "ids": 200, "raw": 200, "none": 400, "where": 400, "patch": 200,
    }  # fmt: skip
    assert parts["ids"]["body"]["value"][0]["id"] == sim.truth(user.address)[-1]["id"]
    assert (
        base64.b64decode(parts["raw"]["body"])
        == user.request("GET", f"messages/{entry['id']}/$value").content
    )
    assert parts["patch"]["body"]["isRead"] is True
    assert parts["none"]["body"]["error"]["code"] == "ErrorInvalidIdMalformed"


def test_a_part_has_the_headers_that_its_request_alone_gets(sim, user):
    """Each response of a batch has the status, the headers and the body of its request.

    "Combine multiple HTTP requests using JSON batching", https://learn.microsoft.com/graph/json-batching
    """
    entry = sim.truth(user.address)[0]
    prefer = {"Prefer": 'outlook.body-content-type="text"'}
    _, link = user.delta("mailFolders/inbox/messages/delta")
    sim.post(f"mailboxes/{user.address}/expire-cursors")
    paths = [
        (f"/me/messages/{entry['id']}", prefer),  # Preference-Applied
        (f"/me/messages/{entry['id']}/$value", {}),  # another Content-Type
        (link.partition("/v1.0")[2], {}),  # 410 with Location
        ("/me/messages", {"Authorization": "Bearer wrong"}),  # 401 with WWW-Authenticate
        ("/me/messages/nonsense", {}),
    ]
    sim.control.patch("microsoft/options", json={"gone_location": True})
    parts = run(user, *(get(str(i), path, headers=more) for i, (path, more) in enumerate(paths)))
    answers = [user.request("GET", path, headers=more) for path, more in paths]
    sim.control.patch("microsoft/options", json={"gone_location": False})
    seen = set()
    for number, alone in enumerate(answers):
        headers = {name.lower(): value for name, value in parts[str(number)]["headers"].items()}
        transport = {"content-length", "date", "server"}
        assert parts[str(number)]["status"] == alone.status_code
        assert set(headers) == set(alone.headers) - transport
        for name in set(headers) - {"request-id", "client-request-id"}:
            assert headers[name] == alone.headers[name]
        seen |= set(headers)
    assert {"preference-applied", "location", "www-authenticate", "odata-version", "request-id"} <= seen


@pytest.mark.parametrize("status, header", [(401, "www-authenticate"), (429, "retry-after")])
def test_a_refused_part_has_the_headers_of_a_refused_request(sim, user, status, header):
    kind = {"kind": "throttle"} if status == 429 else {"kind": "error", "status": status}
    sim.fault(**kind, mailbox=user.address, endpoint="messages.list", times=2)
    part = run(user, get("1", "/me/messages"))["1"]
    alone = user.request("GET", "messages")
    assert part["status"] == alone.status_code == status
    assert {name.lower(): value for name, value in part["headers"].items()}[header] == alone.headers[header]


def test_a_part_waits_for_those_it_depends_on_and_fails_with_them(user):
    parts = run(
        user,
        get("3", "/me", dependsOn=["2"]),
        get("2", "/me/messages/nonsense", dependsOn=["1"]),
        get("1", "/me"),
        get("4", "/me", dependsOn=["1"]),
        get("5", "/me", dependsOn=["3"]),
    )
    statuses = {name: part["status"] for name, part in parts.items()}
    assert statuses == {"1": 200, "2": 400, "3": 424, "4": 200, "5": 424}


@pytest.mark.parametrize(
    "requests",
    [
        [get(str(i), "/me") for i in range(21)],
        [get("1", "/me"), get("1", "/me")],
        [get("1", "/me", dependsOn=["2"])],
        [get("1", "/me", dependsOn=["2"]), get("2", "/me", dependsOn=["1"])],
        [get("1", "/me", dependsOn=["1"])],
        [{"id": "1", "method": "GET"}], [{"method": "GET", "url": "/me"}],
        [{"id": 1, "method": "GET", "url": "/me"}],
        [{"id": "1", "method": "BREW", "url": "/me"}], ["text"], [None], [get("1", "/me", headers=[])],
        [get("1", "/me", dependsOn="x")],
    ],
)  # fmt: skip
def test_a_malformed_batch_is_refused_as_a_whole(user, requests):
    assert run(user, *requests, status=400)["code"] in {"BadRequest", "MaximumValueExceeded"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"requests":{}}', b"null", b"\xff", b'{"requests":'])
def test_a_batch_that_is_not_json_is_refused(user, body):
    answer = user.request("POST", "/$batch", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_a_body_needs_a_content_type_and_batches_do_not_nest(user):
    parts = run(
        user,
        {"id": "1", "method": "POST", "url": "/me/messages", "body": {"subject": "x"}},
        {
            "id": "2",
            "method": "POST",
            "url": "/$batch",
            "body": {"requests": []},
            "headers": {"Content-Type": "application/json"},
        },
    )
    assert parts["1"]["status"] == 400
    assert parts["2"]["status"] == 400


def test_a_fault_can_affect_a_single_part(sim, user):
    sim.fault("throttle", mailbox=user.address, endpoint="messages.list", retry_after=7, times=1)
    sim.fault("error", mailbox=user.address, endpoint="folders.get", status=503, times=1)
    parts = run(
        user, get("1", "/me/messages"), get("2", "/me/mailFolders/inbox"), get("3", "/me/mailFolders")
    )
    assert {name: part["status"] for name, part in parts.items()} == {"1": 429, "2": 503, "3": 200}
    assert parts["1"]["headers"]["Retry-After"] == "7"
    meter = sim.meter(user.address)
    assert meter["calls"] == {"messages.list": 1, "folders.get": 1, "folders.list": 1, "batch": 1}
    assert meter["faults"] == 2


def test_the_log_shows_every_part_with_the_batch_that_carried_it(sim, user):
    run(user, get("1", "/me"), get("2", "/me/messages?$top=1"))
    logged = sim.get("requests", mailbox=user.address)
    batch = next(one for one in logged if one["endpoint"] == "batch")
    assert {one["endpoint"] for one in logged if one.get("via") == batch["number"]} == {
        "users.get",
        "messages.list",
    }
