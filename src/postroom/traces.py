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

Attributes = Mapping[str, str | int | float]
Kind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NOTHING: Final = nullcontext()


@dataclass(frozen=True)
class _Tracing:
    """OpenTelemetry, as far as it is used. Imported by name: it is an extra."""

    api: Any
    context: Any
    provider: Any
    tracer: Any

    @contextmanager
    def span(self, name: str, about: Attributes, kind: Kind, parent: str | None) -> Generator[None]:
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


_tracing: _Tracing | None = None


def start(process: str, collector: str) -> None:
    """Send spans to a collector (OTLP over HTTP) from now on, a batch at a time, the last at the exit.

    Sampling, headers and limits are set as for any program: by OpenTelemetry's own variables (`OTEL_…`).
    """
    begin(process, lambda: _batches(collector))


def begin(process: str, processor: Callable[[], Any]) -> None:
    """Make spans, and give them to the processor."""
    global _tracing  # noqa: PLW0603  one for the process, as its log is
    try:
        sdk, resources = _imported("opentelemetry.sdk.trace"), _imported("opentelemetry.sdk.resources")
        api, context = _imported("opentelemetry.trace"), _imported("opentelemetry.context")
        sent = processor()
    except ImportError:
        raise SettingsError(
            "POSTROOM_TRACES_URL needs the OpenTelemetry SDK. Run `pip install postroom[otel]`."
        ) from None
    named = resources.Resource.create({"service.name": f"postroom-{process}"})
    provider = sdk.TracerProvider(resource=named)
    provider.add_span_processor(sent)
    _tracing = _Tracing(api, context, provider, provider.get_tracer("postroom"))


def stop() -> None:
    """Send what is left; make no more."""
    global _tracing  # noqa: PLW0603  as above
    if _tracing is not None:
        _tracing.provider.shutdown()
        _tracing = None


def span(
    name: str, about: Attributes | None = None, *, kind: Kind = "INTERNAL", parent: str | None = None
) -> AbstractContextManager[None]:
    """What happens inside belongs together; `parent` is a traceparent, else the span around this one."""
    return _NOTHING if _tracing is None else _tracing.span(name, about or {}, kind, parent)


def note(about: Attributes) -> None:
    """Say more of the span around."""
    if _tracing is not None:
        _tracing.api.get_current_span().set_attributes(dict(about))


def current() -> str | None:
    """The traceparent of the span around."""
    return None if _tracing is None else _tracing.current()


def _batches(collector: str) -> Any:
    exporter = _imported("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return _imported("opentelemetry.sdk.trace.export").BatchSpanProcessor(
        exporter.OTLPSpanExporter(endpoint=collector)
    )


def _imported(name: str) -> Any:
    return import_module(name)
