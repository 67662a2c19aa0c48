"""What an operation of the API is: one function with typed path, query, body and answer.

An operation is added by writing such a function and naming it in a table; the route, the checks of what
comes in, and the OpenAPI document follow from its types.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request

from postroom.flow.documents.review import ReviewContext
from postroom.flow.mailboxes.connect import ConnectContext
from postroom.flow.outbound.deliver import DeliverContext
from postroom.model import OrganizationId, Scope
from postroom.ports import BlobStore, RemoteMailbox
from postroom.store.database import Connection
from postroom.store.mailboxes import Mailbox
from postroom.web.event_stream import EventStreams

PathT = TypeVar("PathT")
QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")
ResultT = TypeVar("ResultT")


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at most.")] = 50
    cursor: Annotated[str, msgspec.Meta(max_length=500, description="`next` of the page before.")] | None = (
        None
    )


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


@dataclass(frozen=True)
class ApiContext:
    """What operations reach."""

    desk: ConnectContext
    blobs: BlobStore
    live: EventStreams
    remote: Callable[[Mailbox], RemoteMailbox]
    delivering: DeliverContext
    reviewing: ReviewContext


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """Who calls: a key or a member. `actor` is how the ledger names them."""

    organization: OrganizationId
    actor: str
    scopes: frozenset[Scope]


@dataclass(frozen=True)
class ApiCall(Generic[PathT, QueryT, BodyT]):
    context: ApiContext
    caller: ApiCaller
    request: Request
    path: PathT
    query: QueryT
    body: BodyT

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        return self.context.desk.database.transaction(self.caller.organization)


class ApiProblem(Exception):
    """An answer of the API (RFC 9457), raised where it is found out."""

    def __init__(self, status: int, kind: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers = status, kind, detail, headers


def not_found(what: str) -> ApiProblem:
    return ApiProblem(404, "not-found", f"There is no such {what}.")


def require_found(found: ResultT | None, what: str) -> ResultT:
    """What was looked up, else the answer that there is none."""
    if found is None:
        raise not_found(what)
    return found


@dataclass(frozen=True)
class Operation:
    """`answers` is the media type of what comes back; bytes are answered by the function itself.

    A body of the type `bytes` is a file. `matched`: it heeds `If-Match`.
    """

    method: str
    path: str
    call: Callable[[ApiCall[Any, Any, Any]], Awaitable[Any]]
    scope: Scope
    tag: str
    status: int = 200
    answers: str = "application/json"
    matched: bool = False

    @cached_property
    def types(self) -> tuple[type[Any], type[Any], type[Any]]:
        """Of path, query and body."""
        hints = get_type_hints(self.call, include_extras=True)
        argument = hints["call"]
        assert get_origin(argument) is ApiCall, f"{self.call.__name__} takes a Call"
        path, query, body = get_args(argument)
        return path, query, body

    @cached_property
    def answer(self) -> Any:
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


MAX_IDEMPOTENCY_KEY_LENGTH: Final = 200  # of an idempotency key
READ_METHODS: Final = frozenset({"GET", "HEAD"})
