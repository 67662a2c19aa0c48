"""Webhooks: signed as Standard Webhooks require, every event at least once, in order per object."""

import base64
import binascii
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from postroom_chaos.oracle.evidence import ObservedWebhook, Violation
from postroom_chaos.oracle.feed import read_events, read_pruned_positions
from postroom_chaos.oracle.sources import Row, Sources

_TOLERANCE_SECONDS = 300.0  # of the Standard Webhooks specification
_TEST = "webhook.test"


@dataclass(frozen=True)
class _ReceivedRequest:
    line: int
    headers: Mapping[str, str]
    body: str
    status: int | None
    time: float

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)


async def check_webhooks(sources: Sources) -> list[Violation]:
    events, pruned = await read_events(sources), await read_pruned_positions(sources)
    found: list[Violation] = []
    for webhook in sources.evidence.webhooks:
        received = [each for each in _read(webhook) if each.event.get("type") != _TEST]
        expected = {
            event["position"]: event
            for event in events[webhook.organization]
            if event["position"] is not None
            and event["position"] > webhook.after
            and _matches(webhook, event)
        }
        found += [violation for each in received for violation in _check_signature(webhook, each)]
        found += _check_bodies(webhook, received, expected, pruned.get(webhook.organization, 0))
        found += _check_delivered(webhook, received, expected)
        found += _check_order(webhook, received, expected)
        found += await _check_state(sources, webhook)
    return found


def _read(webhook: ObservedWebhook) -> Iterator[_ReceivedRequest]:
    for number, line in enumerate(webhook.received.read_text().splitlines(), 1):
        received: dict[str, Any] = json.loads(line)
        headers = {name.lower(): value for name, value in received["headers"].items()}
        yield _ReceivedRequest(number, headers, received["body"], received["status"], received["time"])


def _matches(webhook: ObservedWebhook, event: Row) -> bool:
    kind: str = event["kind"]
    if kind.startswith("webhook."):  # a webhook is not notified about webhooks
        return False
    return not webhook.kinds or any(
        kind == wanted or (wanted.endswith(".*") and kind.startswith(wanted[:-1])) for wanted in webhook.kinds
    )


def _check_signature(webhook: ObservedWebhook, received: _ReceivedRequest) -> Iterator[Violation]:
    subject = f"webhook {webhook.id}, line {received.line} of {webhook.received.name}"
    identifier, timestamp = (
        received.headers.get("webhook-id", ""),
        received.headers.get("webhook-timestamp", ""),
    )
    secret = base64.b64decode(webhook.secret.removeprefix("whsec_"))
    expected = hmac.digest(secret, f"{identifier}.{timestamp}.{received.body}".encode(), hashlib.sha256)
    signatures = [
        value
        for version, _, value in (
            each.partition(",") for each in received.headers.get("webhook-signature", "").split()
        )
        if version == "v1"
    ]
    if not identifier or not any(_is_equal(expected, value) for value in signatures):
        text = f"the request with id {identifier!r} is not signed with the webhook's secret"
        yield Violation("webhooks.signature", subject, text)
    if not timestamp.isdigit() or abs(int(timestamp) - received.time) > _TOLERANCE_SECONDS:
        text = f"its timestamp is {timestamp!r}, it was received at {received.time:.0f}"
        yield Violation("webhooks.timestamp", subject, text)


def _is_equal(expected: bytes, value: str) -> bool:
    try:
        return hmac.compare_digest(expected, base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False


def _check_bodies(
    webhook: ObservedWebhook, received: list[_ReceivedRequest], expected: Mapping[int, Row], pruned: int
) -> Iterator[Violation]:
    """What is sent is what the feed has. One event has one id, and no id belongs to two events."""
    ids: dict[str, int] = {}
    for request in received:
        subject = f"webhook {webhook.id}, line {request.line} of {webhook.received.name}"
        data = request.event["data"]
        position = data["position"]
        identifier = request.headers.get("webhook-id", "")
        if ids.setdefault(identifier, position) != position:
            text = f"id {identifier} was used for position {ids[identifier]} and for {position}"
            yield Violation("webhooks.id", subject, text)
        event = expected.get(position)
        if event is None:
            if position > max(pruned, webhook.after):
                text = f"announces position {position}, which is not in the feed or not selected"
                yield Violation("webhooks.unknown", subject, text)
            continue
        sent = (request.event["type"], data["entity_type"], data["entity_id"])
        if sent != (event["kind"], event["entity_type"], event["entity_id"]) or any(
            data.get(name) != value for name, value in event["data"].items()
        ):
            yield Violation("webhooks.body", subject, f"sent {request.body}, the feed has {event}")


def _check_delivered(
    webhook: ObservedWebhook, received: list[_ReceivedRequest], expected: Mapping[int, Row]
) -> Iterator[Violation]:
    accepted = {each.event["data"]["position"] for each in received if each.accepted}
    for position in sorted(expected.keys() - accepted):
        event = expected[position]
        subject = f"webhook {webhook.id}, event {event['id']} at position {position}"
        text = f"{event['kind']} of {event['entity_type']} {event['entity_id']} was never accepted"
        yield Violation("webhooks.lost", subject, text)


def _check_order(
    webhook: ObservedWebhook, received: list[_ReceivedRequest], expected: Mapping[int, Row]
) -> Iterator[Violation]:
    """When an event is sent, all earlier events of its object have been accepted."""
    of_object: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, event in sorted(expected.items()):
        of_object[event["entity_type"], event["entity_id"]].append(position)
    accepted: set[int] = set()
    for request in received:
        position = request.event["data"]["position"]
        event = expected.get(position)
        if event is not None:
            before = of_object[event["entity_type"], event["entity_id"]]
            skipped = [earlier for earlier in before if earlier < position and earlier not in accepted]
            if skipped:
                subject = f"webhook {webhook.id}, {event['entity_type']} {event['entity_id']}"
                text = f"line {request.line}: position {position} was sent before {skipped} was accepted"
                yield Violation("webhooks.order", subject, text)
        if request.accepted:
            accepted.add(position)


async def _check_state(sources: Sources, webhook: ObservedWebhook) -> list[Violation]:
    subject = f"webhook {webhook.id}"
    rows = await sources.rows(
        "SELECT disabled_at, disabled_because FROM webhooks WHERE organization_id = %s AND id = %s",
        webhook.organization,
        webhook.id,
    )
    waiting = await sources.rows(
        "SELECT position, attempts, last_error FROM deliveries WHERE organization_id = %s AND webhook_id = %s"
        " ORDER BY position",
        webhook.organization,
        webhook.id,
    )
    found = [] if rows else [Violation("webhooks.state", subject, "is no longer stored")]
    found += [
        Violation("webhooks.state", subject, f"was disabled: {row['disabled_because']}")
        for row in rows
        if row["disabled_at"] is not None
    ]
    return found + [
        Violation(
            "webhooks.waiting",
            subject,
            f"position {row['position']} waits after {row['attempts']} attempts: {row['last_error']}",
        )
        for row in waiting
    ]
