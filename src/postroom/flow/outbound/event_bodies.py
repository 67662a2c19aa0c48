"""The bodies of deliveries, in the form that a webhook chose: Standard Webhooks or CloudEvents 1.0."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from postroom.model import OrganizationId, WebhookFormat
from postroom.store.feed import FeedEvent

CONTENT_TYPES: Final = {
    WebhookFormat.STANDARD: "application/json",
    WebhookFormat.CLOUDEVENTS: "application/cloudevents+json; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class EventContent:
    """An event as receivers see it."""

    id: str
    kind: str
    subject: str | None
    time: datetime
    data: Mapping[str, object]


def build_event_body(style: WebhookFormat, organization: OrganizationId, event: FeedEvent) -> str:
    data = {
        "entity_type": event.entity_type,
        "entity_id": event.entity_id,
        "position": event.position,
        **event.data,
    }
    subject = f"{event.entity_type}/{event.entity_id}"
    return build_body(
        style, organization, EventContent(str(event.id), event.kind, subject, event.created_at, data)
    )


def build_body(style: WebhookFormat, organization: OrganizationId, content: EventContent) -> str:
    if style == WebhookFormat.STANDARD:
        payload = {"type": content.kind, "timestamp": content.time, "data": content.data}
    else:
        # Source and id together are unique, as CloudEvents requires.
        payload = {
            "specversion": "1.0",
            "id": content.id,
            "source": f"urn:postroom:{organization}",
            "type": f"postroom.{content.kind}",
            **({"subject": content.subject} if content.subject else {}),
            "time": content.time,
            "datacontenttype": "application/json",
            "data": content.data,
        }
    return msgspec.json.encode(payload).decode()
