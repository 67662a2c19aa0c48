"""Postroom's own exceptions. A class exists only where a caller handles it differently.

PostroomError
├── OperatorError               the operator must act; the message says what to do
│   ├── SettingsError           a setting or an option is missing or malformed
│   ├── DatabaseUnavailable     the database cannot be reached, is full or is read-only
│   │   └── DatabaseUnreachable the server is starting, stopping or not responding; a retry may succeed
│   ├── DatabaseTooOld          the server is older than PostgreSQL 15
│   ├── SecretUnreadable        the vault cannot decrypt a stored secret, or may not fetch it
│   ├── ApplicationRejected     the provider rejects Postroom's application, not one mailbox
│   ├── QuotaExhausted          the application's quota at the provider is used up until an operator raises it
│   └── SchemaError             the schema is newer or older than this Postroom, or was changed by hand
├── TransientError              a retry may succeed; carries `retry_after` (seconds) where known
│   ├── ProviderUnreachable     no response from the provider: it is down, or the network is
│   ├── ProviderServerError     the provider responded with a server error or an unusable response
│   ├── TokenRejected           the provider rejects access tokens that it has just issued
│   ├── UrlUnreachable          the provider cannot reach our notification URL
│   ├── RateLimitWait           the rate limit allows the next request only after a long wait
│   ├── RateLimited             the provider asks to slow down; `all_mailboxes`: for all mailboxes together
│   └── PushUnverifiable        a push cannot be verified right now; the provider should send it again
├── PermanentError              a retry never succeeds
│   ├── InvalidGrant            the grant was revoked or has expired; the owner must reconnect the mailbox
│   ├── AccessDenied            the access token does not allow this; that of a newer consent may
│   ├── LoginRejected           the provider rejected a login; nothing was stored
│   ├── NotFound                the requested object does not exist
│   ├── CursorExpired           the provider no longer has the changes since the cursor; a full listing is due
│   ├── ResponseTooLarge        the provider's response exceeds the limit; a smaller request may succeed
│   ├── UnsupportedByProvider   the provider does not offer this with the access that was granted
│   ├── AlreadyExists           the provider has an identical object; carries its id
│   ├── PushRejected            a push does not come from the provider it claims to come from
│   ├── InvalidField            a value does not fit its field; carries field, row and column
│   ├── ChecksFailed            a person's values fail checks that were not overridden; carries the checks
│   ├── SenderQuotaReached      the quota of a sender is used up; its attachment waits for a person
│   └── UnreadableFile          a file cannot be read within the limits; the message says why
│       └── PasswordRequired    the file is encrypted, and no password or a wrong one was given
└── LeaseLost                   another worker may hold the lease; nothing done under it may be committed

The REST API has its own: `web.api.operations.ApiProblem` and `client.ApiError`.
"""

from collections.abc import Sequence


class PostroomError(Exception):
    """Base class. The message is written for people and never contains personal data."""


class OperatorError(PostroomError):
    pass


class SettingsError(OperatorError):
    pass


class DatabaseUnavailable(OperatorError):
    pass


class DatabaseUnreachable(DatabaseUnavailable):
    pass


class DatabaseTooOld(OperatorError):
    pass


class SecretUnreadable(OperatorError):
    pass


class ApplicationRejected(OperatorError):
    pass


class QuotaExhausted(OperatorError):
    pass


class SchemaError(OperatorError):
    pass


class TransientError(PostroomError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderUnreachable(TransientError):
    pass


class ProviderServerError(TransientError):
    pass


class TokenRejected(TransientError):
    pass


class UrlUnreachable(TransientError):
    pass


class RateLimitWait(TransientError):
    pass


class RateLimited(TransientError):
    def __init__(
        self, message: str, *, retry_after: float | None = None, all_mailboxes: bool = False
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.all_mailboxes = all_mailboxes


class PushUnverifiable(TransientError):
    pass


class PermanentError(PostroomError):
    pass


class InvalidGrant(PermanentError):
    pass


class AccessDenied(PermanentError):
    pass


class LoginRejected(PermanentError):
    pass


class NotFound(PermanentError):
    pass


class CursorExpired(PermanentError):
    pass


class ResponseTooLarge(PermanentError):
    pass


class UnsupportedByProvider(PermanentError):
    pass


class AlreadyExists(PermanentError):
    def __init__(self, message: str, *, provider_id: str) -> None:
        super().__init__(message)
        self.provider_id = provider_id


class PushRejected(PermanentError):
    pass


class InvalidField(PermanentError):
    def __init__(
        self, message: str, *, field: str, row: int | None = None, column: str | None = None
    ) -> None:
        super().__init__(message)
        self.field, self.row, self.column = field, row, column


class ChecksFailed(PermanentError):
    """`checks` are pairs of a check's name and what it found."""

    def __init__(self, checks: Sequence[tuple[str, str]]) -> None:
        names = "; ".join(name for name, _ in checks)
        super().__init__(
            f"These values fail a check: {names}. Correct them, or override the check to confirm them anyway."
            if len(checks) == 1
            else f"These values fail {len(checks)} checks: {names}. Correct them, or override the checks to"
            " confirm them anyway."
        )
        self.checks = tuple(checks)


class SenderQuotaReached(PermanentError):
    """The quota of a sender is used up: the message is stored, and its attachment waits for a person."""


class UnreadableFile(PermanentError):
    pass


class PasswordRequired(UnreadableFile):
    pass


class LeaseLost(PostroomError):
    pass


def describe_error(error: Exception) -> str:
    """What may be stored of an error: our own message, but only the class of a foreign one."""
    return str(error) if isinstance(error, PostroomError) else type(error).__name__
