"""What a method of the API works with: the caller's mailbox, the arguments, the body, and the rest of the
world.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.parameters import QueryParameter
from mailsim.gmail.watches import WatchRegistry
from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccessToken


@dataclass(frozen=True, slots=True)
class GmailCallContext:
    """`raw` is the body as it came, for uploads; `body` its properties, for JSON."""

    realm: GoogleContext
    watches: WatchRegistry
    box: GmailMailbox
    token: GoogleAccessToken
    client: GoogleClient
    args: Mapping[str, Any]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    raw: bytes = b""
    content_type: str = ""
    upload: bool = False


Run = Callable[[GmailCallContext], "dict[str, Any] | None"]


@dataclass(frozen=True, slots=True)
class GmailMethod:
    """One method of the API. `path` is what follows `users/{userId}/`; `answer` the type of its answer,
    if any.
    """

    id: str
    http: str
    path: tuple[str, ...]
    scopes: frozenset[str]
    run: Run
    answer: str = ""
    parameters: Mapping[str, QueryParameter] = field(default_factory=dict[str, QueryParameter])
    properties: Mapping[str, type] = field(default_factory=dict[str, type])
    uploads: bool = False

    @property
    def endpoint(self) -> str:
        """The name that faults and meters use: `messages.get`."""
        return self.id.removeprefix("users.")
