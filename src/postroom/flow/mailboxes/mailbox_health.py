"""From an error to the health of a mailbox: its cause, what it means, and what to do about it.

A transient cause counts from the second failed attempt in a row, any other cause at once. A completed sync or
a confirmed subscription ends the problem; the statements are in `store.mailbox_health`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from postroom.errors import (
    ApplicationRejected,
    DatabaseUnavailable,
    InvalidGrant,
    LeaseLost,
    OperatorError,
    PermanentError,
    ProviderServerError,
    ProviderUnreachable,
    QuotaExhausted,
    RateLimited,
    RateLimitWait,
    SecretUnreadable,
    TokenRejected,
    TransientError,
    describe_error,
)
from postroom.model import HealthCause
from postroom.store import ledger, mailbox_health, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.work import Lease

# The most specific class decides.
_CAUSES: Final[Mapping[type[Exception], HealthCause]] = {
    Exception: HealthCause.INTERRUPTED,
    ProviderServerError: HealthCause.SERVER_ERROR,
    ProviderUnreachable: HealthCause.UNREACHABLE,
    TokenRejected: HealthCause.TOKEN_REJECTED,
    RateLimited: HealthCause.THROTTLED,
    RateLimitWait: HealthCause.THROTTLED,
    OperatorError: HealthCause.OPERATOR_REQUIRED,
    SecretUnreadable: HealthCause.SECRET_UNREADABLE,
    ApplicationRejected: HealthCause.APPLICATION_REJECTED,
    QuotaExhausted: HealthCause.QUOTA_EXHAUSTED,
    PermanentError: HealthCause.ACCESS_DENIED,
    InvalidGrant: HealthCause.CONSENT_LOST,
}
_LEDGER_EVENTS: Final[Mapping[HealthCause, str]] = {
    HealthCause.CONSENT_LOST: "TOKEN_REFRESH_FAILED",
    HealthCause.ACCESS_DENIED: "MAILBOX_REFUSED",
    HealthCause.SUBSCRIPTION_DENIED: "MAILBOX_REFUSED",
}
ATTEMPTS_BEFORE_PROBLEM: Final = 2


@dataclass(frozen=True, slots=True)
class CauseDescription:
    """A cause in plain words: a short name, what it means, and what an operator can do."""

    name: str
    meaning: str
    remedy: str


DESCRIPTIONS: Final[Mapping[HealthCause, CauseDescription]] = {
    HealthCause.CONSENT_LOST: CauseDescription(
        "Reconnect required",
        "The grant has expired or was revoked. New mail is not fetched.",
        "Reconnect the mailbox; the sync resumes where it stopped.",
    ),
    HealthCause.ACCESS_DENIED: CauseDescription(
        "Access denied",
        "The provider denies access to this mailbox or rejects the requests. New mail is not fetched.",
        "Check the license, the permissions and the access policies of the mailbox at the provider.",
    ),
    HealthCause.SERVER_ERROR: CauseDescription(
        "Provider failing",
        "The provider returns server errors. New mail is fetched as soon as it recovers.",
        "Check the provider's status page. No action is needed in Postroom.",
    ),
    HealthCause.THROTTLED: CauseDescription(
        "Throttled",
        "The provider limits the request rate, so new mail arrives late.",
        "If this continues, check which other programs read this mailbox, and the application's quota.",
    ),
    HealthCause.UNREACHABLE: CauseDescription(
        "Provider unreachable",
        "The provider does not respond. New mail is fetched as soon as the connection works.",
        "Check this machine's network, DNS, proxy and firewall, then the provider's status page.",
    ),
    HealthCause.TOKEN_REJECTED: CauseDescription(
        "Access tokens rejected",
        "The provider rejects access tokens that it has just issued. New mail is fetched as soon as it"
        " accepts them.",
        "If this continues, check the provider's status page and access policies, or reconnect the mailbox.",
    ),
    HealthCause.INTERRUPTED: CauseDescription(
        "Sync failing",
        "Syncs of this mailbox fail because of a fault in Postroom or its storage.",
        "See the worker's log and the health page.",
    ),
    HealthCause.SECRET_UNREADABLE: CauseDescription(
        "Grant unreadable",
        "The vault cannot open the stored grant of this mailbox. New mail is not fetched.",
        "Restore the vault's key and restart the workers, or reconnect the mailbox.",
    ),
    HealthCause.APPLICATION_REJECTED: CauseDescription(
        "Application rejected",
        "The provider rejects Postroom's application. New mail is not fetched.",
        "Check the client ID, the client secret and the registration of the application at the provider.",
    ),
    HealthCause.QUOTA_EXHAUSTED: CauseDescription(
        "Quota used up",
        "The application's quota at the provider is used up. New mail is not fetched until it renews.",
        "Raise the quota of the application at the provider.",
    ),
    HealthCause.OPERATOR_REQUIRED: CauseDescription(
        "Operator required",
        "Postroom cannot read this mailbox until an operator acts.",
        "The error below says what to do.",
    ),
    HealthCause.NO_SUBSCRIPTION: CauseDescription(
        "Connected without push",
        "The provider sends no notifications. Postroom polls for new mail instead.",
        "Run `postroom subscriptions check`.",
    ),
    HealthCause.PUSH_SILENT: CauseDescription(
        "Connected without push",
        "New mail arrived without notifications. Postroom polls for it while the subscription is replaced.",
        "If this continues, run `postroom subscriptions check`.",
    ),
    HealthCause.SUBSCRIPTION_DENIED: CauseDescription(
        "Subscription denied",
        "The provider denies a push subscription for this mailbox. Postroom polls for new mail instead.",
        "Check the permissions of the application and that the mailbox and its folder exist.",
    ),
}


def find_cause(error: Exception) -> HealthCause:
    return next(_CAUSES[ancestor] for ancestor in type(error).__mro__ if ancestor in _CAUSES)


async def record_failure(
    connection: Connection, mailbox: Mailbox, error: Exception, *, cause: HealthCause | None = None
) -> None:
    """Set the health and append a ledger entry, unless the mailbox was reconnected in the meantime.

    Works in the caller's transaction.
    """
    cause = cause or find_cause(error)
    message = describe_error(error)
    changed = await mailbox_health.record_problem(
        connection, mailbox.id, cause, message, connected_at=mailbox.connected_at
    )
    if changed and cause in _LEDGER_EVENTS:
        entry = NewLedgerEntry(_LEDGER_EVENTS[cause], "mailbox", str(mailbox.id), payload={"error": message})
        await ledger.append_entries(connection, mailbox.organization, [entry])


async def record_failed_attempt(
    database: Database, lease: Lease, mailbox: Mailbox, error: Exception, *, made_progress: bool
) -> None:
    """Record that an attempt to read the mailbox failed. One that stored something only shows its error.

    Does nothing if the database is the cause: then nothing can be recorded.
    """
    is_patient = made_progress or lease.attempts < ATTEMPTS_BEFORE_PROBLEM
    with suppress(DatabaseUnavailable, TransientError, LeaseLost):
        async with work.fenced_transaction(database, lease) as connection:
            await mailbox_health.record_failed_attempt(connection, mailbox.id, describe_error(error))
            if isinstance(error, OperatorError) or not is_patient:
                await record_failure(connection, mailbox, error)
