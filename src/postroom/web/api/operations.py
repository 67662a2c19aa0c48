"""The definition of an API operation: a function with typed input and result; its context and error.

To add an operation, write such a function and add it to an `OPERATIONS` table in another module. Its route,
the validation of its input and its OpenAPI description follow from the types and the docstring.
`operation_runner` runs it.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request

from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.flow.documents.value_checks import ReviewContext
from postroom.flow.mailboxes.connect import ConnectContext
from postroom.flow.mailboxes.directories import DirectoryContext
from postroom.flow.outbound.deliver import DeliverContext
from postroom.flow.outbound.send_notices import NoticeContext
from postroom.model import OrganizationId, Scope
from postroom.ports import BlobStore, RemoteMailbox
from postroom.store.connection import Connection
from postroom.store.mailboxes import Mailbox
from postroom.web.event_stream import EventStreams

PathT = TypeVar("PathT")
QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")
ResultT = TypeVar("ResultT")


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="Maximum number of items in the page.")] = 50
    cursor: (
        Annotated[str, msgspec.Meta(max_length=2_000, description="`next` of the previous page.")] | None
    ) = None


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


@dataclass(frozen=True)
class ApiContext:
    """Collaborators of the operations."""

    connect: ConnectContext
    blobs: BlobStore
    streams: EventStreams
    remote: Callable[[Mailbox], RemoteMailbox]
    deliver: DeliverContext
    review: ReviewContext
    sandbox: FileSandbox
    directories: DirectoryContext
    notices: NoticeContext


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """An authenticated caller. `actor` identifies the API key or member in the ledger."""

    organization: OrganizationId
    actor: str
    scopes: frozenset[Scope]
    records_calls: bool = False


@dataclass(frozen=True)
class ApiCall(Generic[PathT, QueryT, BodyT]):
    """One call of an operation, with its parsed input."""

    context: ApiContext
    caller: ApiCaller
    request: Request
    path: PathT
    query: QueryT
    body: BodyT

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        return self.context.connect.database.transaction(self.caller.organization)


class ApiProblem(Exception):
    """An error response (RFC 9457). `kind` is the last part of its type URN; `headers` use underscores.

    `failed_checks` are pairs of a name and what the check found.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        failed_checks: Sequence[tuple[str, str]] = (),
        **headers: str,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers = status, kind, detail, headers
        self.failed_checks = failed_checks


def not_found(what: str) -> ApiProblem:
    return ApiProblem(404, "not-found", f"{what.capitalize()} not found.")


def require_found(found: ResultT | None, what: str) -> ResultT:
    """Return the result of a lookup, or raise 404."""
    if found is None:
        raise not_found(what)
    return found


@dataclass(frozen=True)
class Operation:
    """One row of an operations table.

    `media_type` is that of the response; functions that return bytes build the response themselves. A
    body of type `bytes` is a file. `matched` says that the operation respects `If-Match`. `secret_body` says
    that not even a digest of the body may be stored.
    """

    method: str
    path: str
    call: Callable[[ApiCall[Any, Any, Any]], Awaitable[Any]]
    scope: Scope
    tag: str
    status: int = 200
    media_type: str = "application/json"
    matched: bool = False
    secret_body: bool = False

    @cached_property
    def types(self) -> tuple[type[Any], type[Any], type[Any]]:
        """The types of path, query and body."""
        hints = get_type_hints(self.call, include_extras=True)
        argument = hints["call"]
        assert get_origin(argument) is ApiCall, f"{self.call.__name__} must take an ApiCall"
        path, query, body = get_args(argument)
        return path, query, body

    @cached_property
    def result_type(self) -> Any:
        return get_type_hints(self.call, include_extras=True)["return"]

    @property
    def name(self) -> str:
        return self.call.__name__

    @property
    def summary(self) -> str:
        return (self.call.__doc__ or "").strip().partition("\n")[0]

    @property
    def body(self) -> Literal["none", "file", "json"]:
        kind = self.types[2]
        return "none" if kind is type(None) else "file" if kind is bytes else "json"

    @property
    def writes(self) -> bool:
        return self.method not in READ_METHODS


MAX_IDEMPOTENCY_KEY_LENGTH: Final = 200
READ_METHODS: Final = frozenset({"GET", "HEAD"})
