"""GraphSubscription, its resource syntax and JSON, the changes it matches, and SubscriptionRegistry.

No routes and no pushes: they are in `subscriptions` and `notifications`.
"""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from urllib.parse import unquote

from cryptography import x509

from mailsim.entra.directory import EntraUser
from mailsim.entra.grants import EntraAccessToken
from mailsim.graph import filters
from mailsim.message_state import RECOVERABLE_ITEMS, MailboxChange, MessageState

ChangeType = Literal["created", "updated", "deleted"]
CHANGE_TYPES: tuple[ChangeType, ...] = get_args(ChangeType)
_RESOURCE = re.compile(
    r"/?(?:me|users(?:/(?P<user>[^/()?]+)|\('(?P<quoted>[^')]+)'\)))"
    r"(?:/mailfolders(?:/(?P<folder>[^/()?]+)|\('(?P<folder_quoted>[^')]+)'\)))?/messages/?(?:\?(?P<query>.*))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SubscriptionResource:
    """A parsed `users/{user}/mailFolders('{folder}')/messages?{query}`. An empty user means `me`."""

    user: str
    folder: str
    query: str


def parse_resource(text: str) -> SubscriptionResource | None:
    match = _RESOURCE.fullmatch(text)
    if match is None:
        return None
    user, folder = match["user"] or match["quoted"], match["folder"] or match["folder_quoted"]
    return SubscriptionResource(unquote(user or ""), unquote(folder or ""), match["query"] or "")


@dataclass(slots=True)
class GraphSubscription:
    """A subscription. Times are the simulator's; `token_expires` is the expiry of its access token."""

    id: str
    access: EntraAccessToken
    creator: str
    user: EntraUser
    resource: str
    folder: str | None  # folder key; None: the whole mailbox
    change_types: frozenset[str]
    change_type: str  # as requested
    url: str
    lifecycle_url: str | None
    client_state: str | None
    expires: float
    token_expires: float
    immutable: bool
    tls: str
    filter: filters.FilterNode | None = None
    select: tuple[str, ...] = ()
    includes_resource_data: bool = False
    certificate: x509.Certificate | None = None
    certificate_text: str | None = None
    certificate_id: str | None = None
    url_app_id: str | None = None
    created: float = 0.0
    removed: bool = False
    reminders: asyncio.Task[Any] | None = None  # sends reminders and ends the subscription
    paused: list[Any] = field(default_factory=list[Any])  # notifications that wait for reauthorization

    @property
    def application_id(self) -> str:
        return self.access.application.client_id

    def is_active(self, now: float) -> bool:
        return not self.removed and now < self.expires


def format_timestamp(seconds: float) -> str:
    """Format a time with seven fractional digits, as Graph does for subscriptions."""
    whole = datetime.fromtimestamp(seconds, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{whole.microsecond:06d}0Z"


def to_json(subscription: GraphSubscription, context: str = "", *, secret: bool = False) -> dict[str, Any]:
    """Return the JSON. `secret` adds the clientState, which only the creation response contains."""
    response: dict[str, Any] = {"@odata.context": context} if context else {}
    return response | {
        "id": subscription.id,
        "resource": subscription.resource,
        "applicationId": subscription.application_id,
        "changeType": subscription.change_type,
        "clientState": subscription.client_state if secret else None,
        "notificationUrl": subscription.url,
        "notificationQueryOptions": None,
        "lifecycleNotificationUrl": subscription.lifecycle_url,
        "expirationDateTime": format_timestamp(subscription.expires),
        "creatorId": subscription.creator,
        "includeResourceData": True if subscription.includes_resource_data else None,
        "latestSupportedTlsVersion": subscription.tls,
        "encryptionCertificate": subscription.certificate_text,
        "encryptionCertificateId": subscription.certificate_id,
        "notificationUrlAppId": subscription.url_app_id,
    }


def classify_change(
    subscription: GraphSubscription, change: MailboxChange, *, before: bool, after: bool
) -> ChangeType | None:
    """Return what a change means for a subscription.

    `before` and `after` say whether the message passed the subscription's filter before and after.
    """
    was = before and _is_watched(subscription, change.before)
    now = after and _is_watched(subscription, change.after)
    if now and not was:
        return "created"
    if was and not now:
        return "deleted"
    if was and now:
        moved = (
            change.before is not None
            and change.after is not None
            and change.before.folder_keys != change.after.folder_keys
        )
        return "updated" if not moved or subscription.folder is None else None
    return None


def _is_watched(subscription: GraphSubscription, state: MessageState | None) -> bool:
    if state is None:
        return False
    if subscription.folder is None:
        return RECOVERABLE_ITEMS not in state.folder_keys
    return subscription.folder in state.folder_keys


class SubscriptionRegistry:
    """Every subscription that is not deleted, by ID and by watched mailbox."""

    def __init__(self) -> None:
        self._by_id: dict[str, GraphSubscription] = {}
        self._by_user: dict[str, dict[str, GraphSubscription]] = {}

    def add(self, subscription: GraphSubscription) -> None:
        self._by_id[subscription.id] = subscription
        self._by_user.setdefault(subscription.user.oid, {})[subscription.id] = subscription

    def remove(self, subscription: GraphSubscription) -> None:
        subscription.removed = True
        if subscription.reminders is not None and subscription.reminders is not asyncio.current_task():
            subscription.reminders.cancel()
        self._by_id.pop(subscription.id, None)
        self._by_user.get(subscription.user.oid, {}).pop(subscription.id, None)

    def get(self, identifier: str) -> GraphSubscription | None:
        return self._by_id.get(identifier)

    def list_for_user(self, oid: str) -> list[GraphSubscription]:
        return list(self._by_user.get(oid, {}).values())

    def list_all(self) -> list[GraphSubscription]:
        return list(self._by_id.values())
