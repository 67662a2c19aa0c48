"""Shapes and refusals of Microsoft's wire. Pure."""

import re
from typing import Any, Final, cast

import msgspec

from postroom.errors import (
    AlreadyExists,
    Gone,
    GrantLost,
    LoginRefused,
    OperatorError,
    PermanentError,
    PostroomError,
    TransientError,
)
from postroom.providers.transport import Answer


class User(msgspec.Struct, rename="camel"):
    id: str
    mail: str | None = None
    user_principal_name: str | None = None


class Subscription(msgspec.Struct, rename="camel"):
    id: str
    resource: str
    notification_url: str | None
    expiration_date_time: str


class Subscriptions(msgspec.Struct):
    value: list[Subscription]
    next_link: str | None = msgspec.field(name="@odata.nextLink", default=None)


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
_EXISTING: Final = re.compile(r"Subscription Id ([0-9a-fA-F-]{36}) already exists")


def refusal(answer: Answer) -> PostroomError | None:
    """What an answer of Graph means. Codes change their case, so they are compared in lower case."""
    if answer.status < 400:
        return None
    code, message = _code(answer)
    if answer.status in {423, 429, 509} or answer.status >= 500:
        return TransientError("Microsoft Graph asks for patience", retry_after=_retry_after(answer))
    if answer.status == 401:
        return GrantLost("Microsoft refuses the access token, a fresh one too. Connect the mailbox again.")
    if answer.status == 403:
        return PermanentError(
            "Microsoft does not allow access to this mailbox: it lacks a permission, or a policy forbids it."
        )
    if answer.status == 404 and code in _NO_MAILBOX:
        return PermanentError("Microsoft has no mailbox for this user.")
    if answer.status in {404, 410}:
        return Gone("Microsoft no longer has this")
    if answer.status == 409 and (found := _EXISTING.search(message)):
        return AlreadyExists("Microsoft already has an equal subscription", provider_id=found[1])
    if code in {"validationerror", "invalidrequest"} and "alidation" in message:
        return TransientError("Microsoft could not validate the notification address")
    return PermanentError(f"Microsoft refuses with {answer.status} {code}".strip())


def subscription_refusal(answer: Answer) -> PostroomError | None:
    """The same for `/subscriptions`, where 404 speaks of the subscription and not of a mailbox."""
    return Gone("Microsoft no longer has this subscription") if answer.status == 404 else refusal(answer)


def token_refusal(answer: Answer) -> PostroomError | None:
    """What an answer of Entra's token endpoint means: the code decides, then the word."""
    if answer.status < 400:
        return None
    if answer.status >= 500 or answer.status == 429:
        return TransientError("Microsoft's sign-in has a fault of its own", retry_after=_retry_after(answer))
    told = answer.told()
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
        return PermanentError(f"Microsoft says that this account is disabled or gone{shown}.")
    if codes & _RESTART:
        return LoginRefused(f"Microsoft does not accept this sign-in{shown}; it was used or is too old")
    if told.get("error") in {"invalid_grant", "interaction_required", "consent_required"}:
        return GrantLost(f"Microsoft wants the user to sign in again{shown}. Connect the mailbox again.")
    return LoginRefused(f"Microsoft refuses the sign-in{shown}")


def _code(answer: Answer) -> tuple[str, str]:
    error = answer.told().get("error")
    if not isinstance(error, dict):
        return "", ""
    told = cast("dict[str, Any]", error)
    return str(told.get("code", "")).lower(), str(told.get("message", ""))


def _retry_after(answer: Answer) -> float | None:
    header = answer.headers.get("retry-after", "")
    return float(header) if header.isdecimal() else None
