"""The feed: no gap, in order, and every follower got exactly what the table has."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from postroom_chaos.oracle.evidence import ObservedFeed, Violation
from postroom_chaos.oracle.sources import Row, Sources

_EVENTS = """
    SELECT organization_id, id, position, kind, entity_type, entity_id, data FROM events
    ORDER BY organization_id, position, id
"""


async def read_events(sources: Sources) -> dict[UUID, list[Row]]:
    """The events of each organization, in order; those without a position last."""
    found: dict[UUID, list[Row]] = defaultdict(list)
    for event in await sources.rows(_EVENTS):
        found[event["organization_id"]].append(event)
    return found


async def read_pruned_positions(sources: Sources) -> dict[UUID, int]:
    rows = await sources.rows("SELECT organization_id, pruned_position FROM feeds")
    return {row["organization_id"]: row["pruned_position"] for row in rows}


async def check_feed(sources: Sources) -> list[Violation]:
    events = await read_events(sources)
    rows = await sources.rows("SELECT organization_id, last_position, pruned_position FROM feeds")
    bounds = {row["organization_id"]: row for row in rows}
    found: list[Violation] = []
    for organization in sorted(events.keys() | bounds.keys()):
        found += _check_table(organization, events[organization], bounds.get(organization))
    for feed in sources.evidence.feeds:
        found += _check_follower(feed, events[feed.organization])
    return found


def _check_table(organization: UUID, events: list[Row], bounds: Row | None) -> Iterator[Violation]:
    subject = f"feed of organization {organization}"
    unnumbered = [event["id"] for event in events if event["position"] is None]
    if unnumbered:
        yield Violation(
            "feed.unnumbered", subject, f"{len(unnumbered)} events have no position: {unnumbered[:5]}"
        )
    positions = [event["position"] for event in events if event["position"] is not None]
    pruned, last = (bounds["pruned_position"], bounds["last_position"]) if bounds else (0, 0)
    if positions != list(range(pruned + 1, last + 1)):
        missing = sorted(set(range(pruned + 1, last + 1)) - set(positions))
        extra = sorted(set(positions) - set(range(pruned + 1, last + 1)))
        yield Violation(
            "feed.gap",
            subject,
            f"runs from {pruned + 1} to {last}; missing {missing[:10]}, beyond its bounds {extra[:10]}",
        )


def _check_follower(feed: ObservedFeed, events: list[Row]) -> Iterator[Violation]:
    subject = f"follower {feed.events.name} of organization {feed.organization}"
    table = {event["position"]: event for event in events if event["position"] is not None}
    expected = feed.after + 1
    for number, line in enumerate(feed.events.read_text().splitlines(), 1):
        received: dict[str, Any] = json.loads(line)
        position = received["position"]
        if position != expected:
            text = f"line {number} has position {position}, {expected} was next"
            yield Violation("feed.order", subject, text)
        expected = position + 1
        stored = table.get(position)
        names = ("id", "kind", "entity_type", "entity_id", "data")
        if stored is not None and any(received[name] != stored[name] for name in names):
            text = f"line {number}, position {position}: received {received}, the table has {stored}"
            yield Violation("feed.different", subject, text)
    last = max(table, default=feed.after)
    if expected <= last:
        yield Violation("feed.missed", subject, f"received up to {expected - 1}, the feed ends at {last}")
