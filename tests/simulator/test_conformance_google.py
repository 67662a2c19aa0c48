"""The conformance check detects responses that Google's documents do not allow."""

import base64
import json

import pytest

from simulator import conformance, conformance_google, conformance_sign_in
from simulator.google_user import make_message

MESSAGE = {
    "id": "18c2",
    "threadId": "18c2",
    "labelIds": ["INBOX"],
    "historyId": "7",
    "sizeEstimate": 5,
    "raw": "eA-_",
}


def exchange(value, status=200, path="/gmail/v1/users/me/messages/18c2", **more):
    return {
        "method": "GET",
        "path": path,
        "status": status,
        "response_headers": [["content-type", "application/json; charset=UTF-8"]],
        "response_body": json.dumps(value),
    } | more


def test_described_responses_pass():
    assert conformance_google.list_problems(exchange(MESSAGE)) == []


@pytest.mark.parametrize(
    "more",
    [
        {"colour": "red"},
        {"historyId": 7},
        {"historyId": "seven"},
        {"sizeEstimate": "5"},
        {"sizeEstimate": 2**31},
        {"labelIds": []},
        {"labelIds": "INBOX"},
        {"raw": "a+b/"},
        {"payload": {"mimeType": "a/b", "headers": [{"name": "a", "value": "b", "values": "b"}]}},
        {"payload": {"mimeType": "a/b", "headers": [{"name": "a"}]}},
        {"payload": {"mimeType": "a/b", "parts": [{"mimeType": "a/b", "body": {"size": 1.5}}]}},
        {"snippet": None},
    ],
)
def test_undescribed_responses_fail(more):
    assert len(conformance_google.list_problems(exchange(MESSAGE | more))) == 1


@pytest.mark.parametrize("name", ["snippet", "internalDate", "payload"])
def test_a_message_without_fields_of_its_format_fails(name):
    part = {"partId": "", "mimeType": "text/plain", "filename": "", "body": {"size": 0}}
    whole = {**MESSAGE, "snippet": "", "internalDate": "7", "payload": part}
    del whole["raw"]
    assert (
        conformance_google.list_problems(exchange(whole, endpoint="messages.get", query="format=full")) == []
    )
    del whole[name]
    assert conformance_google.list_problems(exchange(whole, endpoint="messages.get", query="format=full"))
    partial = exchange(whole, endpoint="messages.get", query="format=full&fields=id")
    assert conformance_google.list_problems(partial) == []


@pytest.mark.parametrize(
    "path, value",
    [
        ("messages/18c2", {"id": "18c2"}),
        ("profile", {"emailAddress": "a@example.com", "messagesTotal": 1, "threadsTotal": 1}),
        ("labels", {}),
        ("history", {"history": [{"id": "7"}], "historyId": "7"}),
    ],
)
def test_a_response_without_fields_that_clients_need_fails(path, value):
    assert conformance_google.list_problems(exchange(value, path=f"/gmail/v1/users/me/{path}"))


EVENT = {"emailAddress": "a@example.com", "historyId": 7}


def push(event=EVENT, **more):
    data = base64.b64encode(json.dumps(event).encode()).decode()
    moment = "2026-03-02T09:00:00.123Z"
    names = {"messageId": "1", "message_id": "1", "publishTime": moment, "publish_time": moment}
    body = {"message": {"data": data, **names, **more}, "subscription": "projects/p/subscriptions/s"}
    return {"endpoint": "push", "mailbox": "a@example.com", "request_body": json.dumps(body)}


def test_a_valid_push_passes_with_and_without_its_wrapper():
    assert conformance_google.list_push_problems(push()) == []
    assert conformance_google.list_push_problems(push({**EVENT, "historyId": "7"})) == []
    assert conformance_google.list_push_problems(push() | {"request_body": json.dumps(EVENT)}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        push({"emailAddress": "a@example.com"}),
        push({**EVENT, "historyId": "seven"}),
        push({**EVENT, "colour": "red"}),
        push(colour="red"),
        push(messageId=7),
        push(publishTime="yesterday"),
        push(data="?"),
        push() | {"request_body": "{}"},
    ],
)
def test_an_invalid_push_fails(wrong):
    assert conformance_google.list_push_problems(wrong)


@pytest.mark.parametrize(
    "path, endpoint",
    [
        ("/.well-known/openid-configuration", "oauth.discovery"),
        ("/oauth2/v1/certs", "oauth.certs"),
        ("/oauth2/v3/certs", "oauth.certs"),
        ("/oauth2/v2/userinfo", "oauth.userinfo"),
        ("/v1/userinfo", "oauth.userinfo"),
        ("/tokeninfo", "oauth.tokeninfo"),
        ("/token", "oauth.token"),
    ],
)
def test_an_incomplete_sign_in_document_fails(path, endpoint):
    assert conformance_sign_in.google(exchange({}, path=path, endpoint=endpoint))
    assert conformance_sign_in.google(exchange({"reason": "x"}, 400, path=path, endpoint=endpoint))


@pytest.mark.parametrize(
    "wrong",
    [
        exchange({"error": "not_found"}, 404),
        exchange({"error": {"code": 404, "message": "x", "status": "NOT_FOUND"}}, 400),
        exchange({"error": {"code": 404, "message": "x", "status": "GONE"}}, 404),
        exchange(
            {"error": {"code": 404, "message": "x", "status": "NOT_FOUND", "errors": [{"reason": "x"}]}}, 404
        ),
        exchange({"type": "ordinary"}, path="/gmail/v1/users/me/labels/INBOX"),
        exchange({}, path="/gmail/v1/users/me/nothing"),
        exchange({}, method="POST"),
        exchange(MESSAGE, response_headers=[["content-type", "text/plain"]]),
        exchange(MESSAGE, 204),
    ],
)
def test_wrong_envelopes_types_and_paths_fail(wrong):
    assert conformance_google.list_problems(wrong)


def test_responses_are_checked_singly_and_inside_batches(sim, google, address):
    user = google.connect(sim, address)
    message_id = sim.deliver(address, make_message())["id"]
    user.get(f"messages/{message_id}")
    part = (
        f"--b\r\nContent-Type: application/http\r\n\r\nGET /gmail/v1/users/me/messages/{message_id}\r\n\r\n"
    )
    user.request(
        "POST",
        "/batch",
        content=part + part + "--b--",
        headers={"content-type": "multipart/mixed; boundary=b"},
    )
    logged = sim.get("requests", provider="gmail", limit=100)
    assert [entry["endpoint"] for entry in logged] == [
        "messages.get",
        "messages.get",
        "batch",
        "messages.get",
    ]
    assert all(
        json.loads(entry["response_body"])["id"] == message_id
        for entry in logged
        if entry["endpoint"] != "batch"
    )
    assert conformance.check(sim.control) == 4
