"""What a method of the API works with: the caller's mailbox, the arguments, the body, and the rest of the
world.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mailsim.gmail.box import Box
from mailsim.gmail.params import Parameter
from mailsim.gmail.watch import Watches
from mailsim.google.clients import Client
from mailsim.google.grants import AccessToken
from mailsim.google.realm import Realm


@dataclass(frozen=True, slots=True)
class Context:
    """`raw` is the body as it came, for uploads; `body` its properties, for JSON."""

    realm: Realm
    watches: Watches
    box: Box
    token: AccessToken
    client: Client
    args: Mapping[str, Any]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    raw: bytes = b""
    content_type: str = ""
    upload: bool = False


Run = Callable[[Context], "dict[str, Any] | None"]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the API. `path` is what follows `users/{userId}/`; `answer` the type of its answer,
    if any.
    """

    id: str
    http: str
    path: tuple[str, ...]
    scopes: frozenset[str]
    run: Run
    answer: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    properties: Mapping[str, type] = field(default_factory=dict[str, type])
    uploads: bool = False

    @property
    def endpoint(self) -> str:
        """The name that faults and meters use: `messages.get`."""
        return self.id.removeprefix("users.")
