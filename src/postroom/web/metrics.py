"""The Prometheus endpoint `/metrics`: gauges from the database, and this process's request metrics.

Only counts by kind and state, no personal data. Served to this machine, or to holders of the token.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from postroom import __version__, logs
from postroom.model import Secret
from postroom.store import metrics as measurements
from postroom.store.database import Database
from postroom.store.health import WorkKindCounts
from postroom.store.metrics import MetricSample
from postroom.web.event_stream import EventStreams
from postroom.web.health import HealthMonitor

_DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# For each measure: the metric's name, its help text and its label names.
_GAUGES: Final[Mapping[str, tuple[str, str, Sequence[str]]]] = {
    "mailboxes": ("postroom_mailboxes", "Mailboxes by provider and health.", ("provider", "health")),
    "mailbox_problems": (
        "postroom_mailbox_problems",
        "Connected mailboxes that are not healthy, by provider and cause.",
        ("provider", "cause"),
    ),
    "silent_subscriptions": (
        "postroom_silent_subscriptions",
        "Subscriptions replaced in the last day because new mail arrived without pushes.",
        ("provider",),
    ),
    "sync_age": (
        "postroom_sync_age_seconds",
        "Age of the least recently synced mailbox.",
        ("provider",),
    ),
    "changed_without_push": (
        "postroom_mailboxes_changed_without_push",
        "Mailboxes whose changes arrived without a push.",
        ("provider",),
    ),
    "audit_missing": (
        "postroom_audit_missing_messages",
        "Messages missing from the store according to the last audits.",
        ("provider",),
    ),
    "quota_used": (
        "postroom_quota_used_ratio",
        "Share of the provider quota used by the busiest mailbox; 1 is the limit.",
        ("provider",),
    ),
    "latency": (
        "postroom_latency_seconds",
        "Median time from the provider's receipt to our store, over the last 5 minutes.",
        ("provider",),
    ),
    "subscriptions": ("postroom_subscriptions", "Push subscriptions by status.", ("status", "state")),
    "documents": ("postroom_documents", "Documents by state.", ("state",)),
    "reviews_open": ("postroom_reviews_open", "Documents that need review.", ()),
    "review_age": ("postroom_review_age_seconds", "Age of the oldest document that needs review.", ()),
    "failures_open": (
        "postroom_failures_open",
        "Failed messages and attachments, by kind and outcome.",
        ("kind", "fate"),
    ),
    "webhooks": ("postroom_webhooks", "Outgoing webhooks by state.", ("state",)),
    "deliveries_waiting": ("postroom_deliveries_waiting", "Deliveries not accepted yet.", ()),
    "stored": ("postroom_stored_rows", "Estimated number of stored rows.", ("table",)),
}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_WORK: Final = ("due", "leased", "waiting", "failing", "parked")


class RequestMetrics:
    """Counts and durations of the requests that this process served."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._served = Counter(
            "postroom_http_requests",
            "HTTP requests served.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "postroom_http_request_seconds",
            "Duration of HTTP requests, without event streams.",
            ["route"],
            buckets=_DURATION_BUCKETS,
            registry=self.registry,
        )

    def record(self, method: str, route: str, status: int, seconds: float) -> None:
        self._served.labels(method if method in _METHODS else "OTHER", route, str(status)).inc()
        if not route.endswith("/events"):
            self._seconds.labels(route).observe(seconds)


class _SnapshotCollector:
    """A collector for metrics that were read just before."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def route(
    database: Database,
    monitor: HealthMonitor,
    requests: RequestMetrics,
    live: EventStreams | None,
    token: Secret | None,
) -> Route:
    return Route("/metrics", partial(_metrics, database, monitor, requests, live, token))


async def _metrics(
    database: Database,
    monitor: HealthMonitor,
    requests: RequestMetrics,
    live: EventStreams | None,
    token: Secret | None,
    request: Request,
) -> Response:
    if not _is_authorized(request, token):
        return PlainTextResponse(
            "Unauthorized. Set POSTROOM_METRICS_TOKEN and send it as a bearer token.\n", 401
        )
    metrics: list[Metric] = [
        _gauge("postroom_build_info", "Version of Postroom.", ("version",), [((__version__,), 1.0)]),
        _gauge(
            "postroom_log_refusals",
            "Values rejected by the log; above 0 is a bug.",
            (),
            [((), logs.count_refused_values())],
        ),
    ]
    if live is not None:
        metrics.append(_gauge("postroom_streams", "Open event streams.", (), [((), live.clients)]))
    health = (await monitor.report()).health
    metrics.append(
        _gauge("postroom_database_up", "Whether the database responds.", (), [((), health is not None)])
    )
    if health is not None:
        metrics += _work_gauges(health.work)
        for role in ("web", "worker"):
            count = len(health.list_processes(role))
            metrics.append(
                _gauge(f"postroom_{role}_processes", f"Processes connected as {role}.", (), [((), count)])
            )
        async with database.engine() as engine:
            metrics += _measure_gauges(await measurements.list_samples(engine))
    registry = CollectorRegistry()
    registry.register(_SnapshotCollector(metrics))
    body = generate_latest(registry) + generate_latest(requests.registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST, headers={"cache-control": "no-store"})


def _is_authorized(request: Request, token: Secret | None) -> bool:
    if token is not None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(bearer.encode(), token.reveal().encode())
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False  # forwarded by a proxy on this machine
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _work_gauges(kinds: Sequence[WorkKindCounts]) -> list[Metric]:
    counts = [((each.kind, state), float(getattr(each, state))) for each in kinds for state in _WORK]
    oldest = [((each.kind,), each.oldest_due_seconds or 0.0) for each in kinds]
    return [
        _gauge("postroom_work", "Work by kind and state.", ("kind", "state"), counts),
        _gauge(
            "postroom_work_oldest_due_seconds",
            "How long the oldest work item has been due.",
            ("kind",),
            oldest,
        ),
    ]


def _measure_gauges(measured: Sequence[MetricSample]) -> list[Metric]:
    metrics: list[Metric] = []
    for key, (name, help_text, labels) in _GAUGES.items():
        values = [
            ((each.label, each.second_label)[: len(labels)], each.value)
            for each in measured
            if each.name == key
        ]
        metrics.append(_gauge(name, help_text, labels, values))
    events = CounterMetricFamily("postroom_events", "Events in the feeds.")
    events.add_metric([], sum(each.value for each in measured if each.name == "events"))
    return [*metrics, events]


def _gauge(
    name: str, help_text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for names, value in values:
        family.add_metric(names, float(value))
    return family
