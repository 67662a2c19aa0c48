"""The first page: what came lately, how mailboxes and documents are, what waits; its figures stay fresh."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.store import backlogs, documents, mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.views import overview
from postroom.store.views.overview import MINUTES, LastHour
from postroom.web import pages
from postroom.web.documents import WORDS
from postroom.web.health import Watch
from postroom.web.mailboxes import state_of
from postroom.web.sessions import Gate, guarded, visitor_of

# What is to be done, by kind of work; the rest is upkeep.
_TO_DO: Final = {
    "sync": ("mailbox to sync", "mailboxes to sync"),
    "document": ("document to read", "documents to read"),
    "deliver": ("webhook to tell", "webhooks to tell"),
}
HEIGHT: Final = 60
STEP: Final = 10


@dataclass(frozen=True, slots=True)
class Bar:
    """One minute of a plot, in units of the drawing."""

    x: int
    y: int
    height: int
    words: str


@dataclass(frozen=True, slots=True)
class Plot:
    """The last hour of one figure: what it is now, and how it was. `summary` says it in words."""

    id: str
    title: str
    figure: str
    unit: str
    summary: str
    scale: str  # what the full height stands for
    bars: Sequence[Bar]


def routes(gate: Gate) -> list[Route]:
    return [
        guarded(gate, "/", partial(page, gate, "overview.html")),
        guarded(gate, "/overview/parts", partial(page, gate, "overview_parts.html")),
    ]


async def page(gate: Gate, template: str, request: Request) -> Response:
    watch: Watch = request.app.state.watch
    async with gate.database.transaction(visitor_of(request).organization) as connection:
        found = await overview.last_hour(connection)
        backlog = await backlogs.last_hour(connection, MINUTES)
        boxes = await mailboxes.every(connection)
        counts = await documents.counts(connection)
    seen = await watch.seen_by(visitor_of(request))
    return pages.page(
        template,
        plots=[*plots(found), due_work(backlog)],
        mailboxes=boxes,
        health=_by_state(boxes),
        documents=[(each, words, counts.get(each, 0)) for each, words in WORDS.items()],
        total=sum(counts.values()),
        seen=seen,
        due=sum(each.due for each in seen.work) if seen.answers else None,
        now=datetime.now(UTC),
    )


def plots(found: LastHour) -> list[Plot]:
    hour, peak = sum(found.messages), max(found.quota)
    latest = next((each for each in reversed(found.seconds) if each is not None), None)
    middle = "" if found.middle_seconds is None else pages.duration(found.middle_seconds)
    used = [f"{share:.0%}" for share in found.quota]
    return [
        Plot(
            "mail",
            "Messages stored",
            str(found.messages[-1] + found.messages[-2]),
            "in the last two minutes",
            f"{_counted(hour, 'message')} in the last hour",
            _counted(max(found.messages) or 1, "message"),
            bars(found.messages, [_counted(count, "message") for count in found.messages]),
        ),
        Plot(
            "latency",
            "From the provider to here",
            "None yet" if latest is None else pages.duration(latest),
            "for the newest mail" if latest is not None else "since it was connected",
            f"half of the hour's new mail in {middle}" if middle else "no new mail in the last hour",
            pages.duration(max((each or 0 for each in found.seconds), default=0) or 1),
            bars(found.seconds, [pages.duration(each or 0) for each in found.seconds]),
        ),
        Plot(
            "quota",
            "Provider quota used",
            used[-1],
            "by the mailbox nearest to its limit",
            f"at most {peak:.0%} in the last hour",
            "100%",
            bars(found.quota, used, highest=1),
        ),
        _waiting("reviews", "Waiting for a person", found.reviews, "to review"),
        _waiting("backlog", "Waiting to be read", found.backlog, "to be read"),
    ]


def due_work(backlog: Sequence[Mapping[str, int]]) -> Plot:
    """All that is due and not begun: syncs, documents, deliveries, upkeep."""
    counts = [sum(each.values()) for each in backlog]
    return Plot(
        "due",
        "Work due and not begun",
        f"{counts[-1]:,}",
        "piece of work" if counts[-1] == 1 else "pieces of work",
        f"at most {max(counts):,} in the last hour",
        _counted(max(counts) or 1, "piece"),
        bars(counts, [_to_do(each) for each in backlog]),
    )


def _to_do(due: Mapping[str, int]) -> str:
    """How much of each kind."""
    told = [(due[kind], words) for kind, words in _TO_DO.items() if kind in due]
    rest = sum(count for kind, count in due.items() if kind not in _TO_DO)
    told += [(rest, ("piece of upkeep", "pieces of upkeep"))] if rest else []
    return ", ".join(f"{count:,} {one if count == 1 else many}" for count, (one, many) in told)


def _waiting(name: str, title: str, counts: Sequence[int], what: str) -> Plot:
    return Plot(
        name,
        title,
        str(counts[-1]),
        "document" if counts[-1] == 1 else "documents",
        f"at most {max(counts)} in the last hour",
        _counted(max(counts) or 1, "document"),
        bars(counts, [f"{count:,} {what}" for count in counts]),
    )


def bars(values: Sequence[float | None], words: Sequence[str], *, highest: float | None = None) -> list[Bar]:
    """The highest minute fills the height; a minute with anything is seen."""
    top, last = highest or max((each or 0 for each in values), default=0) or 1, len(values) - 1
    found: list[Bar] = []
    for place, value in enumerate(values):
        if not value:
            continue
        height = min(HEIGHT, max(2, round(HEIGHT * value / top)))
        when = "this minute" if place == last else f"{last - place} min ago"
        found.append(Bar(place * STEP, HEIGHT - height, height, f"{words[place]}, {when}"))
    return found


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _by_state(found: Sequence[Mailbox]) -> list[tuple[str, bool, int]]:
    """How many mailboxes are so, in the words of their page; the ones that need somebody first."""
    counted = Counter((state, well) for state, _, well in map(state_of, found))
    return sorted(((state, well, count) for (state, well), count in counted.items()), key=lambda row: row[1])
