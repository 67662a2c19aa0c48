"""The overview page: charts of a range of time, and counts of mailboxes, documents and work.

The figures come from `store.figures`; `charts` turns them into geometry.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.model import DocumentState, MailboxId
from postroom.store import documents, figures, mailboxes
from postroom.store.figures import Figures
from postroom.store.mailboxes import Mailbox
from postroom.web import attention, charts, pages
from postroom.web.attention import AttentionItem
from postroom.web.charts import Chart, Tick
from postroom.web.documents import STATE_NAMES
from postroom.web.formats import Formats
from postroom.web.health import HealthMonitor
from postroom.web.mailboxes import describe_state
from postroom.web.sessions import SiteContext, get_visitor, member_route


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A range of time that the charts can show, in intervals of one length."""

    id: str
    name: str
    step: timedelta
    count: int
    step_name: str
    marks: tuple[str, str]  # how long ago: at the start and in the middle

    def describe(self, start: datetime, formats: Formats) -> str:
        """The interval that starts then, in UTC."""
        end = start + self.step
        day = "" if self.count * self.step <= timedelta(days=1) else f"{formats.day(start)} "
        until = "" if self.step <= timedelta(minutes=1) else f"\u2013{end:%H:%M}"
        return f"{day}{start:%H:%M}{until} UTC"


RANGES: Final = {
    each.id: each
    for each in (
        ChartRange("1h", "hour", timedelta(minutes=1), 60, "minute", ("60 min ago", "30 min ago")),
        ChartRange("24h", "24 hours", timedelta(minutes=15), 96, "15 minutes", ("24 h ago", "12 h ago")),
        ChartRange("7d", "7 days", timedelta(hours=1), 168, "hour", ("7 d ago", "3½ d ago")),
        ChartRange("30d", "30 days", timedelta(hours=6), 120, "6 hours", ("30 d ago", "15 d ago")),
    )
}


MAX_ATTENTION: Final = 5


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/", partial(page, site, "overview.html")),
        member_route(site, "/overview/parts", partial(page, site, "overview_fragments.html")),
    ]


async def page(site: SiteContext, template: str, request: Request) -> Response:
    formats = pages.get_formats(request)
    monitor: HealthMonitor = request.app.state.health_monitor
    shown = RANGES.get(request.query_params.get("range", ""), RANGES["1h"])
    async with (
        site.database.transaction(get_visitor(request).organization) as connection,
        connection.in_one_round_trip() as round_trip,
    ):
        reading_figures = round_trip.create_task(figures.read(connection, shown.step, shown.count))
        listing_mailboxes = round_trip.create_task(mailboxes.list_all(connection))
        listing_app_only = round_trip.create_task(mailboxes.list_app_only_ids(connection))
        counting = round_trip.create_task(documents.count_by_state(connection))
    measured, connected, counts = reading_figures.result(), listing_mailboxes.result(), counting.result()
    health = await monitor.report_for(get_visitor(request))
    return pages.render_page(
        request,
        template,
        ranges=RANGES.values(),
        shown=shown,
        marks=_place_marks(shown),
        charts=build_charts(shown, measured, formats),
        mailboxes=connected,
        mailbox_states=_count_by_state(connected),
        documents=[(state, name, counts.get(state, 0)) for state, name in STATE_NAMES.items()],
        total=sum(counts.values()),
        health=health,
        attention=list_attention(
            connected,
            listing_app_only.result(),
            reviews=counts.get(DocumentState.NEEDS_REVIEW, 0),
            parked=sum(kind.parked for kind in health.work) if health.is_available else 0,
            formats=formats,
        ),
        due=sum(kind.due for kind in health.work) if health.is_available else None,
        now=datetime.now(UTC),
    )


def list_attention(
    connected: Sequence[Mailbox],
    app_only: Collection[MailboxId],
    *,
    reviews: int,
    parked: int,
    formats: Formats,
) -> list[AttentionItem]:
    """What needs a person, most urgent first: mailboxes without new mail, failures, then the review queue."""
    late = [mailbox for mailbox in connected if attention.is_late(mailbox)]
    late.sort(key=lambda mailbox: (not mailbox.has_lost_grant, mailbox.health_since))
    items = [
        attention.build_mailbox_item(mailbox, app_only=mailbox.id in app_only)
        for mailbox in late[:MAX_ATTENTION]
    ]
    if len(late) > MAX_ATTENTION:
        more = len(late) - MAX_ATTENTION
        subject = "1 more mailbox needs" if more == 1 else f"{formats.count(more)} more mailboxes need"
        items.append(AttentionItem(f"{subject} attention.", "Show mailboxes", "/mailboxes"))
    if parked:
        subject = "1 work item" if parked == 1 else f"{formats.count(parked)} work items"
        items.append(AttentionItem(f"{subject} failed permanently.", "Show failures", "/failures"))
    if reviews:
        subject = "1 document needs" if reviews == 1 else f"{formats.count(reviews)} documents need"
        items.append(AttentionItem(f"{subject} review.", "Review next document", "/documents/next"))
    return items


def build_charts(shown: ChartRange, measured: Sequence[Figures], formats: Formats) -> list[Chart]:
    newest, last = measured[-1], f"in the last {shown.name}"
    messages, quota = [each.messages for each in measured], [each.quota for each in measured]
    stored = sum(messages)
    return [
        _bar_chart(
            ("mail", "Messages stored"),
            (formats.count(stored), f"{'message' if stored == 1 else 'messages'} {last}"),
            f"Peak: {formats.count(max(messages))} per {shown.step_name}",
            _describe_all(
                shown, measured, formats, lambda each: _count(formats, each.messages, "message", "messages")
            ),
            charts.scale_counts(messages, formats),
            messages,
        ),
        build_latency_chart(shown, measured, formats),
        _bar_chart(
            ("quota", "Provider quota used"),
            (f"{newest.quota:.0%}", "by the busiest mailbox"),
            f"Peak: {max(quota):.0%} {last}",
            _describe_all(shown, measured, formats, lambda each: f"{each.quota:.0%}"),
            charts.scale_shares(),
            quota,
        ),
        _count_chart(
            shown,
            measured,
            formats,
            ("reviews", "Needs review"),
            ("document", "documents"),
            lambda each: each.reviews,
        ),
        _count_chart(
            shown,
            measured,
            formats,
            ("unprocessed", "Waiting for processing"),
            ("document", "documents"),
            lambda each: each.unprocessed,
        ),
        _count_chart(
            shown,
            measured,
            formats,
            ("due", "Backlog"),
            ("work item due", "work items due"),
            lambda each: each.due,
        ),
    ]


def build_latency_chart(shown: ChartRange, measured: Sequence[Figures], formats: Formats) -> Chart:
    """Chart how long new mail took from the provider to the store: the median and the slowest percent."""
    medians = [each.latency_median for each in measured]
    slowest = [each.latency_p99 for each in measured]
    values = [each for each in (*medians, *slowest) if each is not None]
    newest = next((each for each in reversed(medians) if each is not None), None)
    scale = charts.scale_seconds(values, formats)
    return Chart(
        "latency",
        "Delivery latency",
        "No data" if newest is None else formats.seconds(newest),
        "yet" if newest is None else "median of the newest mail",
        f"Highest p99: {formats.seconds(max(values))}" if values else "No new mail",
        scale,
        charts.place_slots(_describe_all(shown, measured, formats, partial(_describe_latency, formats))),
        series=[
            charts.build_series("p99", scale, slowest),
            charts.build_series("p50", scale, medians),
        ],
    )


def _count_chart(
    shown: ChartRange,
    measured: Sequence[Figures],
    formats: Formats,
    name: tuple[str, str],
    nouns: tuple[str, str],
    get_count: Callable[[Figures], int],
) -> Chart:
    counts = [get_count(each) for each in measured]
    return _bar_chart(
        name,
        (formats.count(counts[-1]), nouns[0] if counts[-1] == 1 else nouns[1]),
        f"Peak: {formats.count(max(counts))} in the last {shown.name}",
        _describe_all(shown, measured, formats, lambda each: _count(formats, get_count(each), *nouns)),
        charts.scale_counts(counts, formats),
        counts,
    )


def _bar_chart(
    name: tuple[str, str],
    figure: tuple[str, str],
    summary: str,
    texts: Sequence[str],
    scale: charts.ChartScale,
    values: Sequence[float],
) -> Chart:
    bars = charts.build_bars(scale, values)
    return Chart(*name, *figure, summary, scale, charts.place_slots(texts), bars)


def _describe_all(
    shown: ChartRange, measured: Sequence[Figures], formats: Formats, describe: Callable[[Figures], str]
) -> list[str]:
    return [f"{shown.describe(each.start, formats)}: {describe(each)}" for each in measured]


def _describe_latency(formats: Formats, each: Figures) -> str:
    if each.latency_median is None or each.latency_p99 is None:
        return "no new mail"
    median, slowest = map(formats.seconds, (each.latency_median, each.latency_p99))
    return f"p50 {median}, p99 {slowest}"


def _count(formats: Formats, count: int, one: str, many: str) -> str:
    return f"{formats.count(count)} {one if count == 1 else many}"


def _place_marks(shown: ChartRange) -> list[Tick]:
    """The labels of the horizontal axis."""
    width = charts.WIDTH - charts.LEFT - charts.RIGHT
    labels = (*shown.marks, "now")
    return [Tick(charts.LEFT + width * at / 2, label) for at, label in enumerate(labels)]


def _count_by_state(connected: Sequence[Mailbox]) -> list[tuple[str, bool, int]]:
    """Count mailboxes by displayed state; states that need attention come first."""
    counted = Counter((state, is_healthy) for state, _, is_healthy in map(describe_state, connected))
    return sorted(
        ((state, is_healthy, count) for (state, is_healthy), count in counted.items()), key=lambda row: row[1]
    )
