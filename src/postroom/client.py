"""A typed client of the REST API for other programs: `Postroom(url, key)`.

Needs only the standard library and msgspec. Lists are iterators that fetch page after page. Calls are retried
when the server asks for it and when the response is lost or incomplete; writes carry an idempotency key, so a
retry never executes them twice. Every other error is raised as `ApiError`.
"""

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from email.message import Message as Headers
from typing import Any, Final, Literal, TypeVar
from uuid import UUID, uuid4

import msgspec

from postroom.api_types import (
    ApiKeyResource,
    AttachmentResource,
    CommentResource,
    DocumentDetail,
    DocumentPassword,
    DocumentResource,
    DocumentSplit,
    EventBatch,
    FailedCheck,
    FailureResource,
    FeedEventResource,
    FolderResource,
    LedgerEntryResource,
    MailboxResource,
    MailEventResource,
    MessageDetail,
    MessageResource,
    NewOrder,
    OrderImportResult,
    OrderResource,
    OrganizationNames,
    RecordResource,
    RecordVersionResource,
    RequestAccepted,
    ResultPage,
    ReviewResource,
    SubscriptionResource,
    ThreadResource,
    WebhookResource,
    WebhookTestResult,
    WebhookWithSecret,
)
from postroom.api_types.directories import (
    DirectoryDefinition,
    DirectoryPreviewResource,
    DirectoryResource,
    DirectorySyncRequest,
    DirectoryUserResource,
)
from postroom.api_types.notices import NewNoticeDestination, NoticeDestinationResource, NoticeTestResult
from postroom.api_types.suppliers import SupplierResource, SupplierTrustResource

__all__ = ["ApiError", "DirectoryDefinition", "NewNoticeDestination", "NewOrder", "Postroom"]

ATTEMPTS: Final = 5
LONGEST_WAIT_SECONDS: Final = 30.0
Result = TypeVar("Result")
# A value, or the rows of a table; None or "" if the document does not contain the field.
Correction = str | Sequence[Mapping[str, str | None]] | None
# A value of a filter: the client sends its text.
Filter = str | float | date | UUID | None
QueryValue = str | int | float | bool | UUID | datetime | None


class ApiError(Exception):
    """An error response; status 0 if there was none. `kind` is for programs, `detail` for people.

    `checks` are the failed checks, for `checks-failed`.
    """

    def __init__(self, status: int, kind: str, detail: str, checks: Sequence[FailedCheck] = ()) -> None:
        super().__init__(f"{status} {kind}: {detail}")
        self.status, self.kind, self.detail, self.checks = status, kind, detail, tuple(checks)


class ProblemBody(msgspec.Struct):
    type: str = "urn:postroom:problem:unknown"
    detail: str = ""
    checks: tuple[FailedCheck, ...] = ()


class Postroom:
    """The API of one organization, with the scopes of the key."""

    def __init__(self, url: str, key: str, *, timeout: float = 60) -> None:
        self._url = url.rstrip("/") + "/api/v1"
        self._key = key
        self._timeout = timeout

    def key(self) -> ApiKeyResource:
        """The key that this client uses."""
        return self._get("/key", ApiKeyResource)

    # Mailboxes and mail.

    def mailboxes(self) -> Iterator[MailboxResource]:
        return self._list("/mailboxes", MailboxResource)

    def mailbox(self, mailbox: UUID | str) -> MailboxResource:
        return self._get(f"/mailboxes/{mailbox}", MailboxResource)

    def pause(self, mailbox: UUID | str) -> MailboxResource:
        return self._send("PATCH", f"/mailboxes/{mailbox}", {"paused": True}, MailboxResource)

    def resume(self, mailbox: UUID | str) -> MailboxResource:
        return self._send("PATCH", f"/mailboxes/{mailbox}", {"paused": False}, MailboxResource)

    def set_policy(
        self, mailbox: UUID | str, content_policy: Literal["metadata", "documents", "full"]
    ) -> MailboxResource:
        return self._send(
            "PATCH", f"/mailboxes/{mailbox}", {"content_policy": content_policy}, MailboxResource
        )

    def sync(self, mailbox: UUID | str, *, full: bool = False) -> None:
        """Sync with the provider now; a full sync lists the whole mailbox again."""
        self._send("POST", f"/mailboxes/{mailbox}/sync", {"full": full}, RequestAccepted)

    def directories(self) -> Iterator[DirectoryResource]:
        return self._list("/directories", DirectoryResource)

    def directory(self, directory: UUID | str) -> DirectoryResource:
        return self._get(f"/directories/{directory}", DirectoryResource)

    def directory_users(
        self, directory: UUID | str, *, state: str | None = None
    ) -> Iterator[DirectoryUserResource]:
        return self._list(f"/directories/{directory}/users", DirectoryUserResource, state=state)

    def preview_new_directory(self, definition: DirectoryDefinition) -> DirectoryPreviewResource:
        """What the first sync of a directory would do. Nothing is stored."""
        return self._send("POST", "/directories/preview", definition, DirectoryPreviewResource)

    def add_directory(self, definition: DirectoryDefinition) -> DirectoryResource:
        """Add a directory, or change the one with this name."""
        return self._send("POST", "/directories", definition, DirectoryResource)

    def preview_directory(self, directory: UUID | str) -> DirectoryPreviewResource:
        return self._send("POST", f"/directories/{directory}/preview", None, DirectoryPreviewResource)

    def sync_directory(self, directory: UUID | str, *, confirmed_leavers: int | None = None) -> None:
        """Sync a directory now. With a number, that many users may leave."""
        body = DirectorySyncRequest(confirmed_leavers)
        self._send("POST", f"/directories/{directory}/sync", body, RequestAccepted)

    def remove_directory(self, directory: UUID | str) -> None:
        """Disconnect the mailboxes of a directory, and delete its credential."""
        self._send("DELETE", f"/directories/{directory}", None, RequestAccepted)

    def folders(self, mailbox: UUID | str) -> Iterator[FolderResource]:
        return self._list(f"/mailboxes/{mailbox}/folders", FolderResource)

    def threads(self, mailbox: UUID | str) -> Iterator[ThreadResource]:
        return self._list(f"/mailboxes/{mailbox}/threads", ThreadResource)

    def messages(self, mailbox: UUID | str, *, folder: int | None = None) -> Iterator[MessageResource]:
        return self._list(f"/mailboxes/{mailbox}/messages", MessageResource, folder=folder)

    def mail_events(self, mailbox: UUID | str) -> Iterator[MailEventResource]:
        return self._list(f"/mailboxes/{mailbox}/events", MailEventResource)

    def mailbox_timeline(self, mailbox: UUID | str) -> Iterator[LedgerEntryResource]:
        return self._list(f"/mailboxes/{mailbox}/timeline", LedgerEntryResource)

    def thread(self, thread: int) -> ThreadResource:
        return self._get(f"/threads/{thread}", ThreadResource)

    def messages_of_thread(self, thread: int) -> Iterator[MessageResource]:
        return self._list(f"/threads/{thread}/messages", MessageResource)

    def search(self, words: str, **filters: Filter) -> Iterator[MessageResource]:
        """Search the messages of all mailboxes."""
        return self._filter("/messages", MessageResource, filters, q=words)

    def message(self, message: int) -> MessageDetail:
        return self._get(f"/messages/{message}", MessageDetail)

    def raw_message(self, message: int) -> bytes:
        """The original message (RFC 5322)."""
        return self._fetch("GET", f"/messages/{message}/raw")

    def attachments(self, message: int) -> Iterator[AttachmentResource]:
        return self._list(f"/messages/{message}/attachments", AttachmentResource)

    def attachment(self, message: int, part: str) -> bytes:
        return self._fetch("GET", f"/messages/{message}/attachments/{urllib.parse.quote(part, safe='')}")

    # Documents and records.

    def documents(
        self, *, state: str | None = None, pipeline: str | None = None, **filters: Filter
    ) -> Iterator[DocumentResource]:
        return self._filter("/documents", DocumentResource, filters, state=state, pipeline=pipeline)

    def document(self, document: UUID | str) -> DocumentDetail:
        return self._get(f"/documents/{document}", DocumentDetail)

    def document_content(self, document: UUID | str) -> bytes:
        return self._fetch("GET", f"/documents/{document}/content")

    def upload(self, pipeline: str, file_name: str, content: bytes) -> list[DocumentResource]:
        """Upload a file as if it had arrived by mail; returns its document, or those of the files inside."""
        response = self._fetch("POST", "/documents", content, pipeline=pipeline, file_name=file_name)
        return msgspec.json.decode(response, type=list[DocumentResource])

    def retry_document(self, document: UUID | str) -> DocumentResource:
        return self._send("POST", f"/documents/{document}/retry", None, DocumentResource)

    def unlock(self, document: UUID | str, password: str) -> DocumentResource:
        """Unlock an encrypted document with its password, and process it."""
        return self._send(
            "POST", f"/documents/{document}/unlock", DocumentPassword(password), DocumentResource
        )

    def split(self, document: UUID | str, pages: str) -> list[DocumentResource]:
        """Split a PDF that holds several documents at these pages, such as 1-2,3; returns the parts."""
        return self._send(
            "POST", f"/documents/{document}/split", DocumentSplit(pages), list[DocumentResource]
        )

    def comments(self, document: UUID | str) -> Iterator[CommentResource]:
        return self._list(f"/documents/{document}/comments", CommentResource)

    def add_comment(self, document: UUID | str, text: str) -> CommentResource:
        return self._send("POST", f"/documents/{document}/comments", {"text": text}, CommentResource)

    def assign(self, document: UUID | str, assignee: str | None) -> DocumentResource:
        """Assign a document that needs review to the member with this address; None: to no one."""
        return self._send("POST", f"/documents/{document}/assign", {"assignee": assignee}, DocumentResource)

    def reviews(self, *, undecided: bool | None = None) -> Iterator[ReviewResource]:
        return self._list("/reviews", ReviewResource, open=undecided)

    def review(self, review: int) -> ReviewResource:
        return self._get(f"/reviews/{review}", ReviewResource)

    def confirm(
        self,
        review: int,
        corrections: Mapping[str, Correction] | None = None,
        *,
        override: Sequence[str] = (),
        order: str | None = None,
        replaces: UUID | str | None = None,
    ) -> RecordResource:
        """Confirm the extracted fields with your corrections (for a table, all rows); returns the record.

        `order` is the reference of the open order to link it to, `replaces` the record that the document
        amends. `override` names failed checks to ignore. Any other failed check is an ApiError of kind
        `checks-failed`, which lists them in `checks`.
        """
        body: dict[str, object] = {"corrections": dict(corrections or {}), "override": list(override)}
        body |= {"order": order, "replaces": replaces}
        return self._send("POST", f"/reviews/{review}/confirm", body, RecordResource)

    def reject_document(self, document: UUID | str, reason: str) -> DocumentResource:
        """Reject a document that needs review, or dismiss one that failed."""
        return self._send("POST", f"/documents/{document}/reject", {"reason": reason}, DocumentResource)

    def reject(self, review: int, reason: str) -> ReviewResource:
        return self._send("POST", f"/reviews/{review}/reject", {"reason": reason}, ReviewResource)

    def records(
        self, *, kind: str | None = None, state: str = "confirmed", **filters: Filter
    ) -> Iterator[RecordResource]:
        """The confirmed records, or those in another state, or `all`."""
        return self._filter("/records", RecordResource, filters, kind=kind, state=state)

    def record(self, record: UUID | str) -> RecordResource:
        return self._get(f"/records/{record}", RecordResource)

    def record_versions(self, record: UUID | str) -> Iterator[RecordVersionResource]:
        return self._list(f"/records/{record}/versions", RecordVersionResource)

    def reopen_record(self, record: UUID | str, reason: str) -> RecordResource:
        """Have a confirmed or voided record reviewed again."""
        return self._send("POST", f"/records/{record}/reopen", {"reason": reason}, RecordResource)

    def correct_record(
        self,
        record: UUID | str,
        corrections: Mapping[str, Correction] | None = None,
        *,
        reason: str,
        override: Sequence[str] = (),
        order: str | None = None,
    ) -> RecordResource:
        """Correct fields of a confirmed record, or choose its order ("" for none)."""
        body: dict[str, object] = {"corrections": dict(corrections or {}), "override": list(override)}
        body |= {"reason": reason, "order": order}
        return self._send("POST", f"/records/{record}/correct", body, RecordResource)

    def void_record(self, record: UUID | str, reason: str) -> RecordResource:
        return self._send("POST", f"/records/{record}/void", {"reason": reason}, RecordResource)

    def merge_record(self, record: UUID | str, into: UUID | str, *, reason: str) -> RecordResource:
        """Merge a record into another one, which is returned."""
        body = {"into": into, "reason": reason}
        return self._send("POST", f"/records/{record}/merge", body, RecordResource)

    def split_record(
        self, record: UUID | str, *, reason: str, document: UUID | str | None = None
    ) -> RecordResource:
        """Undo a merge, or give a document a record of its own, which is returned."""
        body = {"document": document, "reason": reason}
        return self._send("POST", f"/records/{record}/split", body, RecordResource)

    def organization_names(self) -> list[str]:
        """The names by which suppliers address the organization."""
        return self._get("/organization/names", OrganizationNames).names

    def set_organization_names(self, names: Sequence[str]) -> list[str]:
        """Replace the names. Without any, addressees are not checked."""
        return self._send("POST", "/organization/names", {"names": names}, OrganizationNames).names

    def suppliers(self, **filters: Filter) -> Iterator[SupplierResource]:
        return self._filter("/suppliers", SupplierResource, filters)

    def supplier_trust(self, supplier: UUID | str) -> SupplierTrustResource:
        """Whether a supplier is trusted, and which uncertain fields need no review."""
        return self._get(f"/suppliers/{supplier}/trust", SupplierTrustResource)

    def set_supplier_trust(self, supplier: UUID | str, *, trusted: bool) -> SupplierTrustResource:
        """Switch trust in a supplier on or off."""
        body = {"trusted": trusted}
        return self._send("POST", f"/suppliers/{supplier}/trust", body, SupplierTrustResource)

    def orders(self, *, state: str | None = None, **filters: Filter) -> Iterator[OrderResource]:
        return self._filter("/orders", OrderResource, filters, state=state)

    def order(self, order: UUID | str) -> OrderResource:
        return self._get(f"/orders/{order}", OrderResource)

    def import_orders(self, kind: str, orders: Sequence[NewOrder]) -> OrderImportResult:
        """Import orders by reference; an open order with the same reference gets the new values."""
        return self._send("POST", "/orders", {"kind": kind, "orders": orders}, OrderImportResult)

    def close_order(self, order: UUID | str) -> OrderResource:
        return self._send("POST", f"/orders/{order}/close", None, OrderResource)

    # Events and operations.

    def events(
        self, after: int | None = None, *, wait: float = 0, entity_type: str | None = None
    ) -> EventBatch:
        """The events after a position; with `wait`, the call blocks until there is one."""
        return self._get("/events", EventBatch, after=after, wait=wait, entity_type=entity_type)

    def follow(
        self, after: int | None = None, *, wait: float = 25, entity_type: str | None = None
    ) -> Iterator[FeedEventResource]:
        """Yield every event after a position, forever. A position too old raises ApiError (`reset`)."""
        while True:
            batch = self.events(after, wait=wait, entity_type=entity_type)
            yield from batch.data
            after = batch.next

    def ledger(
        self, *, entity_type: str | None = None, entity_id: str | None = None
    ) -> Iterator[LedgerEntryResource]:
        return self._list("/ledger", LedgerEntryResource, entity_type=entity_type, entity_id=entity_id)

    def subscriptions(self, *, mailbox: UUID | str | None = None) -> Iterator[SubscriptionResource]:
        return self._list("/subscriptions", SubscriptionResource, mailbox=mailbox)

    def failures(self, *, unresolved: bool | None = None) -> Iterator[FailureResource]:
        return self._list("/failures", FailureResource, open=unresolved)

    def retry_failure(self, failure: int) -> FailureResource:
        return self._send("POST", f"/failures/{failure}/retry", None, FailureResource)

    # Destinations of notices.

    def notice_destinations(self) -> Iterator[NoticeDestinationResource]:
        return self._list("/notices", NoticeDestinationResource)

    def add_notice_destination(self, destination: NewNoticeDestination) -> NoticeDestinationResource:
        return self._send("POST", "/notices", destination, NoticeDestinationResource)

    def remove_notice_destination(self, destination: UUID | str) -> None:
        self._fetch("DELETE", f"/notices/{destination}")

    def test_notice_destination(self, destination: UUID | str) -> NoticeTestResult:
        return self._send("POST", f"/notices/{destination}/test", None, NoticeTestResult)

    # Outgoing webhooks.

    def webhooks(self) -> Iterator[WebhookResource]:
        return self._list("/webhooks", WebhookResource)

    def add_webhook(
        self,
        url: str,
        kinds: list[str] | None = None,
        *,
        style: Literal["standard", "cloudevents"] = "standard",
    ) -> WebhookWithSecret:
        return self._send(
            "POST", "/webhooks", {"url": url, "kinds": kinds or [], "format": style}, WebhookWithSecret
        )

    def remove_webhook(self, webhook: UUID | str) -> None:
        self._fetch("DELETE", f"/webhooks/{webhook}")

    def replay_webhook(self, webhook: UUID | str, *, after: int) -> WebhookResource:
        return self._send("POST", f"/webhooks/{webhook}/replay", {"after": after}, WebhookResource)

    def test_webhook(self, webhook: UUID | str) -> WebhookTestResult:
        return self._send("POST", f"/webhooks/{webhook}/test", None, WebhookTestResult)

    # HTTP.

    def _list(self, path: str, kind: type[Result], /, **query: QueryValue) -> Iterator[Result]:
        cursor: str | None = None
        while True:
            parameters: dict[str, QueryValue] = query if cursor is None else query | {"cursor": cursor}
            page = self._get(path, ResultPage[kind], **parameters)
            yield from page.data
            cursor = page.next
            if cursor is None:
                return

    def _filter(
        self, path: str, kind: type[Result], filters: Mapping[str, Filter], /, **query: QueryValue
    ) -> Iterator[Result]:
        """A list with the filters of its page. `from_` is `from`, which Python reserves."""
        texts = {name.removesuffix("_"): str(value) for name, value in filters.items() if value is not None}
        return self._list(path, kind, **query, **texts)

    def _get(self, path: str, kind: type[Result], /, **query: QueryValue) -> Result:
        return msgspec.json.decode(self._fetch("GET", path, **query), type=kind)

    def _send(self, method: str, path: str, body: object, kind: type[Result]) -> Result:
        content = msgspec.json.encode(body if body is not None else {})
        return msgspec.json.decode(self._fetch(method, path, content), type=kind)

    def _fetch(self, method: str, path: str, body: bytes | None = None, /, **query: QueryValue) -> bytes:
        parameters = {name: _format_query_value(value) for name, value in query.items() if value is not None}
        url = self._url + path + (f"?{urllib.parse.urlencode(parameters)}" if parameters else "")
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json, */*"}
        if method != "GET":
            kind = "application/octet-stream" if path == "/documents" else "application/json"
            headers |= {"Idempotency-Key": str(uuid4()), "Content-Type": kind}
        for attempt in range(1, ATTEMPTS + 1):
            request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310  the caller's own
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310
                    return response.read()
            except urllib.error.HTTPError as error:
                with error:
                    problem = _read_problem(error)
                kind = problem.type.rpartition(":")[2]
                failure = ApiError(error.code, kind, problem.detail, problem.checks)
                retryable = error.code in {429, 503} or problem.type.endswith(":in-progress")
                wait = _retry_delay(error.headers, attempt)
            except (OSError, http.client.HTTPException) as error:
                failure = ApiError(
                    0, "unreachable", f"No complete response from the server ({type(error).__name__})."
                )
                retryable, wait = True, 0.5 * 2**attempt
            if not retryable or attempt == ATTEMPTS:
                raise failure
            time.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")


def _read_problem(response: urllib.error.HTTPError) -> ProblemBody:
    try:
        return msgspec.json.decode(response.read(), type=ProblemBody)
    except (msgspec.DecodeError, OSError, http.client.HTTPException):
        return ProblemBody()


def _retry_delay(headers: Headers, attempt: int) -> float:
    retry_after: Any = headers.get("retry-after", "")
    return min(float(retry_after) if str(retry_after).isdecimal() else 0.5 * 2**attempt, LONGEST_WAIT_SECONDS)


def _format_query_value(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
