"""Microsoft's JSON structures, and the translation of its error responses to our errors. No I/O."""

import re
from typing import Any, Final, cast

import msgspec

from postroom.errors import (
    AccessDenied,
    AlreadyExists,
    ApplicationRejected,
    CursorExpired,
    InvalidGrant,
    LoginRejected,
    NotFound,
    PermanentError,
    PostroomError,
    ProviderServerError,
    RateLimited,
    TokenRejected,
    UnsupportedByProvider,
    UrlUnreachable,
)
from postroom.providers import oauth
from postroom.providers.transport import HttpResponse


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
    """A file, item or reference attachment; only a file has its bytes here."""

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


class GraphExtendedProperty(msgspec.Struct):
    """A MAPI property; the id is its type and number, such as `Long 0xe08`."""

    id: str
    value: str | None = None


class GraphMessage(msgspec.Struct, rename="camel"):
    """A delta feed contains only changed properties: everything but the id may be absent."""

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
    single_value_extended_properties: tuple[GraphExtendedProperty, ...] = ()
    removed: dict[str, Any] | None = msgspec.field(name="@removed", default=None)


class GraphMessages(msgspec.Struct):
    """A page has either link. The kind of the link counts, not the name of its token."""

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


# Published AADSTS codes, by who must act. Without a listed code, `error` decides.
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


def to_error(response: HttpResponse) -> PostroomError | None:
    """The error that a response of Graph means; None for success.

    Codes are compared in lower case: Graph is not consistent about it.
    """
    if response.status < 400:
        return None
    code, message = _code(response)
    if response.status in {429, 509}:
        return RateLimited("Microsoft Graph limits the request rate.", retry_after=_retry_after(response))
    if response.status == 423 or response.status >= 500:
        return ProviderServerError(
            f"Microsoft Graph returned a server error (status {response.status}).",
            retry_after=_retry_after(response),
        )
    if response.status == 401:
        return TokenRejected("Microsoft rejects the access token of this mailbox, even a fresh one.")
    if response.status == 409 and (found := _EXISTING.search(message)):
        return AlreadyExists("Microsoft already has the same subscription", provider_id=found[1])
    if code in {"validationerror", "invalidrequest"} and "alidation" in message:
        return UrlUnreachable(
            "Microsoft could not validate the notification URL. `postroom subscriptions check` says why."
        )
    return _request_error(response.status, code, message)


def _request_error(status: int, code: str, message: str) -> PostroomError:
    if status == 410 or code in _EXPIRED or "Badly formed token" in message:
        return CursorExpired("Microsoft no longer has the changes since the last sync")
    match status:
        case 403:
            return AccessDenied(
                "Microsoft denies access to this mailbox."
                " Check the permissions of the application and the access policies of the mailbox."
            )
        case 404 if code in _NO_MAILBOX:
            return PermanentError("Microsoft has no mailbox for this user.")
        case 404:
            return NotFound("Microsoft no longer has this item")
        case 400 if code == "errorinvalididmalformed":  # no item has such an id
            return NotFound("Microsoft does not know this item")
        case 405:
            return UnsupportedByProvider("Microsoft does not support this request")
        case _:
            return PermanentError(f"Microsoft rejected the request: {status} {code}".strip())


def to_subscription_error(response: HttpResponse) -> PostroomError | None:
    """The same for `/subscriptions`, where 404 means the subscription and not the mailbox."""
    if response.status in {404, 410}:
        return NotFound("Microsoft no longer has this subscription")
    return to_error(response)


def to_token_error(response: HttpResponse) -> PostroomError | None:
    """The error that a response of Entra's token endpoint means: by its codes, then by its `error`."""
    if response.status < 400:
        return None
    if response.status == 429:
        return RateLimited(
            "Microsoft's token endpoint limits the request rate.", retry_after=_retry_after(response)
        )
    if response.status >= 500:
        return ProviderServerError(
            f"Microsoft's token endpoint returned a server error (status {response.status}).",
            retry_after=_retry_after(response),
        )
    body = response.error_body()
    if not isinstance(body.get("error"), str):
        return oauth.intermediary_error(response)
    codes = {code for code in cast("list[Any]", body.get("error_codes") or []) if isinstance(code, int)}
    shown = f" (AADSTS{min(codes)})" if codes else ""
    if codes & _TRY_AGAIN or body.get("error") in {"temporarily_unavailable", "server_error"}:
        return ProviderServerError(f"Microsoft's token endpoint is temporarily unavailable{shown}.")
    if codes & _OPERATOR or body.get("error") in {"invalid_client", "unauthorized_client", "invalid_scope"}:
        return ApplicationRejected(
            f"Microsoft rejects this application{shown}: its secret or certificate is wrong or has"
            " expired, or it is not registered in that tenant. Check the registration of the application."
        )
    if codes & _ACCOUNT_GONE:
        return InvalidGrant(f"Microsoft reports that this account is disabled or deleted{shown}.")
    if codes & _RESTART:
        return LoginRejected(
            f"Microsoft rejected this sign-in{shown}: its code was already used or has expired. Start again."
        )
    if body.get("error") in {"invalid_grant", "interaction_required", "consent_required"}:
        return InvalidGrant(
            f"Microsoft requires the user to sign in again{shown}. Connect the mailbox again."
        )
    return LoginRejected(f"Microsoft rejected this sign-in{shown}.")


def _code(response: HttpResponse) -> tuple[str, str]:
    error = response.error_body().get("error")
    if not isinstance(error, dict):
        return "", ""
    details = cast("dict[str, Any]", error)
    return str(details.get("code", "")).lower(), str(details.get("message", ""))


def _retry_after(response: HttpResponse) -> float | None:
    header = response.headers.get("retry-after", "")
    return float(header) if header.isdecimal() else None
