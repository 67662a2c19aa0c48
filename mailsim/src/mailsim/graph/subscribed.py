"""A subscription: what it watches, whom it tells, until when; its shape, and what a change means to it."""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from urllib.parse import unquote

from cryptography import x509

from mailsim.entra.directory import User
from mailsim.entra.grants import Access
from mailsim.graph import filters
from mailsim.state import Change, State

ChangeType = Literal["created", "updated", "deleted"]
CHANGE_TYPES: tuple[ChangeType, ...] = get_args(ChangeType)
_RESOURCE = re.compile(
    r"/?(?:me|users(?:/(?P<user>[^/()?]+)|\('(?P<quoted>[^')]+)'\)))"
    r"(?:/mailfolders(?:/(?P<folder>[^/()?]+)|\('(?P<folder_quoted>[^')]+)'\)))?/messages/?(?:\?(?P<query>.*))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Resource:
    """`users/{user}/mailFolders('{folder}')/messages?{query}`, taken apart. An empty user means `me`."""

    user: str
    folder: str
    query: str


def read_resource(text: str) -> Resource | None:
    match = _RESOURCE.fullmatch(text)
    if match is None:
        return None
    user, folder = match["user"] or match["quoted"], match["folder"] or match["folder_quoted"]
    return Resource(unquote(user or ""), unquote(folder or ""), match["query"] or "")


@dataclass(slots=True)
class Subscription:
    """Times are the simulator's. `token_expires`: when the access token ends that vouches for it."""

    id: str
    access: Access
    creator: str
    user: User
    resource: str
    folder: str | None  # key; None for the whole mailbox
    change_types: frozenset[str]
    change_type: str  # as it was asked for
    url: str
    lifecycle_url: str | None
    client_state: str | None
    expires: float
    token_expires: float
    immutable: bool
    tls: str
    where: filters.Node | None = None
    select: tuple[str, ...] = ()
    rich: bool = False
    certificate: x509.Certificate | None = None
    certificate_text: str | None = None
    certificate_id: str | None = None
    url_app_id: str | None = None
    created: float = 0.0
    removed: bool = False
    keeper: asyncio.Task[Any] | None = None  # reminds, and ends it
    paused: list[Any] = field(default_factory=list[Any])  # notifications that wait for a fresh token

    @property
    def application_id(self) -> str:
        return self.access.application.client_id

    def active(self, now: float) -> bool:
        return not self.removed and now < self.expires


def moment(seconds: float) -> str:
    """Seven digits of a second, as Graph writes these."""
    whole = datetime.fromtimestamp(seconds, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{whole.microsecond:06d}0Z"


def shape(one: Subscription, context: str = "", *, secret: bool = False) -> dict[str, Any]:
    """`secret`: with the clientState, which only the answer to its creation shows."""
    answer: dict[str, Any] = {"@odata.context": context} if context else {}
    return answer | {
        "id": one.id,
        "resource": one.resource,
        "applicationId": one.application_id,
        "changeType": one.change_type,
        "clientState": one.client_state if secret else None,
        "notificationUrl": one.url,
        "notificationQueryOptions": None,
        "lifecycleNotificationUrl": one.lifecycle_url,
        "expirationDateTime": moment(one.expires),
        "creatorId": one.creator,
        "includeResourceData": True if one.rich else None,
        "latestSupportedTlsVersion": one.tls,
        "encryptionCertificate": one.certificate_text,
        "encryptionCertificateId": one.certificate_id,
        "notificationUrlAppId": one.url_app_id,
    }


def meaning(one: Subscription, change: Change, *, before: bool, after: bool) -> ChangeType | None:
    """What a change is to a watcher. `before`, `after`: did the filter let the message pass then, and now?"""
    was = before and _watched(one, change.before)
    now = after and _watched(one, change.after)
    if now and not was:
        return "created"
    if was and not now:
        return "deleted"
    if was and now:
        moved = (
            change.before is not None
            and change.after is not None
            and change.before.places != change.after.places
        )
        return "updated" if not moved or one.folder is None else None
    return None


def _watched(one: Subscription, state: State | None) -> bool:
    if state is None:
        return False
    return one.folder in state.places if one.folder is not None else True


class Register:
    """Every subscription that is not deleted, by id and by the mailbox it watches."""

    def __init__(self) -> None:
        self._all: dict[str, Subscription] = {}
        self._of: dict[str, dict[str, Subscription]] = {}

    def add(self, one: Subscription) -> None:
        self._all[one.id] = one
        self._of.setdefault(one.user.oid, {})[one.id] = one

    def remove(self, one: Subscription) -> None:
        one.removed = True
        if one.keeper is not None and one.keeper is not asyncio.current_task():
            one.keeper.cancel()
        self._all.pop(one.id, None)
        self._of.get(one.user.oid, {}).pop(one.id, None)

    def get(self, identifier: str) -> Subscription | None:
        return self._all.get(identifier)

    def of(self, oid: str) -> list[Subscription]:
        return list(self._of.get(oid, {}).values())

    def all(self) -> list[Subscription]:
        return list(self._all.values())
