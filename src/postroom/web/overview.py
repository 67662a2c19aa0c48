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

from postroom.model import WorkKind
from postroom.store import backlogs, documents, mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.views import overview
from postroom.store.views.overview import MINUTES, LastHour
from postroom.web import pages
from postroom.web.documents import STATE_NAMES
from postroom.web.health import HealthMonitor
from postroom.web.mailboxes import describe_state
from postroom.web.sessions import SiteContext, get_visitor, member_route

# What is to be done, by kind of work; the rest is upkeep.
_WORK_NOUNS: Final = {
    WorkKind.SYNC: ("mailbox to sync", "mailboxes to sync"),
    WorkKind.PROCESS_DOCUMENT: ("document to read", "documents to read"),
    WorkKind.DELIVER: ("webhook to tell", "webhooks to tell"),
}
HEIGHT: Final = 60
STEP: Final = 10


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One minute of a plot, in units of the drawing."""

    x: int
    y: int
    height: int
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The last hour of one figure: what it is now, and how it was. `summary` says it in words."""

    id: str
    title: str
    figure: str
    unit: str
    summary: str
    scale: str  # what the full height stands for
    bars: Sequence[ChartBar]


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/", partial(page, site, "overview.html")),
        member_route(site, "/overview/parts", partial(page, site, "overview_parts.html")),
    ]


async def page(site: SiteContext, template: str, request: Request) -> Response:
    watch: HealthMonitor = request.app.state.watch
    async with site.database.transaction(get_visitor(request).organization) as connection:
        found = await overview.last_hour(connection)
        backlog = await backlogs.last_hour(connection, MINUTES)
        boxes = await mailboxes.every(connection)
        counts = await documents.counts(connection)
    seen = await watch.seen_by(get_visitor(request))
    return pages.render_page(
        template,
        plots=[*build_charts(found), build_backlog_chart(backlog)],
        mailboxes=boxes,
        health=_count_by_state(boxes),
        documents=[(each, words, counts.get(each, 0)) for each, words in STATE_NAMES.items()],
        total=sum(counts.values()),
        seen=seen,
        due=sum(each.due for each in seen.work) if seen.answers else None,
        now=datetime.now(UTC),
    )


def build_charts(found: LastHour) -> list[Chart]:
    hour, peak = sum(found.messages), max(found.quota)
    latest = next((each for each in reversed(found.seconds) if each is not None), None)
    middle = "" if found.middle_seconds is None else pages.duration(found.middle_seconds)
    used = [f"{share:.0%}" for share in found.quota]
    return [
        Chart(
            "mail",
            "Messages stored",
            str(found.messages[-1] + found.messages[-2]),
            "in the last two minutes",
            f"{_with_count(hour, 'message')} in the last hour",
            _with_count(max(found.messages) or 1, "message"),
            build_bars(found.messages, [_with_count(count, "message") for count in found.messages]),
        ),
        Chart(
            "latency",
            "From the provider to here",
            "None yet" if latest is None else pages.duration(latest),
            "for the newest mail" if latest is not None else "since it was connected",
            f"half of the hour's new mail in {middle}" if middle else "no new mail in the last hour",
            pages.duration(max((each or 0 for each in found.seconds), default=0) or 1),
            build_bars(found.seconds, [pages.duration(each or 0) for each in found.seconds]),
        ),
        Chart(
            "quota",
            "Provider quota used",
            used[-1],
            "by the mailbox nearest to its limit",
            f"at most {peak:.0%} in the last hour",
            "100%",
            build_bars(found.quota, used, highest=1),
        ),
        _document_count_chart("reviews", "Waiting for a person", found.reviews, "to review"),
        _document_count_chart("backlog", "Waiting to be read", found.backlog, "to be read"),
    ]


def build_backlog_chart(backlog: Sequence[Mapping[str, int]]) -> Chart:
    """All that is due and not begun: syncs, documents, deliveries, upkeep."""
    counts = [sum(each.values()) for each in backlog]
    return Chart(
        "due",
        "Work due and not begun",
        f"{counts[-1]:,}",
        "piece of work" if counts[-1] == 1 else "pieces of work",
        f"at most {max(counts):,} in the last hour",
        _with_count(max(counts) or 1, "piece"),
        build_bars(counts, [_describe_backlog(each) for each in backlog]),
    )


def _describe_backlog(due: Mapping[str, int]) -> str:
    """How much of each kind."""
    told = [(due[kind], words) for kind, words in _WORK_NOUNS.items() if kind in due]
    rest = sum(count for kind, count in due.items() if kind not in _WORK_NOUNS)
    told += [(rest, ("piece of upkeep", "pieces of upkeep"))] if rest else []
    return ", ".join(f"{count:,} {one if count == 1 else many}" for count, (one, many) in told)


def _document_count_chart(name: str, title: str, counts: Sequence[int], what: str) -> Chart:
    return Chart(
        name,
        title,
        str(counts[-1]),
        "document" if counts[-1] == 1 else "documents",
        f"at most {max(counts)} in the last hour",
        _with_count(max(counts) or 1, "document"),
        build_bars(counts, [f"{count:,} {what}" for count in counts]),
    )


def build_bars(
    values: Sequence[float | None], words: Sequence[str], *, highest: float | None = None
) -> list[ChartBar]:
    """The highest minute fills the height; a minute with anything is seen."""
    top, last = highest or max((each or 0 for each in values), default=0) or 1, len(values) - 1
    found: list[ChartBar] = []
    for place, value in enumerate(values):
        if not value:
            continue
        height = min(HEIGHT, max(2, round(HEIGHT * value / top)))
        when = "this minute" if place == last else f"{last - place} min ago"
        found.append(ChartBar(place * STEP, HEIGHT - height, height, f"{words[place]}, {when}"))
    return found


def _with_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _count_by_state(found: Sequence[Mailbox]) -> list[tuple[str, bool, int]]:
    """How many mailboxes are so, in the words of their page; the ones that need somebody first."""
    counted = Counter((state, well) for state, _, well in map(describe_state, found))
    return sorted(((state, well, count) for (state, well), count in counted.items()), key=lambda row: row[1])
