"""Tracing: OpenTelemetry spans from the push to the record, exported if POSTROOM_TRACES_URL is set.

While tracing is off, a span costs one call and OpenTelemetry is not imported. Attributes are IDs, counts and
states. A trace continues in another process by its traceparent, which is stored with the enqueued work.
"""

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from postroom.errors import SettingsError

SpanAttributes = Mapping[str, str | int | float]
SpanKind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NOTHING: Final = nullcontext()


@dataclass(frozen=True)
class _OpenTelemetry:
    """The parts of OpenTelemetry that are used.

    Imported dynamically: it is an optional dependency.
    """

    api: Any
    context: Any
    provider: Any
    tracer: Any

    @contextmanager
    def span(
        self, name: str, attributes: SpanAttributes, kind: SpanKind, parent: str | None
    ) -> Generator[None]:
        """Run a span.

        An error is recorded by its class only: its message may contain personal data.
        """
        with self.tracer.start_as_current_span(
            name,
            context=self._build_context(parent) if parent else None,
            kind=self.api.SpanKind[kind],
            attributes=dict(attributes),
            record_exception=False,
            set_status_on_exception=False,
        ) as current:
            try:
                yield
            except BaseException as error:
                current.set_status(self.api.Status(self.api.StatusCode.ERROR, type(error).__name__))
                raise

    def _build_context(self, parent: str) -> Any:
        """Return a context with this parent span.

        An invalid traceparent starts a new trace.
        """
        match = _TRACEPARENT.fullmatch(parent)
        if match is None:
            return self.context.Context()
        trace, span, flags = (int(digits, 16) for digits in match.groups())
        remote = self.api.SpanContext(trace, span, is_remote=True, trace_flags=self.api.TraceFlags(flags))
        return self.api.set_span_in_context(self.api.NonRecordingSpan(remote), self.context.Context())

    def format_traceparent(self) -> str | None:
        context = self.api.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


_telemetry: _OpenTelemetry | None = None


def start(process: str, collector: str) -> None:
    """Export spans to a collector (OTLP over HTTP) in batches; the last batch is sent at exit.

    Sampling, headers and limits are configured by OpenTelemetry's own variables (`OTEL_…`).
    """
    start_with_processor(process, lambda: _batch_processor(collector))


def start_with_processor(process: str, build_processor: Callable[[], Any]) -> None:
    """Create spans from now on, and pass them to the span processor."""
    global _telemetry  # noqa: PLW0603  one tracer per process
    try:
        sdk, resources = _import("opentelemetry.sdk.trace"), _import("opentelemetry.sdk.resources")
        api, context = _import("opentelemetry.trace"), _import("opentelemetry.context")
        span_processor = build_processor()
    except ImportError:
        raise SettingsError(
            "POSTROOM_TRACES_URL requires the OpenTelemetry SDK. Run `pip install 'postroom[otel]'`."
        ) from None
    resource = resources.Resource.create({"service.name": f"postroom-{process}"})
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(span_processor)
    _telemetry = _OpenTelemetry(api, context, provider, provider.get_tracer("postroom"))


def stop() -> None:
    """Export the remaining spans and stop tracing."""
    global _telemetry  # noqa: PLW0603  as above
    if _telemetry is not None:
        _telemetry.provider.shutdown()
        _telemetry = None


def span(
    name: str,
    attributes: SpanAttributes | None = None,
    *,
    kind: SpanKind = "INTERNAL",
    parent: str | None = None,
) -> AbstractContextManager[None]:
    """Run the block in a span.

    `parent` is a traceparent; by default the enclosing span is the parent.
    """
    return _NOTHING if _telemetry is None else _telemetry.span(name, attributes or {}, kind, parent)


def set_attributes(attributes: SpanAttributes) -> None:
    """Add attributes to the current span."""
    if _telemetry is not None:
        _telemetry.api.get_current_span().set_attributes(dict(attributes))


def current_traceparent() -> str | None:
    """The traceparent of the current span."""
    return None if _telemetry is None else _telemetry.format_traceparent()


def _batch_processor(collector: str) -> Any:
    exporter = _import("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return _import("opentelemetry.sdk.trace.export").BatchSpanProcessor(
        exporter.OTLPSpanExporter(endpoint=collector)
    )


def _import(name: str) -> Any:
    return import_module(name)
