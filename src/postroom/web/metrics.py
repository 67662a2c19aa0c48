"""`/metrics` for Prometheus (W4): what the database knows of all processes, and the requests of this one.

Counts by kind and state only. Asked for on this machine, or with the token of the setting.
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
from postroom.store import metrics
from postroom.store.database import Database
from postroom.store.health import KindOfWork
from postroom.store.metrics import Measure
from postroom.web.event_stream import EventStreams
from postroom.web.health import HealthMonitor

_DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# For each measure its name, its words, and how its labels are called.
_GAUGES: Final[Mapping[str, tuple[str, str, Sequence[str]]]] = {
    "mailboxes": ("postroom_mailboxes", "Mailboxes by provider and health.", ("provider", "health")),
    "sync_age": (
        "postroom_sync_age_seconds",
        "Since the last sync of the mailbox left longest.",
        ("provider",),
    ),
    "changed_without_push": (
        "postroom_mailboxes_changed_without_push",
        "Mailboxes where changes were found that no push told of.",
        ("provider",),
    ),
    "audit_missing": (
        "postroom_audit_missing_messages",
        "Messages that the last audits found missing.",
        ("provider",),
    ),
    "quota_used": (
        "postroom_quota_used_ratio",
        "How much of its provider's quota the mailbox nearest to the limit used; 1 is all.",
        ("provider",),
    ),
    "latency": (
        "postroom_latency_seconds",
        "From the provider's receipt to our store: the middle of the new mail of the last 5 minutes.",
        ("provider",),
    ),
    "subscriptions": ("postroom_subscriptions", "Push channels by status.", ("status", "state")),
    "documents": ("postroom_documents", "Documents by state.", ("state",)),
    "reviews_open": ("postroom_reviews_open", "Documents that wait for a person.", ()),
    "review_age": ("postroom_review_age_seconds", "How long the oldest of them waits.", ()),
    "failures_open": ("postroom_failures_open", "What failed alone, by kind and fate.", ("kind", "fate")),
    "webhooks": ("postroom_webhooks", "Outgoing webhooks by state.", ("state",)),
    "deliveries_waiting": ("postroom_deliveries_waiting", "Deliveries that were not accepted yet.", ()),
    "stored": ("postroom_stored_rows", "Rows stored, as the server estimates them.", ("table",)),
}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_WORK: Final = ("due", "leased", "waiting", "failing", "parked")


class RequestMetrics:
    """The requests that this process answered."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._answered = Counter(
            "postroom_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "postroom_http_request_seconds",
            "How long answers took, streams apart.",
            ["route"],
            buckets=_DURATION_BUCKETS,
            registry=self.registry,
        )

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        self._answered.labels(method if method in _METHODS else "OTHER", route, str(status)).inc()
        if not route.endswith("/events"):
            self._seconds.labels(route).observe(seconds)


class _SnapshotCollector:
    """What was read a moment ago, as the exposition wants it."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def route(
    database: Database,
    watch: HealthMonitor,
    requests: RequestMetrics,
    live: EventStreams | None,
    token: Secret | None,
) -> Route:
    return Route("/metrics", partial(_metrics, database, watch, requests, live, token))


async def _metrics(
    database: Database,
    watch: HealthMonitor,
    requests: RequestMetrics,
    live: EventStreams | None,
    token: Secret | None,
    request: Request,
) -> Response:
    if not _is_authorized(request, token):
        return PlainTextResponse("Set POSTROOM_METRICS_TOKEN and show it as a bearer token.\n", 401)
    found: list[Metric] = [
        _gauge("postroom_build_info", "The version that runs.", ("version",), [((__version__,), 1.0)]),
        _gauge(
            "postroom_log_refusals",
            "Values kept out of log lines; not 0 is a mistake.",
            (),
            [((), logs.count_refused_values())],
        ),
    ]
    if live is not None:
        found.append(_gauge("postroom_streams", "Browsers that follow live.", (), [((), live.clients)]))
    health = (await watch.report()).health
    found.append(
        _gauge("postroom_database_up", "Whether the database answers.", (), [((), health is not None)])
    )
    if health is not None:
        found += _work_gauges(health.work)
        for role in ("web", "worker"):
            count = len(health.of_role(role))
            found.append(
                _gauge(f"postroom_{role}_processes", f"Processes connected as {role}.", (), [((), count)])
            )
        async with database.engine() as engine:
            found += _measure_gauges(await metrics.read(engine))
    once = CollectorRegistry()
    once.register(_SnapshotCollector(found))
    body = generate_latest(once) + generate_latest(requests.registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST, headers={"cache-control": "no-store"})


def _is_authorized(request: Request, token: Secret | None) -> bool:
    if token is not None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), token.reveal().encode())
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False  # a proxy on this machine asks for somebody else
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _work_gauges(kinds: Sequence[KindOfWork]) -> list[Metric]:
    counts = [((each.kind, state), float(getattr(each, state))) for each in kinds for state in _WORK]
    oldest = [((each.kind,), each.oldest_due_seconds or 0.0) for each in kinds]
    return [
        _gauge("postroom_work", "Work by kind and state.", ("kind", "state"), counts),
        _gauge("postroom_work_oldest_due_seconds", "How long the oldest is due.", ("kind",), oldest),
    ]


def _measure_gauges(found: Sequence[Measure]) -> list[Metric]:
    metrics: list[Metric] = []
    for key, (name, words, labels) in _GAUGES.items():
        values = [((each.label, each.also)[: len(labels)], each.value) for each in found if each.name == key]
        metrics.append(_gauge(name, words, labels, values))
    events = CounterMetricFamily("postroom_events", "Events told in the feeds.")
    events.add_metric([], sum(each.value for each in found if each.name == "events"))
    return [*metrics, events]


def _gauge(
    name: str, words: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for names, value in values:
        family.add_metric(names, float(value))
    return family
