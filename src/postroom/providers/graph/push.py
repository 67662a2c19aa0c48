"""Parse Graph's notifications: batches of items, each with a client state. Pure.

The caller verifies the client state, the secret of the subscription: Graph signs nothing. The HTTP endpoint
is in `web.push`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from postroom.errors import PushRejected
from postroom.model import LifecycleEvent, Notification, Secret
from postroom.ports import PushRequest

MAX_ID_CHARACTERS: Final = 512
# Graph documents no maximum; batches of real pushes are far smaller.
MAX_ITEMS: Final = 500
# A real item has about eleven commas. A body with more is not worth decoding: it has too many items.
MAX_COMMAS: Final = 24 * MAX_ITEMS
_MESSAGE: Final = re.compile(r"messages(?:/|\(')([^/')]+)(?:'\))?$", re.IGNORECASE)
_EVENTS: Final = {event.value.lower(): event for event in LifecycleEvent}


class _ResourceData(msgspec.Struct, gc=False):
    id: str | None = None


class _GraphNotification(msgspec.Struct, rename="camel", gc=False):
    subscription_id: str | None = None
    client_state: str | None = None
    resource: str | None = None
    resource_data: _ResourceData | None = None
    lifecycle_event: str | None = None


_Many = msgspec.Meta(max_length=MAX_ITEMS)


class _GraphNotifications(msgspec.Struct):
    value: Annotated[list[_GraphNotification], _Many]


class _RawGraphNotifications(msgspec.Struct):
    value: Annotated[list[msgspec.Raw], _Many]


_items: Final = msgspec.json.Decoder(_GraphNotifications)
_raw_items: Final = msgspec.json.Decoder(_RawGraphNotifications)
_item: Final = msgspec.json.Decoder(_GraphNotification)


@dataclass(frozen=True)
class GraphPush:
    async def refresh_keys(self) -> None:
        """Graph does not sign notifications: the secret of the subscription is the only proof."""

    def read(self, push: PushRequest) -> Sequence[Notification]:
        if push.body.count(b",") > MAX_COMMAS:
            raise PushRejected("a Graph push has too many items")
        try:
            notifications = [_to_notification(item) for item in _decode_items(push.body)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PushRejected("a Graph notification cannot be parsed") from error
        if not notifications:
            raise PushRejected("a Graph notification has no items")
        return notifications


def _decode_items(body: bytes) -> Sequence[_GraphNotification]:
    """An item that cannot be parsed becomes an empty one, so that the others still count."""
    try:
        return _items.decode(body).value
    except msgspec.ValidationError:
        return [_decode_item(raw) for raw in _raw_items.decode(body).value]


def _decode_item(raw: msgspec.Raw) -> _GraphNotification:
    try:
        return _item.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _GraphNotification()


def _to_notification(item: _GraphNotification) -> Notification:
    return Notification(
        provider_subscription_id=_validate_id(item.subscription_id),
        client_state=Secret(item.client_state) if item.client_state else None,
        message_id=_validate_id(_message_id(item)),
        lifecycle=_EVENTS.get(item.lifecycle_event.lower()) if item.lifecycle_event else None,
    )


def _validate_id(text: str | None) -> str | None:
    """An id if it is short printable ASCII, as all of Graph's ids are; otherwise None."""
    plain = text and len(text) <= MAX_ID_CHARACTERS and text.isascii() and text.isprintable()
    return text if plain else None


def _message_id(item: _GraphNotification) -> str | None:
    """From the resource data, or else from the resource path, which has two spellings."""
    if item.resource_data is not None and item.resource_data.id:
        return item.resource_data.id
    found = _MESSAGE.search(item.resource) if item.resource else None
    return found[1] if found else None
