"""The first page: what came lately, how mailboxes and documents are, what waits; its figures stay fresh."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.store import documents, mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.views import overview
from postroom.web import pages
from postroom.web.documents import WORDS
from postroom.web.health import Watch
from postroom.web.mailboxes import state_of
from postroom.web.sessions import Gate, guarded, visitor_of

HEIGHT: Final = 60
STEP: Final = 10


@dataclass(frozen=True, slots=True)
class Bar:
    """One minute of the plot, in units of the drawing."""

    x: int
    y: int
    height: int
    words: str


def routes(gate: Gate) -> list[Route]:
    return [
        guarded(gate, "/", partial(page, gate, "overview.html")),
        guarded(gate, "/overview/parts", partial(page, gate, "overview_parts.html")),
    ]


async def page(gate: Gate, template: str, request: Request) -> Response:
    watch: Watch = request.app.state.watch
    async with gate.database.transaction(visitor_of(request).organization) as connection:
        found = await overview.arrivals(connection)
        boxes = await mailboxes.every(connection)
        counts = await documents.counts(connection)
    report = await watch.report()
    return pages.page(
        template,
        arrivals=found,
        bars=bars(found.per_minute),
        hour=sum(found.per_minute),
        mailboxes=boxes,
        health=_by_state(boxes),
        documents=[(each, words, counts.get(each, 0)) for each, words in WORDS.items()],
        total=sum(counts.values()),
        report=report,
        due=sum(each.due for each in report.health.work) if report.health else None,
        now=datetime.now(UTC),
    )


def bars(per_minute: Sequence[int]) -> list[Bar]:
    """The highest minute fills the height; a minute with any mail is seen."""
    highest, last = max(per_minute, default=0) or 1, len(per_minute) - 1
    found: list[Bar] = []
    for place, count in enumerate(per_minute):
        height = max(2, round(HEIGHT * count / highest)) if count else 0
        when = "this minute" if place == last else f"{last - place} min ago"
        found.append(Bar(place * STEP, HEIGHT - height, height, f"{count} messages, {when}"))
    return found


def _by_state(found: Sequence[Mailbox]) -> list[tuple[str, bool, int]]:
    """How many mailboxes are so, in the words of their page; the ones that need somebody first."""
    counted = Counter((state, well) for state, _, well in map(state_of, found))
    return sorted(((state, well, count) for (state, well), count in counted.items()), key=lambda row: row[1])
