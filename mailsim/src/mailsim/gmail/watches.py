"""The watches of Gmail mailboxes: start, stop, and publish their changes to Pub/Sub topics.

`google.pubsub` delivers the messages; `methods` has the API methods.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mailsim.gmail.errors import bad_request, forbidden, not_found
from mailsim.google.options import GoogleOptions
from mailsim.google.pubsub import PubSub
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange, get_labels

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class GmailWatch:
    """A watch on a mailbox.

    With `exclude`, changes of messages with one of the labels are not published.
    """

    project: str
    topic: str
    labels: frozenset[str]
    exclude: bool
    expires_ms: int

    def matches(self, change: MailboxChange) -> bool:
        state = change.after or change.before
        if not self.labels:
            return True
        touched = state is not None and bool(self.labels & get_labels(state))
        return touched != self.exclude


@dataclass
class WatchRegistry:
    """The watches, at most one per user and project.

    `history_id` returns the ID to publish.
    """

    pubsub: PubSub
    options: GoogleOptions
    history_id: Callable[[Mailbox], int]
    by_address: dict[str, dict[str, GmailWatch]] = field(
        default_factory=dict[str, dict[str, GmailWatch]]
    )  # by user, by project
    last_published_ms: dict[str, int] = field(default_factory=dict[str, int])

    def start(
        self, mailbox: Mailbox, project: str, body: dict[str, Any], labels: frozenset[str]
    ) -> GmailWatch:
        topic = str(body.get("topicName", ""))
        self._check_topic(topic, project)
        now = self._now()
        old = self.by_address.get(mailbox.address, {}).get(project)
        if old is not None and old.topic != topic and now < old.expires_ms:
            raise bad_request(
                "Only one user push notification client allowed per developer (call /stop then try again)"
            )
        behavior = str(body.get("labelFilterBehavior") or body.get("labelFilterAction") or "include").lower()
        if behavior not in {"include", "exclude"}:
            raise bad_request("Invalid value for labelFilterBehavior")
        expires = now + round(self.options.watch_days * _DAY_MS)
        watch = GmailWatch(project, topic, labels, behavior == "exclude", expires)
        self.by_address.setdefault(mailbox.address, {})[project] = watch
        self._publish(watch, mailbox)
        return watch

    def stop(self, mailbox: Mailbox, project: str) -> None:
        self.by_address.get(mailbox.address, {}).pop(project, None)

    def list_for(self, address: str) -> list[GmailWatch]:
        return list(self.by_address.get(address, {}).values())

    def publish_change(self, mailbox: Mailbox, change: MailboxChange) -> None:
        """Publish a change.

        Gmail sends at most one notification per second and drops the rest.
        """
        now = self._now()
        for watch in self.list_for(mailbox.address):
            if change.number < 0 or now >= watch.expires_ms or not watch.matches(change):
                continue
            pace = self.options.push_per_second
            if pace and now - self.last_published_ms.get(mailbox.address, -1_000_000) < 1000 / pace:
                self.pubsub.google.sim.meters.get(mailbox.address).pushes_dropped += 1
                continue
            self._publish(watch, mailbox)

    def _publish(self, watch: GmailWatch, mailbox: Mailbox) -> None:
        self.last_published_ms[mailbox.address] = self._now()
        history_id: int | str = self.history_id(mailbox)
        if self.options.push_history_id == "text":
            history_id = str(history_id)
        data = msgspec.json.encode({"emailAddress": mailbox.address, "historyId": history_id})
        self.pubsub.publish(watch.topic, data, mailbox.address)

    def _check_topic(self, name: str, project: str) -> None:
        """Check the topic.

        Gmail sends a test message first, so configuration errors appear here.
        """
        if not re.match(rf"projects/{re.escape(project)}/topics/[^/\s]+$", name):
            raise bad_request(f"Invalid topicName does not match projects/{project}/topics/*")
        topic = self.pubsub.topics.get(name)
        prefix = f"Error sending test message to Cloud PubSub {name} : "
        if topic is None:
            raise not_found(f"{prefix}Resource not found (resource={name.rpartition('/')[2]}).")
        if not topic.publisher:
            raise forbidden(f"{prefix}User not authorized to perform this action.")

    def _now(self) -> int:
        return self.pubsub.google.sim.clock.milliseconds()
