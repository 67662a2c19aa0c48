"""GmailMethod, an entry of the method table, and GmailCallContext, which a method's function receives.

Types only; the table is in `methods`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.mailbox_settings import MailboxSettings
from mailsim.gmail.parameters import QueryParameter
from mailsim.gmail.upload import UploadBody
from mailsim.gmail.watches import WatchRegistry
from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccessToken


@dataclass(frozen=True, slots=True)
class GmailCallContext:
    """The input of a method.

    `body` has the properties of the JSON body or, for an upload, of its metadata.
    """

    google: GoogleContext
    watches: WatchRegistry
    gmail_mailbox: GmailMailbox
    token: GoogleAccessToken
    client: GoogleClient
    args: Mapping[str, Any]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    upload: UploadBody | None = None

    @property
    def settings(self) -> MailboxSettings:
        return self.gmail_mailbox.settings


MethodFunction = Callable[[GmailCallContext], "dict[str, Any] | None"]


@dataclass(frozen=True, slots=True)
class GmailMethod:
    """A method of the API.

    `path` follows `users/{userId}/`. `response_type` is empty if it returns nothing.
    """

    id: str
    http: str
    path: tuple[str, ...]
    scopes: frozenset[str]
    run: MethodFunction
    response_type: str = ""
    parameters: Mapping[str, QueryParameter] = field(default_factory=dict[str, QueryParameter])
    properties: Mapping[str, type] = field(default_factory=dict[str, type])
    uploads: bool = False

    @property
    def endpoint(self) -> str:
        """The name that faults and meters use, such as `messages.get`."""
        return self.id.removeprefix("users.")
