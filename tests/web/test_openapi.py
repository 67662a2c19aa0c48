"""The OpenAPI document: schema names are published and independent of class names."""

from postroom.web.api import OPERATIONS, openapi

SCHEMAS = {
    "Accepted", "Arrival", "Attachment", "Confirmation", "Content", "Delivery", "Document", "Events",
    "Extraction", "Failure", "FeedEvent", "Folder", "ImportedOrders", "LedgerEntry", "MadeWebhook",
    "MailEvent",
    "Mailbox", "MailboxChange", "Message", "NewOrder", "NewOrders", "NewWebhook", "Order", "ProblemAnswer",
    "Record", "Rejection", "Replay", "Review", "Subscription", "SyncWish", "Thread", "Tried", "Webhook",
    "WebhookChange", "WholeDocument", "WholeMessage",
}  # fmt: skip
PAGED = {
    "Attachment", "Delivery", "Document", "Failure", "Folder", "LedgerEntry", "MailEvent", "Mailbox",
    "Message",
    "Order", "Record", "Review", "Subscription", "Thread", "Webhook",
}  # fmt: skip


def test_schema_names_are_the_published_ones():
    document = openapi.build_document(OPERATIONS, url="https://post.example")
    assert set(document["components"]["schemas"]) == SCHEMAS | {f"Page_{name}_" for name in PAGED}


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


def test_schema_titles_never_show_class_names():
    document = openapi.build_document(OPERATIONS, url="https://post.example")
    titles = [schema["title"] for schema in document["components"]["schemas"].values()]
    assert not [title for title in titles if "Resource" in title]
