"""Google's JSON structures, and the translation of its error responses to our errors. No I/O.

In this JSON, 64-bit numbers are strings and empty values are absent.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

from postroom.errors import (
    ApplicationRejected,
    CursorExpired,
    InvalidGrant,
    LoginRejected,
    NotFound,
    OperatorError,
    PermanentError,
    PostroomError,
    ProviderServerError,
    QuotaExhausted,
    RateLimited,
    TokenRejected,
    TransientError,
    UnsupportedByProvider,
)
from postroom.providers import oauth
from postroom.providers.transport import HttpResponse


class GmailWatch(msgspec.Struct, rename="camel"):
    history_id: str
    expiration: str


class GmailProfile(msgspec.Struct, rename="camel"):
    history_id: str
    messages_total: int = 0


class GmailLabel(msgspec.Struct):
    id: str
    name: str


class GmailLabels(msgspec.Struct):
    labels: tuple[GmailLabel, ...] = ()


class GmailMessageReference(msgspec.Struct, rename="camel"):
    """A message as listings and history records name it."""

    id: str
    thread_id: str | None = None


class GmailMessageList(msgspec.Struct, rename="camel"):
    messages: tuple[GmailMessageReference, ...] = ()
    next_page_token: str | None = None


class GmailHistoryItem(msgspec.Struct, rename="camel"):
    """A message of a history record; `label_ids` are the labels that were added or removed."""

    message: GmailMessageReference
    label_ids: tuple[str, ...] = ()


class GmailHistoryRecord(msgspec.Struct, rename="camel"):
    id: str
    messages_added: tuple[GmailHistoryItem, ...] = ()
    messages_deleted: tuple[GmailHistoryItem, ...] = ()
    labels_added: tuple[GmailHistoryItem, ...] = ()
    labels_removed: tuple[GmailHistoryItem, ...] = ()


class GmailHistory(msgspec.Struct, rename="camel"):
    history_id: str
    history: tuple[GmailHistoryRecord, ...] = ()
    next_page_token: str | None = None


class GmailHeader(msgspec.Struct):
    name: str
    value: str = ""


class GmailPayload(msgspec.Struct, rename="camel"):
    mime_type: str = ""
    headers: tuple[GmailHeader, ...] = ()


class GmailMessage(msgspec.Struct, rename="camel"):
    """`raw` is kept undecoded, so that a large message does not become a string first."""

    id: str
    history_id: str
    internal_date: str
    thread_id: str | None = None
    label_ids: frozenset[str] = frozenset()
    size_estimate: int | None = None
    payload: GmailPayload | None = None
    raw: msgspec.Raw = msgspec.Raw(b"")


# Too many concurrent requests, in contrast to too many per minute.
TOO_MANY_CONCURRENT = "Gmail rejects this many concurrent requests"
_RATE = {"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"}
_NOT_COVERED = {"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}
_NOT_ENABLED = {"accessNotConfigured", "SERVICE_DISABLED"}
_RETRY_AT = re.compile(r"[Rr]etry after (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")


def to_error(response: HttpResponse) -> PostroomError | None:
    """The error that a Gmail response means, by its reason, then by its status; None for success."""
    if response.status < 400:
        return None
    reason, message = _reason(response)
    if reason in _RATE or response.status == 429:
        return RateLimited(
            TOO_MANY_CONCURRENT if "concurrent" in message else "Gmail limits the request rate",
            retry_after=_retry_after(response, message),
            all_mailboxes="'Queries per minute'" in message,  # and not per user
        )
    if response.status >= 500:
        return ProviderServerError(f"Gmail returned a server error (status {response.status}).")
    return _request_error(response.status, reason, message)


def _request_error(status: int, reason: str, message: str) -> PostroomError:
    if "PubSub" in message or "topicName" in message:
        return OperatorError(
            "Gmail cannot publish to the Pub/Sub topic. Create it in the project of the OAuth client, and"
            " grant roles/pubsub.publisher to gmail-api-push@system.gserviceaccount.com."
        )
    if "Only one user push notification client" in message:
        return OperatorError(
            "Gmail already publishes this mailbox to another Pub/Sub topic of this project. Set"
            " POSTROOM_PUBSUB_TOPIC to that topic, or stop the other watch (users.stop)."
        )
    match status:
        case 401:
            return TokenRejected("Gmail rejects the access token of this mailbox, even a fresh one.")
        case 403:
            return _access_error(reason, message)
        case 404 | 410:
            return NotFound("Gmail no longer has this item")
        case 400 if message == "Invalid id value":  # no item has such an id
            return NotFound("Gmail does not know this item")
        case 400 if "pageToken" in message:
            return CursorExpired("Gmail no longer accepts this page token")
        case 400 if reason == "failedPrecondition":
            return TransientError("Gmail is temporarily unable to serve this mailbox")
        case _:
            return PermanentError(f"Gmail rejected the request: {status} {reason}".strip())


def _access_error(reason: str, message: str) -> PostroomError:
    if reason == "dailyLimitExceeded":
        return QuotaExhausted(
            "The daily quota of the Gmail API is used up. Raise it in the Google Cloud console,"
            " or wait until it renews."
        )
    if reason in _NOT_ENABLED:
        return ApplicationRejected(
            "The Gmail API is not enabled for this project. Enable it in the Google Cloud console."
        )
    if "Metadata scope does not support" in message:
        return UnsupportedByProvider("Gmail does not support search with the metadata scope")
    if reason in _NOT_COVERED or "Metadata scope" in message:
        return InvalidGrant("Gmail reports that the consent does not cover this. Connect the mailbox again.")
    return PermanentError(f"Gmail denies access: {reason}" if reason else "Gmail denies access")


def _service_account_error(response: HttpResponse) -> PostroomError | None:
    """The error of an app-only token request that the operator or the administrator must resolve."""
    body = response.error_body()
    description = str(body.get("error_description", ""))
    if body.get("error") == "unauthorized_client":
        return ApplicationRejected(
            "Google does not authorize this client for the requested scopes. For app-only mailboxes, add"
            " the client ID of the service account and all scopes in the admin console, under Security >"
            " API controls > Domain-wide delegation. A change can take some hours."
        )
    # A wrong signature, lifetime or audience; a deleted service account.
    if description.startswith(("Invalid JWT", "Invalid grant: account not found")):
        return ApplicationRejected(
            "Google rejects the key of the service account. Check this machine's clock. If it is right,"
            " create a new key and connect one of the mailboxes with it: the others get it too."
        )
    return None


def to_token_error(response: HttpResponse) -> PostroomError | None:
    """The error that a response of Google's token endpoint means; None for success."""
    if response.status < 400:
        return None
    if response.status == 429:
        return RateLimited("Google's token endpoint limits the request rate.")
    if response.status >= 500 or response.status == 408:
        return ProviderServerError(
            f"Google's token endpoint returned a server error (status {response.status})."
        )
    match response.error_body().get("error"):
        case "invalid_grant" | "unauthorized_client" if error := _service_account_error(response):
            return error
        case "invalid_grant":
            return InvalidGrant(
                "Google reports that the consent was revoked or has expired. Connect the mailbox again."
            )
        case "invalid_client" | "deleted_client":
            return ApplicationRejected(
                "Google rejects the client ID and secret."
                " Check POSTROOM_GOOGLE_CLIENT_ID and POSTROOM_GOOGLE_CLIENT_SECRET."
            )
        case "redirect_uri_mismatch":
            return OperatorError(
                "The callback URL is not registered for this OAuth client at Google."
                " Add it to the client's authorized redirect URIs."
            )
        case "internal_failure" | "server_error" | "temporarily_unavailable":
            return ProviderServerError("Google's token endpoint returned a server error.")
        case str(other):
            return LoginRejected(
                f"Google rejected this sign-in: {other if _is_word(other) else response.status}."
            )
        case _:
            return oauth.intermediary_error(response)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z_]{1,40}", value) is not None


def _reason(response: HttpResponse) -> tuple[str, str]:
    error = response.error_body().get("error")
    if not isinstance(error, dict):
        return "", ""
    details = cast("dict[str, Any]", error)
    reasons: list[Any] = details.get("errors") or details.get("details") or [{}]
    first = cast("dict[str, Any]", reasons[0]) if isinstance(reasons[0], dict) else {}
    return str(first.get("reason", "")), str(details.get("message", ""))


def _retry_after(response: HttpResponse, message: str) -> float | None:
    """Seconds to wait: from the header, or from the time in Gmail's error message."""
    header = response.headers.get("retry-after", "")
    if header.isdecimal():
        return float(header)
    match = _RETRY_AT.search(message)
    if not match:
        return None
    try:  # relative to Google's clock, which may differ from ours
        now = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError):
        now = datetime.now(UTC)
    return max(0.0, (datetime.fromisoformat(match[1]) - now).total_seconds())
