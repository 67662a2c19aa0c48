"""The conformance check itself: it must reject responses that Microsoft's description does not allow."""

import json

import pytest

from simulator import conformance, conformance_microsoft, conformance_sign_in, graph_types

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


SELECTED = "$select=" + ",".join(name for name in MESSAGE if "@" not in name)


def exchange(value, status=200, path="/v1.0/me/messages/AAMk", headers=HEADERS, query=SELECTED, **more):
    return {
        "method": "GET",
        "path": path,
        "query": query,
        "status": status,
        "response_headers": headers,
        "response_body": json.dumps(value),
    } | more


@pytest.fixture(params=["openapi", "sdk"])
def source(request, monkeypatch, tmp_path):
    """Run with both descriptions: Microsoft's OpenAPI, if available, and the models of its SDK."""
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


def test_documented_responses_pass(source):
    assert conformance_microsoft.list_problems(exchange(MESSAGE)) == []


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
def test_undocumented_responses_fail(source, more):
    asked = f"{SELECTED},{','.join(more)}"
    assert conformance_microsoft.list_problems(exchange(MESSAGE | more, query=asked))


def test_exactly_the_selected_properties_are_required(source):
    less = {name: value for name, value in MESSAGE.items() if name != "subject"}
    assert conformance_microsoft.list_problems(exchange(less)) == ["message lacks the selected ['subject']"]
    more = {**MESSAGE, "isDraft": False}
    assert conformance_microsoft.list_problems(exchange(more)) == ["message shows ['isdraft'], not selected"]
    cast = "$select=name,microsoft.graph.fileAttachment/contentId"
    path = "/v1.0/me/messages/AAMk/attachments/A"
    for shown in ({}, {"contentId": "x"}):
        file = {"@odata.type": "#microsoft.graph.fileAttachment", "id": "A", "name": "x", **shown}
        assert conformance_microsoft.list_problems(exchange(file, path=path, query=cast)) == []


def test_without_select_all_default_properties_are_required(source):
    folder = {
        "@odata.context": "x", "id": "A", "displayName": "x", "parentFolderId": "x", "childFolderCount": 0,
        "unreadItemCount": 0, "totalItemCount": 0, "isHidden": False,
    }  # fmt: skip
    path = "/v1.0/me/mailFolders/A"
    assert conformance_microsoft.list_problems(exchange(folder, path=path, query="")) == []
    del folder["isHidden"]
    assert conformance_microsoft.list_problems(exchange(folder, path=path, query="")) == [
        "mailFolder lacks ['isHidden']"
    ]
    assert conformance_microsoft.list_problems(exchange(MESSAGE, query=""))


def test_derived_types_are_known_with_their_own_properties(source):
    meeting = {
        **MESSAGE,
        "@odata.type": "#microsoft.graph.eventMessage",
        "meetingMessageType": "meetingRequest",
    }
    asked = f"{SELECTED},meetingMessageType"
    assert conformance_microsoft.list_problems(exchange(meeting, query=asked)) == []
    plain = {**MESSAGE, "meetingMessageType": "meetingRequest"}
    assert conformance_microsoft.list_problems(exchange(plain, query=asked))


def test_a_delta_page_has_exactly_one_link(source):
    path = "/v1.0/users/x/mailFolders('y')/messages/delta"
    page = {"@odata.context": "x", "value": [], "@odata.nextLink": "http://x/y"}
    assert conformance_microsoft.list_problems(exchange(page, path=path)) == []
    assert conformance_microsoft.list_problems(
        exchange({**page, "@odata.deltaLink": "http://x/z"}, path=path)
    )
    assert conformance_microsoft.list_problems(exchange({"@odata.context": "x", "value": []}, path=path))


@pytest.mark.parametrize(
    "value", [{}, {"error": {"code": "x"}}, {"error": {"code": 5, "message": "x"}}, {"error": "x"}]
)
def test_an_error_without_its_documented_shape_fails(value):
    assert conformance_microsoft.list_problems(exchange(value, 404))


def test_headers_and_paths_are_checked():
    assert conformance_microsoft.list_problems(exchange(MESSAGE, headers=HEADERS[:2]))
    assert conformance_microsoft.list_problems(exchange(MESSAGE, path="/v1.0/me/nothing"))


def test_responses_damaged_by_a_fault_are_not_checked():
    assert conformance_microsoft.list_problems(exchange({}, fault="truncated")) == []


def test_the_table_of_operations_agrees_with_the_openapi():
    if graph_types.document() is None:
        pytest.skip("Microsoft's OpenAPI is not here")
    assert conformance_microsoft.list_disagreements() == []


def test_responses_of_the_simulator_are_really_checked(sim, microsoft, address):
    user = microsoft.connect(sim, address, messages=3)
    user.get("messages")
    user.post("/$batch", {"requests": [{"id": "1", "method": "GET", "url": "/me/mailFolders"}]}, status=200)
    assert conformance.check(sim.control) >= 3


@pytest.mark.parametrize("name", sorted(conformance_microsoft.EXCEPTIONS))
def test_every_exception_states_its_reason(name):
    assert len(conformance_microsoft.EXCEPTIONS[name]) > 10


GUID = "622eaaff-0683-4862-9de4-f2ec83c2bd98"
NOTIFICATION = {
    "subscriptionId": GUID, "subscriptionExpirationDateTime": "2026-03-02T09:00:00Z", "clientState": "s",
    "changeType": "created", "resource": f"Users/{GUID}/Messages/AAMk", "tenantId": GUID,
    "resourceData": {
        "@odata.type": "#Microsoft.Graph.Message", "@odata.id": f"Users/{GUID}/Messages/AAMk", "id": "AAMk"
    },
}  # fmt: skip


def push(**more):
    notification = {name: value for name, value in (NOTIFICATION | more).items() if value is not ...}
    return {"endpoint": "push", "request_body": json.dumps({"value": [notification]})}


def test_a_documented_notification_passes():
    assert conformance_microsoft.list_push_problems(push()) == []
    gone = dict.fromkeys(("changeType", "resource", "resourceData", "tenantId"), ...)
    assert conformance_microsoft.list_push_problems(push(lifecycleEvent="missed", **gone)) == []


@pytest.mark.parametrize(
    "more",
    [
        {"changeType": "moved"}, {"colour": "red"}, {"resourceData": {}}, {"encryptedContent": {"data": "x"}},
        {"tenantId": ...}, {"subscriptionId": "a"}, {"clientState": "s" * 129}, {"resource": "Messages"},
        {"lifecycleEvent": "missed"}, {"subscriptionExpirationDateTime": "tomorrow"},
    ],
)  # fmt: skip
def test_an_undocumented_notification_fails(more):
    assert conformance_microsoft.list_push_problems(push(**more))


def test_an_entity_without_id_fails():
    nameless = {name: value for name, value in MESSAGE.items() if name != "id"}
    assert conformance_microsoft.list_problems(exchange(nameless))[0] == "message has no id"


@pytest.mark.parametrize("endpoint", ["configuration", "keys", "token", "userinfo"])
def test_a_sign_in_document_with_missing_properties_fails(endpoint):
    assert conformance_sign_in.entra(exchange({}, path="/common/x", endpoint=endpoint))
