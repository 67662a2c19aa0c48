"""The data types of Pub/Sub: topic, subscription and message, with their name rules and pushed JSON.

`pubsub` stores and delivers them.
"""

import base64
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from mailsim.errors import InvalidRequest

TOPIC_NAME = re.compile(r"projects/[a-z][a-z0-9:.-]{1,60}/topics/[A-Za-z][\w.~+%-]{2,254}$", re.ASCII)
SUBSCRIPTION_NAME = re.compile(
    r"projects/[a-z][a-z0-9:.-]{1,60}/subscriptions/[A-Za-z][\w.~+%-]{2,254}$", re.ASCII
)

NAME_RULES = (
    "PROJECT is a-z followed by 1 to 60 of a-z, 0-9 and :.-; "
    "NAME is A-Z or a-z followed by 2 to 254 of A-Z, a-z, 0-9 and _.~+%-"
)


class PubSubTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic.

    `publisher`: gmail-api-push@system.gserviceaccount.com may publish to it.
    """

    name: str
    publisher: bool = True
    labels: dict[str, str] = {}
    retention: str = ""  # as the client wrote it, such as `600s`


class PubSubSubscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscription: to push or, without `push_endpoint`, to pull.

    Without a `service_account`, no token is sent. The default `audience` is the endpoint's URL with query.
    """

    name: str
    topic: str
    push_endpoint: str = ""
    service_account: str = ""
    audience: str = ""
    ack_seconds: int = 10
    retry_min_seconds: float | None = (
        None  # part of a retry policy; without one, retries start after 0.1 seconds
    )
    retry_max_seconds: float | None = None
    dead_letter_topic: str = ""
    max_attempts: int = 5  # before a message goes to the dead-letter topic
    retention_seconds: int = 7 * 86_400
    no_wrapper: bool = False
    write_metadata: bool = False
    labels: dict[str, str] = {}
    expires_after: str = "2678400s"  # without use; the simulator never deletes a subscription

    def validate(self) -> None:
        if not SUBSCRIPTION_NAME.match(self.name):
            raise InvalidRequest(
                f"subscription name must be projects/PROJECT/subscriptions/NAME; {NAME_RULES}"
            )
        if self.push_endpoint and not self.push_endpoint.startswith(("http://", "https://")):
            raise InvalidRequest("push_endpoint must be an http or https URL")
        if not 10 <= self.ack_seconds <= 600:
            raise InvalidRequest("ack_seconds must be between 10 and 600")
        if self.dead_letter_topic and not 5 <= self.max_attempts <= 100:
            raise InvalidRequest("max_attempts must be between 5 and 100")

    def backoff(self, attempt: int) -> float:
        """Seconds until the next attempt after `attempt` failures."""
        policy = self.retry_min_seconds is not None or self.retry_max_seconds is not None
        first = (self.retry_min_seconds or 10.0) if policy else 0.1
        longest = (self.retry_max_seconds or 600.0) if policy else 60.0
        return min(first * 2 ** min(attempt - 1, 30), longest)


class PubSubMessage(msgspec.Struct, frozen=True):
    """A published message. `mailbox` is only for the meters; `came_through` are topics that forwarded it."""

    id: str
    data: bytes
    published_ms: int
    published: str  # the same time in RFC 3339 format
    mailbox: str = ""
    attributes: dict[str, str] = {}
    ordering_key: str = ""
    came_through: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"data": base64.b64encode(self.data).decode()} if self.data else {}
        if self.attributes:
            body["attributes"] = self.attributes
        if self.ordering_key:
            body["orderingKey"] = self.ordering_key
        return body | {"messageId": self.id, "publishTime": self.published}

    def to_envelope(self, subscription: PubSubSubscription, attempt: int) -> dict[str, Any]:
        """Return the wrapped form with every name in both spellings, as Pub/Sub sends it."""
        names = {"message_id": self.id, "publish_time": self.published}
        body: dict[str, Any] = {"message": self.to_json() | names, "subscription": subscription.name}
        if subscription.dead_letter_topic:
            body["deliveryAttempt"] = attempt
        return body


@dataclass(slots=True)
class PubSubDelivery:
    """A message that is being pushed; `due` is the next attempt."""

    subscription: PubSubSubscription
    message: PubSubMessage
    due: float
    attempts: int = 0


@dataclass(slots=True)
class PendingMessage:
    """A message that a pull subscription has not acknowledged; `leased_until` is in seconds since 1970."""

    message: PubSubMessage
    ack_id: str = ""
    leased_until: float = 0.0
    attempts: int = 0
