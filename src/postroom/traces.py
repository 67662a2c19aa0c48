"""Traces (W4): spans from the push to the record, sent to a collector where a setting names one.

Off, a span costs one call and nothing of OpenTelemetry is imported. Attributes are ids, counts and
states. A trace goes on in another process by its traceparent, which stands beside the work that was woken.
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
    """OpenTelemetry, as far as it is used. Imported by name: it is an extra."""

    api: Any
    context: Any
    provider: Any
    tracer: Any

    @contextmanager
    def span(self, name: str, about: SpanAttributes, kind: SpanKind, parent: str | None) -> Generator[None]:
        """Where it ends with an error, the class is told: words may be a stranger's."""
        with self.tracer.start_as_current_span(
            name,
            context=self._of(parent) if parent else None,
            kind=self.api.SpanKind[kind],
            attributes=dict(about),
            record_exception=False,
            set_status_on_exception=False,
        ) as begun:
            try:
                yield
            except BaseException as error:
                begun.set_status(self.api.Status(self.api.StatusCode.ERROR, type(error).__name__))
                raise

    def _of(self, parent: str) -> Any:
        """A context in which that span is the parent; where it is none, a new trace begins."""
        found = _TRACEPARENT.fullmatch(parent)
        if found is None:
            return self.context.Context()
        trace, span, flags = (int(each, 16) for each in found.groups())
        known = self.api.SpanContext(trace, span, is_remote=True, trace_flags=self.api.TraceFlags(flags))
        return self.api.set_span_in_context(self.api.NonRecordingSpan(known), self.context.Context())

    def current(self) -> str | None:
        found = self.api.get_current_span().get_span_context()
        if not found.is_valid:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


_telemetry: _OpenTelemetry | None = None


def start(process: str, collector: str) -> None:
    """Send spans to a collector (OTLP over HTTP) from now on, a batch at a time, the last at the exit.

    Sampling, headers and limits are set as for any program: by OpenTelemetry's own variables (`OTEL_…`).
    """
    start_with_processor(process, lambda: _batch_processor(collector))


def start_with_processor(process: str, processor: Callable[[], Any]) -> None:
    """Make spans, and give them to the processor."""
    global _telemetry  # noqa: PLW0603  one for the process, as its log is
    try:
        sdk, resources = _import("opentelemetry.sdk.trace"), _import("opentelemetry.sdk.resources")
        api, context = _import("opentelemetry.trace"), _import("opentelemetry.context")
        sent = processor()
    except ImportError:
        raise SettingsError(
            "POSTROOM_TRACES_URL needs the OpenTelemetry SDK. Run `pip install postroom[otel]`."
        ) from None
    named = resources.Resource.create({"service.name": f"postroom-{process}"})
    provider = sdk.TracerProvider(resource=named)
    provider.add_span_processor(sent)
    _telemetry = _OpenTelemetry(api, context, provider, provider.get_tracer("postroom"))


def stop() -> None:
    """Send what is left; make no more."""
    global _telemetry  # noqa: PLW0603  as above
    if _telemetry is not None:
        _telemetry.provider.shutdown()
        _telemetry = None


def span(
    name: str, about: SpanAttributes | None = None, *, kind: SpanKind = "INTERNAL", parent: str | None = None
) -> AbstractContextManager[None]:
    """What happens inside belongs together; `parent` is a traceparent, else the span around this one."""
    return _NOTHING if _telemetry is None else _telemetry.span(name, about or {}, kind, parent)


def set_attributes(about: SpanAttributes) -> None:
    """Say more of the span around."""
    if _telemetry is not None:
        _telemetry.api.get_current_span().set_attributes(dict(about))


def current_traceparent() -> str | None:
    """The traceparent of the span around."""
    return None if _telemetry is None else _telemetry.current()


def _batch_processor(collector: str) -> Any:
    exporter = _import("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return _import("opentelemetry.sdk.trace.export").BatchSpanProcessor(
        exporter.OTLPSpanExporter(endpoint=collector)
    )


def _import(name: str) -> Any:
    return import_module(name)
