"""Every error Postroom raises. A class exists only where somebody acts differently on it.

PostroomError
├── OperatorError           somebody who runs Postroom must act; the message says what to do
│   ├── SettingsError       a setting is missing or malformed
│   ├── DatabaseUnavailable the database cannot be reached, is full or is read-only
│   ├── DatabaseTooOld      the server is older than PostgreSQL 15
│   └── SchemaError         the schema is newer, older or changed compared with this Postroom
├── TransientError          the same attempt may succeed later; carries `retry_after` where known
├── PermanentError          the same attempt will never succeed
│   └── GrantLost           what opened the mailbox is gone; its owner must connect it again
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


class PermanentError(PostroomError):
    pass


class GrantLost(PermanentError):
    pass


class LeaseLost(PostroomError):
    pass
