"""The check that every other test relies on: it must notice what Microsoft's description does not allow."""

import json

import pytest

from simulator import conformance, conformance_microsoft, graph_types

HEADERS = [
    ["content-type", "application/json;odata.metadata=minimal;charset=utf-8"],
    ["odata-version", "4.0"],
    ["request-id", "a"],
    ["client-request-id", "b"],
]
MESSAGE = {
    "@odata.context": "x",
    "@odata.etag": 'W/"1"',
    "id": "AAMk",
    "subject": "Hello",
    "isRead": True,
    "receivedDateTime": "2026-03-02T09:00:00Z",
    "from": {"emailAddress": {"name": "Ann", "address": "ann@example.org"}},
    "body": {"contentType": "html", "content": "x"},
}


def exchange(value, status=200, path="/v1.0/me/messages/AAMk", headers=HEADERS, **more):
    return {
        "method": "GET",
        "path": path,
        "status": status,
        "response_headers": headers,
        "response_body": json.dumps(value),
    } | more


@pytest.fixture(params=["openapi", "sdk"])
def source(request, monkeypatch, tmp_path):
    """Both descriptions: Microsoft's OpenAPI where it is, and the models of its SDK."""
    if request.param == "openapi" and graph_types.document() is None:
        pytest.skip("Microsoft's OpenAPI is not here")
    if request.param == "sdk":
        monkeypatch.setattr(graph_types, "SPECS", tmp_path)
    graph_types.document.cache_clear()
    graph_types.properties.cache_clear()
    yield
    monkeypatch.undo()
    graph_types.document.cache_clear()
    graph_types.properties.cache_clear()


def test_what_is_described_passes(source):
    assert conformance_microsoft.problems(exchange(MESSAGE)) == []


@pytest.mark.parametrize(
    "more",
    [
        {"colour": "red"}, {"isRead": "yes"}, {"receivedDateTime": "yesterday"}, {"importance": "huge"},
        {"from": {"emailAddress": {"name": "Ann", "mail": "x"}}},
        {"body": {"contentType": "rtf", "content": "x"}},
        {"toRecipients": {"emailAddress": {}}}, {"@odata.colour": "x"}, {"subject@odata.size": 5},
        {"@odata.type": "#microsoft.graph.mailFolder"}, {"categories": "Red"},
    ],
)  # fmt: skip
def test_what_is_not_described_fails(source, more):
    assert conformance_microsoft.problems(exchange(MESSAGE | more))


def test_derived_types_are_known_with_what_they_add(source):
    meeting = {
        **MESSAGE,
        "@odata.type": "#microsoft.graph.eventMessage",
        "meetingMessageType": "meetingRequest",
    }
    assert conformance_microsoft.problems(exchange(meeting)) == []
    assert conformance_microsoft.problems(exchange({**MESSAGE, "meetingMessageType": "meetingRequest"}))


def test_a_delta_page_has_exactly_one_link(source):
    path = "/v1.0/users/x/mailFolders('y')/messages/delta"
    page = {"@odata.context": "x", "value": [], "@odata.nextLink": "http://x/y"}
    assert conformance_microsoft.problems(exchange(page, path=path)) == []
    assert conformance_microsoft.problems(exchange({**page, "@odata.deltaLink": "http://x/z"}, path=path))
    assert conformance_microsoft.problems(exchange({"@odata.context": "x", "value": []}, path=path))


@pytest.mark.parametrize(
    "value", [{}, {"error": {"code": "x"}}, {"error": {"code": 5, "message": "x"}}, {"error": "x"}]
)
def test_an_error_without_its_shape_fails(value):
    assert conformance_microsoft.problems(exchange(value, 404))


def test_headers_and_paths_are_looked_at_too():
    assert conformance_microsoft.problems(exchange(MESSAGE, headers=HEADERS[:2]))
    assert conformance_microsoft.problems(exchange(MESSAGE, path="/v1.0/me/nothing"))


def test_answers_that_a_fault_damaged_are_not_judged():
    assert conformance_microsoft.problems(exchange({}, fault="truncated")) == []


def test_the_table_of_operations_agrees_with_the_openapi():
    if graph_types.document() is None:
        pytest.skip("Microsoft's OpenAPI is not here")
    assert conformance_microsoft.disagreements() == []


def test_answers_of_the_simulator_are_really_looked_at(sim, microsoft, address):
    user = microsoft.connect(sim, address, messages=3)
    user.get("messages")
    user.post("/$batch", {"requests": [{"id": "1", "method": "GET", "url": "/me/mailFolders"}]}, status=200)
    assert conformance.check(sim.control) >= 3


@pytest.mark.parametrize("name", sorted(conformance_microsoft.EXCEPTIONS))
def test_an_exception_has_a_reason(name):
    assert len(conformance_microsoft.EXCEPTIONS[name]) > 10


TOLD = {
    "subscriptionId": "a", "subscriptionExpirationDateTime": "2026-03-02T09:00:00Z", "clientState": "s",
    "changeType": "created", "resource": "x", "tenantId": "t",
    "resourceData": {"@odata.type": "#Microsoft.Graph.Message", "@odata.id": "x", "id": "AAMk"},
}  # fmt: skip


def push(**more):
    return {"endpoint": "push", "request_body": json.dumps({"value": [TOLD | more]})}


def test_a_notification_as_described_passes():
    assert conformance_microsoft.push_problems(push()) == []


@pytest.mark.parametrize(
    "more",
    [{"changeType": "moved"}, {"colour": "red"}, {"resourceData": {}}, {"encryptedContent": {"data": "x"}}],
)
def test_a_notification_that_is_otherwise_is_noticed(more):
    assert conformance_microsoft.push_problems(push(**more))


def test_an_entity_without_id_and_a_document_without_its_parts_are_noticed():
    nameless = {name: value for name, value in MESSAGE.items() if name != "id"}
    assert conformance_microsoft.problems(exchange(nameless)) == ["message has no id"]
    for path in ("/common/v2.0/.well-known/openid-configuration", "/common/discovery/v2.0/keys"):
        assert conformance_microsoft.problems(exchange({}, path=path))
