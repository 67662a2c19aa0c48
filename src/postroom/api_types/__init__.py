"""Types of the REST API's requests and responses, shared by server, OpenAPI document and client.

Field names are the JSON names. Schema names in the OpenAPI document come from `web.api.openapi`. Types of
path and query parameters are beside their operations in `web.api`.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import msgspec

Item = TypeVar("Item")

# Fits a PostgreSQL bigint.
BigInt = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# An event kind such as `document.changed`, or `document.*` for all of a group.
EventKindPattern = Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[a-z_]+\.([a-z_]+|\*)$")]
# PostgreSQL text cannot contain NUL.
Text = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00]*$")]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]


class ResultPage(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a list. `next` is the cursor of the next page; null on the last page."""

    data: list[Item]
    next: str | None


class MailboxResource(msgspec.Struct, frozen=True):
    id: UUID
    provider: str
    address: str
    folder: str | None
    content_policy: str
    health: str
    health_since: datetime
    last_error: str | None
    last_synced_at: datetime | None
    last_notified_at: datetime | None
    connected_at: datetime
    paused_at: datetime | None
    disconnected_at: datetime | None
    health_cause: str | None = None
    next_attempt_at: datetime | None = None
    failed_attempts: int | None = None


class ApiKeyResource(msgspec.Struct, frozen=True):
    """An API key, without its secret. `records_calls`: the ledger records every call with it."""

    id: UUID
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    records_calls: bool


class FolderResource(msgspec.Struct, frozen=True):
    id: int
    mailbox_id: UUID
    provider_folder_id: str
    parent_provider_id: str | None
    name: str
    role: str | None


class ThreadResource(msgspec.Struct, frozen=True):
    id: int
    mailbox_id: UUID
    subject: str | None
    snippet: str | None
    participants: list[str]
    message_count: int
    has_attachments: bool
    labels: list[str]
    first_message_at: datetime | None
    last_message_at: datetime | None


class MessageResource(msgspec.Struct, frozen=True):
    id: int
    mailbox_id: UUID
    thread_id: int
    folder_id: int | None
    provider_message_id: str
    internet_message_id: str | None
    from_name: str | None
    from_address: str | None
    to: list[dict[str, Any]]
    cc: list[dict[str, Any]]
    bcc: list[dict[str, Any]]
    subject: str | None
    snippet: str | None
    sent_at: datetime | None
    received_at: datetime | None
    size: int | None
    labels: list[str]
    categories: list[str]
    importance: str
    is_read: bool
    is_flagged: bool
    is_draft: bool
    is_newsletter: bool
    is_automated: bool
    has_attachments: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    left_at: datetime | None


class MessageContentResource(msgspec.Struct, frozen=True):
    """The text of a message, as far as the content policy of its mailbox stores it.

    `body_plain` is the text of the HTML if the message has no plain body; then `is_plain_from_html` is true.
    """

    headers: list[list[str]] | None
    body_plain: str | None
    body_html: str | None
    is_plain_from_html: bool = False


class AttachmentResource(msgspec.Struct, frozen=True):
    message_id: int
    part: str
    kind: str
    file_name: str | None
    media_type: str
    size: int
    is_inline: bool
    content_id: str | None
    sha256: str | None


class MessageDetail(msgspec.Struct, frozen=True):
    message: MessageResource
    content: MessageContentResource | None
    attachments: list[AttachmentResource]


class MailEventResource(msgspec.Struct, frozen=True):
    """One observed change of a message, with the sender and the subject of the message.

    `revision` counts the changes of the message from 1 without gaps; it is null for events that an older
    version of Postroom stored.
    `created` has the whole state, `labels_added` and `changed` included; the others have what changed.
    """

    id: int
    mailbox_id: UUID
    message_id: int
    kind: str
    from_folder_id: int | None
    to_folder_id: int | None
    labels_added: list[str]
    labels_removed: list[str]
    changed: dict[str, Any]
    observed_at: datetime
    revision: int | None
    thread_id: int
    internet_message_id: str | None
    from_name: str | None
    from_address: str | None
    from_domain: str | None
    subject: str | None
    received_at: datetime | None
    is_newsletter: bool
    is_automated: bool
    has_attachments: bool


class MailboxChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Omitted fields keep their value."""

    paused: bool | None = None
    content_policy: Literal["metadata", "documents", "full"] | None = None


class SyncRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A full sync lists the whole mailbox again and marks missing messages as deleted."""

    full: bool = False


class RequestAccepted(msgspec.Struct, frozen=True):
    accepted: bool = True


class DocumentResource(msgspec.Struct, frozen=True):
    id: UUID
    pipeline: str
    kind: str | None
    state: str
    state_since: datetime
    media_type: str
    sha256: str
    size: int
    skip_reason: str | None
    last_error: str | None
    record_id: UUID | None
    archive_path: str | None
    archived_at: datetime | None
    created_at: datetime
    needs_password: bool
    part_of: UUID | None
    part_pages: str | None
    assignee_id: UUID | None  # the member who is to review it


class CommentResource(msgspec.Struct, frozen=True):
    id: int
    document_id: UUID
    actor_id: str
    text: str
    created_at: datetime


class ArrivalResource(msgspec.Struct, frozen=True):
    id: int
    source: str
    message_id: int | None
    part: str | None
    provider: str | None
    provider_message_id: str | None
    sender: str | None
    subject: str | None
    file_name: str | None
    received_at: datetime | None
    arrived_at: datetime


class ExtractionResource(msgspec.Struct, frozen=True):
    id: int
    kind: str
    reader: str
    fields: Any
    checks: Any
    created_at: datetime


class DocumentDetail(msgspec.Struct, frozen=True):
    """A document with its latest extraction, and every arrival of its content."""

    document: DocumentResource
    arrivals: list[ArrivalResource]
    extraction: ExtractionResource | None
    parts: list[UUID]  # the documents into which it was split


class ReviewResource(msgspec.Struct, frozen=True):
    id: int
    document_id: UUID
    reason: str
    decision: str | None
    actor_id: str | None
    created_at: datetime
    decided_at: datetime | None


# All rows of a table field; numbers and dates are text.
TableRows = Annotated[list[dict[Text, Text | None]], msgspec.Meta(max_length=1000)]


class FailedCheck(msgspec.Struct, frozen=True):
    """A check that the values of a document fail: its name, and what it found."""

    name: str
    words: str


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Text = "not for this pipeline"


class DocumentPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

    def __repr__(self) -> str:
        return "DocumentPassword(********)"


class DocumentSplit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pages: Annotated[str, msgspec.Meta(max_length=200, description="The pages of each part, such as 1-2,3.")]


class RecordResource(msgspec.Struct, frozen=True):
    id: UUID
    kind: str
    pipeline: str
    key: str
    fields: Any
    order_id: UUID | None
    confirmed_by: str
    confirmed_at: datetime
    state: str
    version: int
    merged_into: UUID | None
    order_reference: str | None
    document_ids: list[UUID]
    archive_paths: list[str]


class RecordVersionResource(msgspec.Struct, frozen=True):
    version: int
    change: str
    state: str
    key: str
    fields: Any
    order_id: UUID | None
    reason: str
    actor_id: str
    other_record_id: UUID | None
    document_ids: list[UUID]
    changed_at: datetime


class ChangeReason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[Text, msgspec.Meta(min_length=1)]


class RecordCorrection(ChangeReason, frozen=True, forbid_unknown_fields=True):
    corrections: dict[Text, Text | TableRows | None] = {}
    override: Annotated[list[Text], msgspec.Meta(max_length=100)] = []
    order: Text | None = None


class RecordMerge(ChangeReason, frozen=True, forbid_unknown_fields=True):
    into: Annotated[UUID, msgspec.Meta(description="The record to merge into. It remains.")]


class RecordSplit(ChangeReason, frozen=True, forbid_unknown_fields=True):
    document: Annotated[UUID, msgspec.Meta(description="Omit it to undo the merge.")] | None = None


class OrganizationNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names by which suppliers address the organization. Without any, addressees are not checked."""

    names: Annotated[list[Text], msgspec.Meta(max_length=50)]


class OrderResource(msgspec.Struct, frozen=True):
    id: UUID
    kind: str
    reference: str
    username: str | None
    fields: Any
    state: str
    created_at: datetime
    record_id: UUID | None


class NewOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`fields` are values that the expected document must match."""

    reference: Annotated[Text, msgspec.Meta(min_length=1)]
    username: Text | None = None
    fields: dict[Text, Text] = {}


class NewOrders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Text
    orders: Annotated[list[NewOrder], msgspec.Meta(max_length=5000)]


class OrderImportResult(msgspec.Struct, frozen=True):
    new: int
    changed: int
    unchanged: int


class FeedEventResource(msgspec.Struct, frozen=True):
    """An event of the feed. `id` is unique and stable; `position` is its place in the feed."""

    id: int
    position: int
    kind: str
    entity_type: str
    entity_id: str
    data: dict[str, Any]
    created_at: datetime


class EventBatch(msgspec.Struct, frozen=True):
    """Events of the feed. Pass `next` as `after` in the next call, even if `data` is empty."""

    data: list[FeedEventResource]
    next: int


class LedgerEntryResource(msgspec.Struct, frozen=True):
    """An entry of the audit trail, without personal values. `position` is assigned when it is sealed."""

    id: int
    position: int | None
    event_type: str
    entity_type: str
    entity_id: str
    actor_id: str | None
    payload: dict[str, Any]
    sha256: str
    occurred_at: datetime


class SubscriptionResource(msgspec.Struct, frozen=True):
    id: UUID
    mailbox_id: UUID
    status: str
    resource: str
    created_at: datetime
    confirmed_at: datetime | None
    expires_at: datetime | None
    last_renewed_at: datetime | None
    last_notified_at: datetime | None
    replaced_at: datetime | None


class FailureResource(msgspec.Struct, frozen=True):
    id: int
    mailbox_id: UUID
    kind: str
    subject: str
    attempts: int
    last_error: str
    first_failed_at: datetime
    last_failed_at: datetime
    due_at: datetime | None
    resolved_at: datetime | None


class WebhookResource(msgspec.Struct, frozen=True):
    """`kinds` are event kinds such as `document.changed` or `document.*`; an empty list means all."""

    id: UUID
    url: str
    kinds: list[str]
    format: Literal["standard", "cloudevents"]
    position: int
    waiting: int
    given_up: int
    failing_since: datetime | None
    last_error: str | None
    last_delivered_at: datetime | None
    disabled_at: datetime | None
    disabled_because: str | None
    created_at: datetime


class NewWebhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Url
    kinds: list[EventKindPattern] = []
    format: Literal["standard", "cloudevents"] = "standard"


class WebhookWithSecret(msgspec.Struct, frozen=True):
    """A new webhook with its signing secret, which is shown only once."""

    webhook: WebhookResource
    secret: str


class WebhookChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Omitted fields keep their value."""

    url: Url | None = None
    kinds: list[EventKindPattern] | None = None
    enabled: bool | None = None


class ReplayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All events after this position are sent again."""

    after: BigInt


class WebhookTestResult(msgspec.Struct, frozen=True):
    accepted: bool
    error: str | None


class DeliveryResource(msgspec.Struct, frozen=True):
    """A delivery that the receiver has not accepted. If `due_at` is null, Postroom gave up on it."""

    id: int
    webhook_id: UUID
    event_id: int
    position: int
    entity_type: str
    entity_id: str
    attempts: int
    last_error: str | None
    due_at: datetime | None
    created_at: datetime
