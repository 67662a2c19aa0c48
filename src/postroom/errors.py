"""Every error Postroom raises. A class exists only where somebody acts differently on it.

PostroomError
├── OperatorError           somebody who runs Postroom must act; the message says what to do
│   ├── SettingsError       a setting is missing or malformed
│   ├── DatabaseUnavailable the database cannot be reached, is full or is read-only
│   ├── DatabaseTooOld      the server is older than PostgreSQL 15
│   └── SchemaError         the schema is newer, older or changed compared with this Postroom
├── TransientError          the same attempt may succeed later; carries `retry_after` where known
│   ├── Throttled           the provider asks to be asked less; `everybody`: of all mailboxes together
│   └── PushUnclear         whether a push is genuine cannot be told now; the provider shall send it again
├── PermanentError          the same attempt will never succeed
│   ├── GrantLost           what opened the mailbox is gone; its owner must connect it again
│   ├── LoginRefused        the provider did not accept a login; nothing was stored
│   ├── Gone                the provider no longer has what was asked for
│   ├── CursorExpired       the provider no longer tells what changed since; everything must be listed anew
│   ├── AnswerTooLarge      the provider's answer is larger than can be held; asking for less may do
│   ├── Unsupported         the provider does not offer this with the access that was given
│   ├── AlreadyExists       the provider has an equal one; carries its id
│   ├── PushRefused         a push is not from whom it claims to be
│   ├── FieldRefused        a value does not fit its field; carries the field's name, of a table the cell
│   └── Unreadable          a file cannot be read, or not within the limits; the message says why
└── LeaseLost               another worker may own this row now; whatever was done must not be committed
"""


class PostroomError(Exception):
    """The root: a message for a person, never personal data."""


class OperatorError(PostroomError):
    pass


class SettingsError(OperatorError):
    pass


class DatabaseUnavailable(OperatorError):
    pass


class DatabaseTooOld(OperatorError):
    pass


class SchemaError(OperatorError):
    pass


class TransientError(PostroomError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(TransientError):
    def __init__(self, message: str, *, retry_after: float | None = None, everybody: bool = False) -> None:
        super().__init__(message, retry_after=retry_after)
        self.everybody = everybody


class PushUnclear(TransientError):
    pass


class PermanentError(PostroomError):
    pass


class GrantLost(PermanentError):
    pass


class LoginRefused(PermanentError):
    pass


class Gone(PermanentError):
    pass


class CursorExpired(PermanentError):
    pass


class AnswerTooLarge(PermanentError):
    pass


class Unsupported(PermanentError):
    pass


class AlreadyExists(PermanentError):
    def __init__(self, message: str, *, provider_id: str) -> None:
        super().__init__(message)
        self.provider_id = provider_id


class PushRefused(PermanentError):
    pass


class FieldRefused(PermanentError):
    def __init__(
        self, message: str, *, field: str, row: int | None = None, column: str | None = None
    ) -> None:
        super().__init__(message)
        self.field, self.row, self.column = field, row, column


class Unreadable(PermanentError):
    pass


class LeaseLost(PostroomError):
    pass
