"""Shapes and refusals of Microsoft's wire. Pure."""

import re
from typing import Any, Final, cast

import msgspec

from postroom.errors import (
    AlreadyExists,
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


class GraphUser(msgspec.Struct, rename="camel"):
    id: str
    mail: str | None = None
    user_principal_name: str | None = None


class GraphSubscription(msgspec.Struct, rename="camel"):
    id: str
    resource: str
    notification_url: str | None
    expiration_date_time: str


class GraphSubscriptions(msgspec.Struct):
    value: list[GraphSubscription]
    next_link: str | None = msgspec.field(name="@odata.nextLink", default=None)


class GraphIdTranslation(msgspec.Struct, rename="camel"):
    source_id: str
    target_id: str | None = None


class GraphIdTranslations(msgspec.Struct):
    value: list[GraphIdTranslation]


class GraphFolder(msgspec.Struct, rename="camel"):
    id: str
    display_name: str = ""
    parent_folder_id: str | None = None
    total_item_count: int | None = None
    kind: str = msgspec.field(name="@odata.type", default="")


class GraphFolders(msgspec.Struct):
    value: tuple[GraphFolder, ...] = ()
    next_link: str | None = msgspec.field(name="@odata.nextLink", default=None)


class GraphEmailAddress(msgspec.Struct):
    name: str | None = None
    address: str | None = None


class GraphRecipient(msgspec.Struct, rename="camel"):
    email_address: GraphEmailAddress | None = None


class GraphFlag(msgspec.Struct, rename="camel"):
    flag_status: str | None = None


class GraphBody(msgspec.Struct, rename="camel"):
    content_type: str = "html"
    content: str | None = None


class GraphHeader(msgspec.Struct):
    name: str
    value: str | None = None


class GraphAttachment(msgspec.Struct, rename="camel"):
    """Of a file, an item or a reference; only a file has its bytes here."""

    id: str
    name: str | None = None
    content_type: str | None = None
    size: int = 0
    is_inline: bool = False
    content_id: str | None = None
    content_bytes: bytes | None = None
    kind: str = msgspec.field(name="@odata.type", default="")


class GraphAttachments(msgspec.Struct):
    value: tuple[GraphAttachment, ...] = ()
    next_link: str | None = msgspec.field(name="@odata.nextLink", default=None)


class GraphMessage(msgspec.Struct, rename="camel"):
    """A feed of changes tells of a message only what changed: everything but the id may be absent."""

    id: str
    conversation_id: str | None = None
    parent_folder_id: str | None = None
    change_key: str | None = None
    last_modified_date_time: str | None = None
    received_date_time: str | None = None
    sent_date_time: str | None = None
    is_read: bool | None = None
    is_draft: bool | None = None
    importance: str | None = None
    categories: frozenset[str] | None = None
    flag: GraphFlag | None = None
    has_attachments: bool | None = None
    internet_message_id: str | None = None
    internet_message_headers: tuple[GraphHeader, ...] = ()
    subject: str | None = None
    sender: GraphRecipient | None = None
    from_: GraphRecipient | None = msgspec.field(name="from", default=None)
    to_recipients: tuple[GraphRecipient, ...] = ()
    cc_recipients: tuple[GraphRecipient, ...] = ()
    bcc_recipients: tuple[GraphRecipient, ...] = ()
    body_preview: str | None = None
    body: GraphBody | None = None
    attachments: tuple[GraphAttachment, ...] = ()
    removed: dict[str, Any] | None = msgspec.field(name="@removed", default=None)


class GraphMessages(msgspec.Struct):
    """A page has either link. Which one it is counts, not how its token is called."""

    value: tuple[GraphMessage, ...] = ()
    next_link: str | None = msgspec.field(name="@odata.nextLink", default=None)
    delta_link: str | None = msgspec.field(name="@odata.deltaLink", default=None)


class GraphBatchPart(msgspec.Struct):
    id: str
    status: int
    headers: dict[str, Any] = {}
    body: msgspec.Raw = msgspec.Raw(b"{}")


class GraphBatch(msgspec.Struct):
    responses: tuple[GraphBatchPart, ...] = ()


# The public table of AADSTS codes, by who must act. `error` is looked at where no code is listed.
_TRY_AGAIN: Final = {90033, 50033, 90024, 90006, 50196}
_OPERATOR: Final = {7000215, 7000222, 700027, 700016, 7000112, 900144, 9002313, 90002, 70011, 9001023, 50011}
_ACCOUNT_GONE: Final = {50057, 50034}
_RESTART: Final = {54005, 501481, 700005}
_NO_MAILBOX: Final = {
    "resourcenotfound",
    "request_resourcenotfound",
    "mailboxnotenabledforrestapi",
    "mailboxnotsupportedforrestapi",
}
_EXPIRED: Final = {"syncstatenotfound", "syncstateinvalid", "resyncrequired"}
_EXISTING: Final = re.compile(r"Subscription Id ([0-9a-fA-F-]{36}) already exists")


def to_error(answer: HttpAnswer) -> PostroomError | None:
    """What an answer of Graph means. Codes change their case, so they are compared in lower case."""
    if answer.status < 400:
        return None
    code, message = _code(answer)
    if answer.status == 429:
        return RateLimited("Microsoft Graph asks for patience", retry_after=_retry_after(answer))
    if answer.status in {423, 509} or answer.status >= 500:
        return TransientError("Microsoft Graph asks for patience", retry_after=_retry_after(answer))
    if answer.status == 401:
        return InvalidGrant("Microsoft refuses the access token, a fresh one too. Connect the mailbox again.")
    if answer.status == 409 and (found := _EXISTING.search(message)):
        return AlreadyExists("Microsoft already has an equal subscription", provider_id=found[1])
    if code in {"validationerror", "invalidrequest"} and "alidation" in message:
        return TransientError("Microsoft could not validate the notification address")
    return _request_error(answer.status, code, message)


def _request_error(status: int, code: str, message: str) -> PostroomError:
    if status == 410 or code in _EXPIRED or "Badly formed token" in message:
        return CursorExpired("Microsoft no longer tells what changed since the last sync")
    match status:
        case 403:
            return PermanentError(
                "Microsoft does not allow access to this mailbox: a permission or a policy is against it."
            )
        case 404 if code in _NO_MAILBOX:
            return PermanentError("Microsoft has no mailbox for this user.")
        case 404:
            return NotFound("Microsoft no longer has this")
        case 400 if code == "errorinvalididmalformed":  # nothing has such an id
            return NotFound("Microsoft has never had this")
        case 405:
            return UnsupportedByProvider("Microsoft does not give this")
        case _:
            return PermanentError(f"Microsoft refuses with {status} {code}".strip())


def to_subscription_error(answer: HttpAnswer) -> PostroomError | None:
    """The same for `/subscriptions`, where 404 speaks of the subscription and not of a mailbox."""
    if answer.status in {404, 410}:
        return NotFound("Microsoft no longer has this subscription")
    return to_error(answer)


def to_token_error(answer: HttpAnswer) -> PostroomError | None:
    """What an answer of Entra's token endpoint means: the code decides, then the word."""
    if answer.status < 400:
        return None
    if answer.status >= 500 or answer.status == 429:
        return TransientError("Microsoft's sign-in has a fault of its own", retry_after=_retry_after(answer))
    told = answer.told()
    if not isinstance(told.get("error"), str):
        return oauth.intermediary_error(answer)
    codes = {code for code in cast("list[Any]", told.get("error_codes") or []) if isinstance(code, int)}
    shown = f" (AADSTS{min(codes)})" if codes else ""
    if codes & _TRY_AGAIN or told.get("error") in {"temporarily_unavailable", "server_error"}:
        return TransientError(f"Microsoft's sign-in asks for patience{shown}")
    if codes & _OPERATOR or told.get("error") in {"invalid_client", "unauthorized_client", "invalid_scope"}:
        return OperatorError(
            f"Microsoft does not accept this application{shown}: its secret has expired or is wrong, or it is"
            " not registered in that tenant. No mailbox is at fault; check the application's registration."
        )
    if codes & _ACCOUNT_GONE:
        return InvalidGrant(f"Microsoft says that this account is disabled or gone{shown}.")
    if codes & _RESTART:
        return LoginRejected(f"Microsoft does not accept this sign-in{shown}; it was used or is too old")
    if told.get("error") in {"invalid_grant", "interaction_required", "consent_required"}:
        return InvalidGrant(f"Microsoft wants the user to sign in again{shown}. Connect the mailbox again.")
    return LoginRejected(f"Microsoft refuses the sign-in{shown}")


def _code(answer: HttpAnswer) -> tuple[str, str]:
    error = answer.told().get("error")
    if not isinstance(error, dict):
        return "", ""
    told = cast("dict[str, Any]", error)
    return str(told.get("code", "")).lower(), str(told.get("message", ""))


def _retry_after(answer: HttpAnswer) -> float | None:
    header = answer.headers.get("retry-after", "")
    return float(header) if header.isdecimal() else None
