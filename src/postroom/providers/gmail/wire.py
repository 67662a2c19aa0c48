"""Shapes and refusals of Google's wire. Pure. Numbers of 64 bits are texts there; what is empty is absent."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

from postroom.errors import (
    CursorExpired,
    InvalidGrant,
    LoginRejected,
    NotFound,
    OperatorError,
    PermanentError,
    PostroomError,
    RateLimited,
    TransientError,
    UnsupportedByProvider,
)
from postroom.providers import oauth
from postroom.providers.transport import HttpAnswer


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
    """What listings and records say about a message."""

    id: str
    thread_id: str | None = None


class GmailMessageList(msgspec.Struct, rename="camel"):
    messages: tuple[GmailMessageReference, ...] = ()
    next_page_token: str | None = None


class GmailHistoryItem(msgspec.Struct, rename="camel"):
    """A message in a record of the history; `label_ids` are those that were added or removed."""

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
    """`raw` stays as it is on the wire, so that it is decoded without becoming a text before."""

    id: str
    history_id: str
    internal_date: str
    thread_id: str | None = None
    label_ids: frozenset[str] = frozenset()
    size_estimate: int | None = None
    payload: GmailPayload | None = None
    raw: msgspec.Raw = msgspec.Raw(b"")


# Too many calls at the same time: not a matter of how many there are in a minute.
TOO_MANY_CONCURRENT = "Gmail does not answer so many calls at the same time"
_RATE = {"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"}
_NOT_COVERED = {"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}
_OPERATOR = {"dailyLimitExceeded", "accessNotConfigured", "SERVICE_DISABLED"}
_RETRY_AT = re.compile(r"[Rr]etry after (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")


def to_error(answer: HttpAnswer) -> PostroomError | None:
    """What an answer of the Gmail API means; the reason first, then the status."""
    if answer.status < 400:
        return None
    reason, message = _reason(answer)
    if reason in _RATE or answer.status == 429:
        return RateLimited(
            TOO_MANY_CONCURRENT if "concurrent" in message else "Gmail asks for patience",
            retry_after=_retry_after(answer, message),
            all_mailboxes="'Queries per minute'" in message,  # and not per user
        )
    if answer.status >= 500:
        return TransientError("Gmail has a fault of its own")
    return _request_error(answer.status, reason, message)


def _request_error(status: int, reason: str, message: str) -> PostroomError:
    if "PubSub" in message or "topicName" in message:
        return OperatorError(
            "Gmail cannot publish to the Pub/Sub topic. It must exist, in the project of the OAuth client,"
            " and let gmail-api-push@system.gserviceaccount.com publish."
        )
    if "Only one user push notification client" in message:
        return OperatorError(
            "Another topic of this project already receives this mailbox's pushes; stop it first."
        )
    match status:
        case 401:
            return InvalidGrant("Gmail refuses the access token, a fresh one too. Connect the mailbox again.")
        case 403:
            return _access_error(reason, message)
        case 404 | 410:
            return NotFound("Gmail no longer has this")
        case 400 if message == "Invalid id value":  # nothing has such an id
            return NotFound("Gmail has never had this")
        case 400 if "pageToken" in message:
            return CursorExpired("Gmail no longer knows this page of its listing")
        case 400 if reason == "failedPrecondition":
            return TransientError("Gmail says that a precondition failed")
        case _:
            return PermanentError(f"Gmail refuses with {status} {reason}".strip())


def _access_error(reason: str, message: str) -> PostroomError:
    if reason in _OPERATOR:
        return OperatorError("The Gmail API is not enabled for this project, or its daily limit is used up.")
    if "Metadata scope does not support" in message:
        return UnsupportedByProvider("Gmail does not search where only metadata may be read")
    if reason in _NOT_COVERED or "Metadata scope" in message:
        return InvalidGrant("Gmail says that the consent does not cover this. Connect the mailbox again.")
    return PermanentError(f"Gmail refuses access: {reason}" if reason else "Gmail refuses access")


def to_token_error(answer: HttpAnswer) -> PostroomError | None:
    """What an answer of Google's token endpoint means."""
    if answer.status < 400:
        return None
    if answer.status >= 500 or answer.status in {408, 429}:
        return TransientError("Google's token endpoint has a fault of its own")
    match answer.told().get("error"):
        case "invalid_grant":
            return InvalidGrant(
                "Google says that the consent was withdrawn or has expired. Connect the mailbox again."
            )
        case "invalid_client" | "unauthorized_client" | "deleted_client":
            return OperatorError(
                "Google does not accept the client id and secret. Check POSTROOM_GOOGLE_CLIENT_SECRET."
            )
        case "redirect_uri_mismatch":
            return OperatorError("The callback address is not registered at Google for this client id.")
        case "internal_failure" | "server_error" | "temporarily_unavailable":
            return TransientError("Google's token endpoint has a fault of its own")
        case str(other):
            return LoginRejected(f"Google refuses: {other if _is_word(other) else answer.status}")
        case _:
            return oauth.intermediary_error(answer)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z_]{1,40}", value) is not None


def _reason(answer: HttpAnswer) -> tuple[str, str]:
    error = answer.told().get("error")
    if not isinstance(error, dict):
        return "", ""
    told = cast("dict[str, Any]", error)
    listed: list[Any] = told.get("errors") or told.get("details") or [{}]
    first = cast("dict[str, Any]", listed[0]) if isinstance(listed[0], dict) else {}
    return str(first.get("reason", "")), str(told.get("message", ""))


def _retry_after(answer: HttpAnswer, message: str) -> float | None:
    """Seconds to wait: from the header, or from the time that Gmail writes into its message."""
    header = answer.headers.get("retry-after", "")
    if header.isdecimal():
        return float(header)
    found = _RETRY_AT.search(message)
    if not found:
        return None
    try:  # by Google's clock, which need not be ours
        now = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):
        now = datetime.now(UTC)
    return max(0.0, (datetime.fromisoformat(found[1]) - now).total_seconds())
