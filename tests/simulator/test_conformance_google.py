"""The check that every other test relies on: it must notice what Google's document does not allow."""

import json

import pytest

from simulator import conformance, conformance_google
from simulator.google_user import letter

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


def test_what_the_document_describes_passes():
    assert conformance_google.problems(exchange(MESSAGE)) == []


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
        {"payload": {"headers": [{"name": "a", "values": "b"}]}},
        {"payload": {"parts": [{"body": {"size": 1.5}}]}},
        {"snippet": None},
    ],
)
def test_what_it_does_not_describe_fails(more):
    assert len(conformance_google.problems(exchange(MESSAGE | more))) == 1


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
    assert conformance_google.problems(wrong)


def test_answers_of_a_test_are_looked_at_one_by_one_and_inside_batches(sim, google, address):
    user = google.connect(sim, address)
    message_id = sim.deliver(address, letter())["id"]
    user.get(f"messages/{message_id}")
    part = (
        f"--b\r\nContent-Type: application/http\r\n\r\nGET /gmail/v1/users/me/messages/{message_id}\r\n\r\n"
    )
    user.ask(
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
