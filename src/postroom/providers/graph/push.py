"""Graph's notifications: batches of items, each with its subscription's secret. None is believed here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from postroom.errors import PushRefused
from postroom.model import LifecycleEvent, Notice, Secret
from postroom.ports import Push

_MESSAGE: Final = re.compile(r"messages(?:/|\(')([^/')]+)(?:'\))?$", re.IGNORECASE)
_EVENTS: Final = {event.value.lower(): event for event in LifecycleEvent}


class _ResourceData(msgspec.Struct):
    id: str | None = None


class _Item(msgspec.Struct, rename="camel"):
    subscription_id: str = ""
    client_state: str | None = None
    resource: str | None = None
    resource_data: _ResourceData | None = None
    lifecycle_event: str | None = None


class _Items(msgspec.Struct):
    value: list[_Item]


@dataclass(frozen=True)
class GraphPush:
    async def refresh_keys(self) -> None:
        """Graph does not sign these; the secret of the subscription is the whole proof."""

    def read(self, push: Push) -> Sequence[Notice]:
        try:
            items = msgspec.json.decode(push.body, type=_Items).value
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PushRefused("a notification of Graph cannot be read") from error
        return [_notice(item) for item in items]


def _notice(item: _Item) -> Notice:
    return Notice(
        provider_subscription_id=item.subscription_id,
        client_state=Secret(item.client_state) if item.client_state else None,
        message_id=_message_id(item),
        lifecycle=_EVENTS.get((item.lifecycle_event or "").lower()),
    )


def _message_id(item: _Item) -> str | None:
    """N6: from the data, else from the path, in either of its spellings."""
    if item.resource_data is not None and item.resource_data.id:
        return item.resource_data.id
    found = _MESSAGE.search(item.resource or "")
    return found[1] if found else None
