"""The checks of a completed login (scopes, account, readable mailbox), and its refusals.

Reads the store and the provider; stores nothing. The refusals hold the text that people see.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from postroom.errors import PermanentError, TransientError
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.fixed_token import FixedToken
from postroom.model import Account, Grant, OrganizationId, Tokens
from postroom.ports import Provider
from postroom.store import mailboxes
from postroom.store.database import Database


class LoginRefusalReason(StrEnum):
    """Why a login did not connect a mailbox."""

    UNKNOWN = "unknown"  # wrong, used, expired, or started in another browser
    DENIED = "denied"  # the person denied consent
    NOT_ACCEPTED = "not_accepted"  # the provider rejected this login
    SCOPES_MISSING = "scopes_missing"  # the person granted fewer permissions than needed
    OTHER_ACCOUNT = "other_account"  # another account signed in than requested
    NO_MAILBOX = "no_mailbox"  # the account has no readable mailbox
    APPLICATION = "application"  # the provider rejects this Postroom's application
    TRY_AGAIN = "try_again"  # the provider is unavailable


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """A login that stored nothing. The request, if it is known, can be tried again."""

    reason: LoginRefusalReason
    message: str
    request: ConnectRequest | None = None
    invited: bool = False


def refuse_unknown_login() -> LoginRefusal:
    return LoginRefusal(
        LoginRefusalReason.UNKNOWN,
        "This sign-in is not valid: it was already used, took longer than ten minutes, or was started in"
        " another browser.",
    )


def refuse_denied_consent(error: str | None, request: ConnectRequest) -> LoginRefusal:
    """Explain the provider's error code.

    The provider's own description is never shown: anyone can forge it in the callback URL.
    """
    if error in {"access_denied", "consent_required"}:
        return LoginRefusal(
            LoginRefusalReason.DENIED, "You did not allow access, so nothing was connected.", request
        )
    if error in {"admin_policy_enforced", "org_internal", "unauthorized_client"}:
        return LoginRefusal(
            LoginRefusalReason.NOT_ACCEPTED,
            "Your organization's policy does not allow this application.",
            request,
        )
    return LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, "The provider did not grant access.", request)


async def check_grant(
    database: Database,
    provider: Provider,
    organization: OrganizationId,
    grant: Grant,
    request: ConnectRequest,
) -> LoginRefusal | None:
    """Check a grant: enough scopes, the requested account, a readable mailbox."""
    if grant.missing_scopes:
        return LoginRefusal(
            LoginRefusalReason.SCOPES_MISSING,
            "Permission to read mail is missing: a checkbox on the consent page was not selected. Postroom"
            " asks only for read access and cannot work without it.",
            replace(request, force_consent=True),
        )
    if request.mailbox is not None:
        async with database.transaction(organization) as connection:
            mailbox = await mailboxes.get(connection, request.mailbox)
        same = {grant.account.account_id, grant.account.substitute_id}
        if mailbox is None or mailbox.account_id not in same:
            return LoginRefusal(
                LoginRefusalReason.OTHER_ACCOUNT,
                "You signed in with an account other than this mailbox's. Sign in with the same account,"
                " or connect the other one as a new mailbox.",
                request,
            )
    elif request.address is not None and request.address.lower() != grant.account.address:
        return LoginRefusal(
            LoginRefusalReason.OTHER_ACCOUNT,
            "The account that signed in does not have the requested address. A shared mailbox cannot be"
            " connected by a person's sign-in, because the provider sends no notifications for it: connect"
            " it app-only (`postroom mailboxes connect outlook --app-only`), or sign in as that mailbox.",
            request,
        )
    return await _check_readable(provider, grant.account, grant.tokens, request)


async def _check_readable(
    provider: Provider, account: Account, tokens: Tokens, request: ConnectRequest
) -> LoginRefusal | None:
    try:
        await provider.mailbox(account.provider_user_id, FixedToken(tokens.access)).check()
    except TransientError:
        return None  # it may be readable later
    except PermanentError as error:
        return LoginRefusal(LoginRefusalReason.NO_MAILBOX, str(error), request)
    return None
