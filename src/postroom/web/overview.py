"""The overview page: charts of the last hour, and counts of mailboxes, documents and work.

The queries are in `store.views.overview` and `store.backlogs`.
"""

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

# Singular and plural nouns for the backlog; other kinds of work are counted together.
_WORK_NOUNS: Final = {
    WorkKind.SYNC: ("mailbox to sync", "mailboxes to sync"),
    WorkKind.PROCESS_DOCUMENT: ("document to process", "documents to process"),
    WorkKind.DELIVER: ("webhook to deliver to", "webhooks to deliver to"),
}
HEIGHT: Final = 60
STEP: Final = 10


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One minute of a chart, in SVG units."""

    x: int
    y: int
    height: int
    tooltip: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The current value of a figure and its last hour, minute by minute."""

    id: str
    title: str
    figure: str
    unit: str
    summary: str
    scale: str  # the value at full height
    bars: Sequence[ChartBar]


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/", partial(page, site, "overview.html")),
        member_route(site, "/overview/parts", partial(page, site, "overview_fragments.html")),
    ]


async def page(site: SiteContext, template: str, request: Request) -> Response:
    monitor: HealthMonitor = request.app.state.health_monitor
    async with site.database.transaction(get_visitor(request).organization) as connection:
        last_hour = await overview.read_last_hour(connection)
        backlog = await backlogs.read_last_hour(connection, MINUTES)
        connected = await mailboxes.list_all(connection)
        counts = await documents.count_by_state(connection)
    health = await monitor.report_for(get_visitor(request))
    return pages.render_page(
        request,
        template,
        charts=[*build_charts(last_hour), build_backlog_chart(backlog)],
        mailboxes=connected,
        mailbox_states=_count_by_state(connected),
        documents=[(state, name, counts.get(state, 0)) for state, name in STATE_NAMES.items()],
        total=sum(counts.values()),
        health=health,
        due=sum(kind.due for kind in health.work) if health.is_available else None,
        now=datetime.now(UTC),
    )


def build_charts(last_hour: LastHour) -> list[Chart]:
    hour, peak = sum(last_hour.messages), max(last_hour.quota)
    latest = next((seconds for seconds in reversed(last_hour.seconds) if seconds is not None), None)
    median = "" if last_hour.median_seconds is None else pages.duration(last_hour.median_seconds)
    used = [f"{share:.0%}" for share in last_hour.quota]
    return [
        Chart(
            "mail",
            "Messages stored",
            str(last_hour.messages[-1] + last_hour.messages[-2]),
            "in the last two minutes",
            f"{_with_count(hour, 'message')} in the last hour",
            _with_count(max(last_hour.messages) or 1, "message"),
            build_bars(last_hour.messages, [_with_count(count, "message") for count in last_hour.messages]),
        ),
        Chart(
            "latency",
            "Delivery latency",
            "No data" if latest is None else pages.duration(latest),
            "for the newest message" if latest is not None else "yet",
            f"median {median} in the last hour" if median else "no new mail in the last hour",
            pages.duration(max((each or 0 for each in last_hour.seconds), default=0) or 1),
            build_bars(last_hour.seconds, [pages.duration(each or 0) for each in last_hour.seconds]),
        ),
        Chart(
            "quota",
            "Provider quota used",
            used[-1],
            "by the busiest mailbox",
            f"peak {peak:.0%} in the last hour",
            "100%",
            build_bars(last_hour.quota, used, highest=1),
        ),
        _document_count_chart("reviews", "Needs review", last_hour.reviews, "to review"),
        _document_count_chart("backlog", "Waiting for processing", last_hour.backlog, "to process"),
    ]


def build_backlog_chart(backlog: Sequence[Mapping[str, int]]) -> Chart:
    """Chart the work that is due and not started, of all kinds."""
    counts = [sum(each.values()) for each in backlog]
    return Chart(
        "due",
        "Backlog",
        f"{counts[-1]:,}",
        "work item due" if counts[-1] == 1 else "work items due",
        f"peak {max(counts):,} in the last hour",
        _with_count(max(counts) or 1, "item"),
        build_bars(counts, [_describe_backlog(each) for each in backlog]),
    )


def _describe_backlog(due: Mapping[str, int]) -> str:
    """Count the due work by kind, as a sentence fragment."""
    counted = [(due[kind], words) for kind, words in _WORK_NOUNS.items() if kind in due]
    rest = sum(count for kind, count in due.items() if kind not in _WORK_NOUNS)
    counted += [(rest, ("maintenance task", "maintenance tasks"))] if rest else []
    return ", ".join(f"{count:,} {one if count == 1 else many}" for count, (one, many) in counted)


def _document_count_chart(name: str, title: str, counts: Sequence[int], what: str) -> Chart:
    return Chart(
        name,
        title,
        str(counts[-1]),
        "document" if counts[-1] == 1 else "documents",
        f"peak {max(counts)} in the last hour",
        _with_count(max(counts) or 1, "document"),
        build_bars(counts, [f"{count:,} {what}" for count in counts]),
    )


def build_bars(
    values: Sequence[float | None], tooltips: Sequence[str], *, highest: float | None = None
) -> list[ChartBar]:
    """Scale the minutes to the highest one; any value above zero stays visible."""
    top, last = highest or max((each or 0 for each in values), default=0) or 1, len(values) - 1
    bars: list[ChartBar] = []
    for minute, value in enumerate(values):
        if not value:
            continue
        height = min(HEIGHT, max(2, round(HEIGHT * value / top)))
        when = "this minute" if minute == last else f"{last - minute} min ago"
        bars.append(ChartBar(minute * STEP, HEIGHT - height, height, f"{tooltips[minute]}, {when}"))
    return bars


def _with_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _count_by_state(connected: Sequence[Mailbox]) -> list[tuple[str, bool, int]]:
    """Count mailboxes by displayed state; states that need attention come first."""
    counted = Counter((state, is_healthy) for state, _, is_healthy in map(describe_state, connected))
    return sorted(
        ((state, is_healthy, count) for (state, is_healthy), count in counted.items()), key=lambda row: row[1]
    )
