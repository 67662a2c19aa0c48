"""Types of directories in the API."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec

Selector = Annotated[str, msgspec.Meta(min_length=1, max_length=320)]
Selectors = Annotated[list[Selector], msgspec.Meta(max_length=100)]
CredentialText = Annotated[str, msgspec.Meta(min_length=1, max_length=65_536)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=320)]


class DirectoryDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A directory to add, or to change if one with this name exists.

    Gmail needs `key` and `admin_address`; Outlook needs `tenant_id`, `client_id`, and `client_secret` or
    `certificate`. Groups, domains and patterns must all match; without any, every user is selected.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    provider: Literal["gmail", "outlook"]
    key: Annotated[CredentialText, msgspec.Meta(description="JSON key of a service account.")] | None = None
    admin_address: Name | None = None
    tenant_id: Name | None = None
    client_id: Name | None = None
    client_secret: CredentialText | None = None
    certificate: (
        Annotated[CredentialText, msgspec.Meta(description="Certificate and private key, in PEM.")] | None
    ) = None
    groups: Selectors = []
    domains: Selectors = []
    patterns: Selectors = []
    excluded_patterns: Selectors = []
    content_policy: Literal["full", "documents", "metadata"] = "full"
    folder: Name | None = None
    leaver_action: Literal["keep", "pause", "disconnect"] = "pause"
    max_leaver_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 10


class DirectoryResource(msgspec.Struct, frozen=True):
    """A directory. `users` counts its users by state; `listed_users` those that the last listing returned.

    With a `stop_reason`, the last listing was not applied: confirm the leavers with a sync.
    """

    id: UUID
    name: str
    provider: str
    tenant_id: str | None
    client_id: str
    admin_address: str | None
    groups: list[str]
    domains: list[str]
    patterns: list[str]
    excluded_patterns: list[str]
    content_policy: str
    folder: str | None
    leaver_action: str
    max_leaver_percent: int
    added_at: datetime
    listed_at: datetime | None
    listed_users: int | None
    stopped_at: datetime | None
    stop_reason: str | None
    last_error: str | None
    removed_at: datetime | None
    users: dict[str, int]


class DirectoryUserResource(msgspec.Struct, frozen=True):
    """A user that a directory selected. `reason` says why the user has this state."""

    id: UUID
    address: str
    state: str
    reason: str
    mailbox_id: UUID | None
    changed_at: datetime


class PreviewedUserResource(msgspec.Struct, frozen=True):
    address: str
    outcome: str
    reason: str


class DirectoryPreviewResource(msgspec.Struct, frozen=True):
    """What a sync would do. With a `stop_reason`, it would change nothing and wait for a confirmation."""

    counts: dict[str, int]
    stop_reason: str | None
    users: list[PreviewedUserResource]


class DirectorySyncRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`confirmed_leavers`: allow up to this many users to leave, even above the limit."""

    confirmed_leavers: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
