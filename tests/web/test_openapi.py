"""The OpenAPI document. Clients are generated from its schema names, so they change only on purpose."""

import json

import pytest

from postroom.web.api import OPERATIONS, openapi
from web.api_client import build_client, open_api_application

SCHEMAS = {
    "ApiKey", "Arrival", "Assignment", "Attachment", "ChangeReason", "Comment", "Confirmation",
    "CurrencyAmount", "Delivery", "Directory", "DirectoryDefinition", "DirectoryPreview",
    "DirectorySyncRequest", "DirectoryUser",
    "Document", "DocumentDetail", "DocumentPassword", "DocumentSplit", "EventBatch", "Extraction",
    "FailedCheck", "Failure", "FeedEvent", "Folder", "LedgerEntry", "MailEvent", "Mailbox", "MailboxChange",
    "LayoutTrust", "Message", "MessageContent", "MessageDetail", "NewComment", "NewNoticeDestination",
    "NewOrder",
    "NewOrders", "NewWebhook", "NoticeDestination", "NoticeDestinationChange", "NoticeKind", "NoticeMedium",
    "NoticeTestResult",
    "Order", "OrderImportResult", "OrganizationNames", "PreviewedUser", "Problem", "Record",
    "RecordCorrection", "RecordMerge", "RecordSplit", "RecordVersion", "Rejection", "ReplayRequest",
    "RequestAccepted", "Review", "Subscription", "Supplier", "SupplierTrust", "SupplierTrustChange",
    "SyncRequest", "Thread", "Webhook",
    "WebhookChange", "WebhookTestResult", "WebhookWithSecret",
}  # fmt: skip
PAGED = {
    "Attachment", "Comment", "Delivery", "Directory", "DirectoryUser", "Document", "Failure", "Folder",
    "LedgerEntry", "MailEvent", "Mailbox", "Message", "NoticeDestination", "Order", "Record",
    "RecordVersion", "Review", "Subscription", "Supplier", "Thread", "Webhook",
}  # fmt: skip


@pytest.fixture
async def served(database, organization, tmp_path):
    async with open_api_application(database, organization, tmp_path) as application:
        yield application


def test_schema_names_are_the_published_ones():
    document = openapi.build_document(OPERATIONS, url="https://post.example")
    assert set(document["components"]["schemas"]) == SCHEMAS | {f"{name}Page" for name in PAGED}


def test_every_reference_names_a_schema():
    document = openapi.build_document(OPERATIONS, url="https://post.example")
    schemas = document["components"]["schemas"]

    def check(value):
        if isinstance(value, dict):
            reference = value.get("$ref")
            if reference and reference.startswith("#/components/schemas/"):
                assert reference.rpartition("/")[2] in schemas
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)

    check(document)


def test_the_title_of_a_schema_is_its_name():
    document = openapi.build_document(OPERATIONS, url="https://post.example")
    assert {name: schema["title"] for name, schema in document["components"]["schemas"].items()} == {
        name: name for name in document["components"]["schemas"]
    }


async def test_openapi_document_is_public_and_complete(served):
    async with build_client(served[0], {}) as stranger:
        reported = json.loads((await stranger.get("/openapi.json")).text)
    assert reported["openapi"] == "3.1.0"
    described = {(path, method.upper()) for path, item in reported["paths"].items() for method in item}
    assert described == {(each.path, each.method) for each in OPERATIONS}
    assert all(operation["summary"] for item in reported["paths"].values() for operation in item.values())
    sent = {
        operation["operationId"]: {each["name"] for each in operation["parameters"] if each["in"] == "header"}
        for item in reported["paths"].values()
        for operation in item.values()
    }
    assert {name for name, headers in sent.items() if "If-Match" in headers} == {
        "change_mailbox", "confirm_review", "reject_review", "close_order", "reopen_record", "correct_record",
        "void_record", "merge_record", "split_record"
    }  # fmt: skip
    assert sent["add_webhook"] == {"Idempotency-Key"}
    refusals = set(reported["paths"]["/mailboxes/{mailbox}"]["patch"]["responses"]) - {"200"}
    assert refusals == {"400", "401", "403", "404", "409", "412", "413", "422", "429", "503", "default"}
