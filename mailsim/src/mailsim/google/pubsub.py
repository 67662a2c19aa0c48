"""PubSub: topics, subscriptions, and delivery by push or pull at least once and unordered.

A message is delivered until it is acknowledged or its retention time is over. Pushes carry Google's token.
Retry delays follow the simulator's clock; the endpoint's response timeout is real time. The data types are in
`pubsub_resources`.
"""

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mailsim.errors import InvalidRequest, NotFound
from mailsim.google.context import GoogleContext
from mailsim.google.pubsub_resources import (
    NAME_RULES,
    TOPIC_NAME,
    PendingMessage,
    PubSubDelivery,
    PubSubMessage,
    PubSubSubscription,
    PubSubTopic,
)
from mailsim.hashing import stable_hash
from mailsim.push_client import PushOrigin, SubscriberUnreachable

# Google also lists 102. It is an interim status: the HTTP client skips it and waits for the final one, so an
# endpoint that sends only 102 times out.
ACKNOWLEDGED = frozenset({200, 201, 202, 204})
TOKEN_SECONDS = 3600
_FRESH_SECONDS = 300  # a token is reused until this much of its lifetime is left
_REORDER_SECONDS = 5.0
_FIRST_ID = 10**15


@dataclass
class PubSub:
    google: GoogleContext
    topics: dict[str, PubSubTopic] = field(default_factory=dict[str, PubSubTopic])
    subscriptions: dict[str, PubSubSubscription] = field(default_factory=dict[str, PubSubSubscription])
    backlogs: dict[str, list[PendingMessage]] = field(
        default_factory=dict[str, list[PendingMessage]]
    )  # of pull subscriptions
    policies: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])  # IAM, by name
    deliveries: list[PubSubDelivery] = field(default_factory=list[PubSubDelivery])  # pushes
    published: int = 0
    pulled: int = 0
    overtaken: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    tokens: dict[tuple[str, str, str], tuple[float, str]] = field(
        default_factory=dict[tuple[str, str, str], tuple[float, str]]
    )

    def add_topic(self, topic: PubSubTopic) -> PubSubTopic:
        if not TOPIC_NAME.match(topic.name):
            raise InvalidRequest(f"topic name must be projects/PROJECT/topics/NAME; {NAME_RULES}")
        self.topics[topic.name] = topic
        return topic

    def remove_topic(self, name: str) -> None:
        if self.topics.pop(name, None) is None:
            raise NotFound(f"there is no topic {name}")

    def add_subscription(self, subscription: PubSubSubscription) -> PubSubSubscription:
        subscription.validate()
        if subscription.topic not in self.topics:
            raise NotFound(f"there is no topic {subscription.topic}")
        self.subscriptions[subscription.name] = subscription
        return subscription

    def remove_subscription(self, name: str) -> None:
        if self.subscriptions.pop(name, None) is None:
            raise NotFound(f"there is no subscription {name}")
        self.backlogs.pop(name, None)

    def publish(
        self,
        topic: str,
        data: bytes,
        mailbox: str = "",
        attributes: dict[str, str] | None = None,
        ordering_key: str = "",
        came_through: tuple[str, ...] = (),
    ) -> str:
        """Start delivering a message to the topic's subscriptions without waiting; return its ID."""
        sim = self.google.sim
        self.published += 1
        now = sim.clock.now()
        moment = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z"
        number = _FIRST_ID + self.published * 7919
        message = PubSubMessage(
            str(number),
            data,
            sim.clock.milliseconds(),
            moment,
            mailbox,
            attributes or {},
            ordering_key,
            came_through,
        )
        for subscription in [
            subscription for subscription in self.subscriptions.values() if subscription.topic == topic
        ]:
            if subscription.push_endpoint:
                self._start_delivery(subscription, message)
            else:
                self.backlogs.setdefault(subscription.name, []).append(PendingMessage(message))
        return message.id

    def pull(self, subscription: PubSubSubscription, count: int) -> list[PendingMessage]:
        """Lease up to `count` messages until the acknowledgement deadline."""
        now, now_ms = self.google.now(), self.google.sim.clock.milliseconds()
        leased: list[PendingMessage] = []
        for pending in list(self.backlogs.get(subscription.name, ())):
            message = pending.message
            if len(leased) == count:
                break
            if pending.leased_until > now:
                continue
            is_dead = subscription.dead_letter_topic and pending.attempts >= subscription.max_attempts
            if is_dead or now_ms >= message.published_ms + subscription.retention_seconds * 1000:
                self.backlogs[subscription.name].remove(pending)
                if is_dead:
                    self._forward_to_dead_letters(subscription, message, pending.attempts)
                continue
            self.pulled += 1
            pending.attempts += 1
            pending.leased_until = now + subscription.ack_seconds
            pending.ack_id = f"{message.id}-{stable_hash('ack', message.id, self.pulled):016x}"
            leased.append(pending)
        return leased

    def acknowledge(self, name: str, ack_ids: Collection[str]) -> None:
        """Remove messages. Unknown IDs are ignored, as by Pub/Sub without exactly-once delivery."""
        kept = [pending for pending in self.backlogs.get(name, ()) if pending.ack_id not in ack_ids]
        self.backlogs[name] = kept

    def extend_leases(self, name: str, ack_ids: Collection[str], seconds: int) -> None:
        """Set the deadline of leased messages; 0 releases them at once."""
        for pending in self.backlogs.get(name, ()):
            if pending.ack_id and pending.ack_id in ack_ids:
                pending.leased_until = self.google.now() + seconds

    def _forward_to_dead_letters(
        self, subscription: PubSubSubscription, message: PubSubMessage, attempts: int
    ) -> None:
        """Publish an undeliverable message to the dead-letter topic, with the attributes that Pub/Sub adds.

        A message never returns to a topic that forwarded it: it would multiply endlessly.
        """
        came_through = (*message.came_through, subscription.topic)
        if subscription.dead_letter_topic in came_through:
            return
        _, project, _, name = subscription.name.split("/")
        source = {
            "CloudPubSubDeadLetterSourceDeliveryCount": str(attempts),
            "CloudPubSubDeadLetterSourceSubscription": name,
            "CloudPubSubDeadLetterSourceSubscriptionProject": project,
            "CloudPubSubDeadLetterSourceTopicPublishTime": message.published.replace("Z", "+00:00"),
        }
        self.publish(
            subscription.dead_letter_topic,
            message.data,
            message.mailbox,
            message.attributes | source,
            came_through=came_through,
        )

    def _start_delivery(self, subscription: PubSubSubscription, message: PubSubMessage) -> None:
        faults = self.google.sim.faults
        if faults.take("push_lost", message.mailbox, "push", "gmail"):
            self.google.sim.meters.get(message.mailbox).pushes_dropped += 1
            return
        late = faults.take("push_late", message.mailbox, "push", "gmail")
        reordered = faults.take("push_reordered", message.mailbox, "push", "gmail")
        overtaken, next_sent = self.overtaken.pop(subscription.name, None), None
        due = self.google.now() + ((late.seconds or 60.0) if late else 0.0)
        if reordered:
            next_sent = self.overtaken[subscription.name] = asyncio.Event()
            due = self.google.now() + _REORDER_SECONDS
        self._start(PubSubDelivery(subscription, message, due), next_sent, overtaken)
        if faults.take("push_doubled", message.mailbox, "push", "gmail"):
            self._start(PubSubDelivery(subscription, message, due))

    def _start(
        self,
        delivery: PubSubDelivery,
        next_sent: asyncio.Event | None = None,
        overtaken: asyncio.Event | None = None,
    ) -> None:
        """Start a delivery: after the next message if it has `next_sent`. It sets `overtaken` once sent."""
        self.deliveries.append(delivery)
        if next_sent is None:
            self._run(delivery, self._deliver(delivery, overtaken))
        else:
            self._run(delivery, self._deliver_after_next(delivery, next_sent, overtaken))

    def _run(self, delivery: PubSubDelivery, work: Coroutine[Any, Any, None]) -> None:
        self.google.sim.background.start(work, f"push {delivery.message.id}")

    def resume(self) -> None:
        """Start the pending deliveries of a loaded simulation."""
        for delivery in self.deliveries:
            self._run(delivery, self._deliver(delivery))

    async def _deliver_after_next(
        self, delivery: PubSubDelivery, next_sent: asyncio.Event, overtaken: asyncio.Event | None
    ) -> None:
        """Deliver a message after the next one, or when it is due if none follows."""
        clock, background = self.google.sim.clock, self.google.sim.background
        timer = background.start(clock.sleep_until(delivery.due), "reordered push")
        waiting = asyncio.ensure_future(next_sent.wait())
        await background.wait_idle(asyncio.wait({timer, waiting}, return_when=asyncio.FIRST_COMPLETED))
        timer.cancel()
        waiting.cancel()
        delivery.due = clock.time()
        await self._deliver(delivery, overtaken)

    async def _deliver(self, delivery: PubSubDelivery, overtaken: asyncio.Event | None = None) -> None:
        clock = self.google.sim.clock
        if delivery.due > clock.time():
            await clock.sleep_until(delivery.due)
        acknowledged = await self._push(delivery, overtaken)
        self.deliveries.remove(delivery)
        meter = self.google.sim.meters.get(delivery.message.mailbox)
        meter.pushes_acknowledged += acknowledged
        meter.pushes_dropped += not acknowledged

    async def _push(self, delivery: PubSubDelivery, overtaken: asyncio.Event | None) -> bool:
        """Attempt a delivery until it is acknowledged or given up; return whether it was acknowledged."""
        clock, subscription, message = self.google.sim.clock, delivery.subscription, delivery.message
        while subscription.name in self.subscriptions:
            delivery.attempts += 1
            meter = self.google.sim.meters.get(message.mailbox)
            meter.pushes_sent += 1
            acknowledged = await self._attempt(
                self.subscriptions[subscription.name], message, delivery.attempts
            )
            if overtaken is not None:
                overtaken.set()
            if acknowledged:
                return True
            meter.pushes_failed += 1
            if subscription.dead_letter_topic and delivery.attempts >= subscription.max_attempts:
                self._forward_to_dead_letters(subscription, message, delivery.attempts)
                return False
            delivery.due = clock.time() + subscription.backoff(delivery.attempts)
            await clock.sleep_until(delivery.due)
            if clock.milliseconds() >= message.published_ms + subscription.retention_seconds * 1000:
                return False
        return False

    async def _attempt(self, subscription: PubSubSubscription, message: PubSubMessage, attempt: int) -> bool:
        headers = {"content-type": "application/json", "user-agent": "CloudPubSub-Google"}
        if subscription.service_account:
            headers["authorization"] = f"Bearer {self.get_push_token(subscription, message.mailbox)}"
        if subscription.no_wrapper:
            body = message.data
            if subscription.write_metadata:
                headers["x-goog-pubsub-subscription-name"] = subscription.name
                headers["x-goog-pubsub-message-id"] = message.id
                headers["x-goog-pubsub-publish-time"] = message.published
        else:
            body = msgspec.json.encode(message.to_envelope(subscription, attempt))
        origin = PushOrigin("gmail", "push", message.mailbox, subscription.name)
        try:
            response = await self.google.sim.push_client.post(
                subscription.push_endpoint, body, headers, origin, subscription.ack_seconds
            )
        except (TimeoutError, SubscriberUnreachable):
            return False
        return response.status in ACKNOWLEDGED

    def get_push_token(self, subscription: PubSubSubscription, mailbox: str = "") -> str:
        """Return a token for the push endpoint, reused while fresh.

        A fault makes it invalid in one way.
        """
        fault = self.google.sim.faults.take("push_token", mailbox, "push", "gmail")
        defect = fault.code if fault else ""
        audience = subscription.audience or subscription.push_endpoint
        key = (audience, subscription.service_account, defect)
        now = self.google.now()
        cached = self.tokens.get(key)
        if cached is not None and now < cached[0]:
            return cached[1]
        token = self._make_push_token(subscription.service_account, audience, defect, now)
        self.tokens[key] = (now + TOKEN_SECONDS - _FRESH_SECONDS, token)
        return token

    def _make_push_token(self, account: str, audience: str, defect: str, now: float) -> str:
        issued = int(now) - (2 * TOKEN_SECONDS if defect == "expired" else 0)
        email = "stranger@other-project.iam.gserviceaccount.com" if defect == "email" else account
        subject = str(10**20 + stable_hash("service account", email) % 10**20)
        claims = {
            "aud": "https://other.example/push" if defect == "aud" else audience,
            "azp": subject,
            "email": email,
            "email_verified": defect != "unverified",
            "exp": issued + TOKEN_SECONDS,
            "iat": issued,
            "iss": "https://issuer.example" if defect == "iss" else "https://accounts.google.com",
            "sub": subject,
        }
        keys = self.google.keys
        return (keys.unpublished if defect == "signature" else keys.current).sign(claims)
