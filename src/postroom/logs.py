"""Logging: typed fields, one configuration for all processes, and no personal data or secrets.

`LogFields` lists every field a log line may have. Pyright rejects other names and types at the call, and
`_filter_fields` rejects them at run time. Messages of other libraries are dropped: of their records and of
exceptions only class and location are logged. The message is logged for `OperatorError` only. The audit trail
is the ledger, not this log.
"""

import logging
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, LiteralString, TextIO, TypedDict, Unpack
from uuid import UUID

import structlog
from structlog.typing import EventDict, Processor

from postroom.errors import OperatorError

REFUSED: Final = "[refused]"


class LogFields(TypedDict, total=False):
    """The fields of a log line.

    Strings are fixed words such as a kind, a state or a route, never data.
    """

    attempts: int
    concurrency: int
    count: int
    exit_code: int | None
    kind: str
    mailbox: UUID
    method: str
    organization: UUID
    outcome: Enum
    pid: int
    port: int
    reason: LiteralString
    retry_at: datetime
    route: str
    seconds: float
    signal: str
    state: str
    status: int
    version: int
    work: int
    worker: UUID


# The pattern that each string field must match, including the fields added by the processors below.
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "cause": re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,80}"),
    "error": re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,80}"),
    "event": re.compile(r"[a-z_]{1,30}(\.[a-z_]{1,30}){1,2}"),
    "kind": re.compile(r"[a-z][a-z_]{0,31}"),
    "level": re.compile(r"[a-z]{1,10}"),
    "logger": re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,80}"),
    "message": re.compile(r"[^@\x00-\x1f]{1,400}"),
    "method": re.compile(r"[A-Z][A-Z-]{0,15}"),
    "outcome": re.compile(r"[a-z][a-z_]{0,31}"),
    "process": re.compile(r"[a-z]{1,20}"),
    "reason": re.compile(r"[a-z][a-z ]{2,60}"),
    # The path of a route, never that of a request. Digits only in a version.
    "route": re.compile(r"/|(/(v[0-9]{1,2}|[a-z_.{}:-]{1,40})){1,8}"),
    "signal": re.compile(r"SIG[A-Z0-9]{1,10}"),
    "state": re.compile(r"[a-z][a-z_]{0,31}"),
    "timestamp": re.compile(r"[0-9T:.\-]{10,30}Z"),
    "where": re.compile(r"[A-Za-z0-9_.\-/<>]{1,120}:[0-9]{1,6}"),
}
_NAMES: Final = frozenset(LogFields.__annotations__) | frozenset(_PATTERNS) | {"refused"}
_FIRST: Final = ("timestamp", "level", "process", "event")
# A long run of mixed letters and digits is a token, a key or an ID, not a word.
_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?=[A-Za-z+/=_-]*[0-9])(?=[0-9+/=_-]*[A-Za-z])[A-Za-z0-9+/=_-]{20,}"
)
_refused_values = 0


class Log:
    """The logger of a module. Its methods accept `LogFields` only."""

    __slots__ = ("_bound",)

    def __init__(self) -> None:
        self._bound: Any = structlog.get_logger()

    def debug(self, event: LiteralString, **fields: Unpack[LogFields]) -> None:
        self._bound.debug(event, **fields)

    def info(self, event: LiteralString, **fields: Unpack[LogFields]) -> None:
        self._bound.info(event, **fields)

    def warning(
        self, event: LiteralString, *, error: BaseException | None = None, **fields: Unpack[LogFields]
    ) -> None:
        self._bound.warning(event, exc_info=error, **fields)

    def error(
        self, event: LiteralString, *, error: BaseException | None = None, **fields: Unpack[LogFields]
    ) -> None:
        self._bound.error(event, exc_info=error, **fields)


def configure(
    process: LiteralString, *, level: str = "info", style: str = "auto", stream: TextIO | None = None
) -> None:
    """Send all log lines, including those of libraries, through one filter."""
    out = stream if stream is not None else sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    _configure_structlog(process, threshold, out, text=style == "text" or (style == "auto" and out.isatty()))
    logging.basicConfig(handlers=[_LibraryLogHandler()], level=max(threshold, logging.WARNING), force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_crash


def _configure_structlog(process: LiteralString, threshold: int, out: TextIO, *, text: bool) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_process_name(process),
            _reduce_exception,
            _filter_fields,
            structlog.dev.ConsoleRenderer(colors=out.isatty())
            if text
            else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        # One write per line: processes share the stream, and their lines must not interleave.
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def count_refused_values() -> int:
    """Number of values this process removed from its log lines.

    Anything but 0 is a bug.
    """
    return _refused_values


def describe_location(trace: TracebackType | None) -> str:
    """Return file and line of the innermost frame, in Postroom if possible."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if "/postroom/" in frame.filename]
    chosen = (own or frames)[-1:]
    return _format_location(chosen[0].filename, chosen[0].lineno or 0) if chosen else "unknown:0"


def _format_location(filename: str, line: int) -> str:
    return f"{'/'.join(Path(filename).parts[-2:])}:{line}"


def _add_process_name(process: LiteralString) -> Processor:
    def add(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    return add


def _reduce_exception(_logger: object, _method: str, event: EventDict) -> EventDict:
    error: object = event.pop("exc_info", None)
    if error is True:
        error = sys.exception()
    if isinstance(error, BaseException):
        event["error"] = type(error).__name__
        event["where"] = describe_location(error.__traceback__)
        if isinstance(error, OperatorError):
            event["message"] = " ".join(str(error).split())
        if error.__cause__ is not None:
            event["cause"] = type(error.__cause__).__name__
    return event


def _filter_fields(_logger: object, _method: str, event: EventDict) -> MutableMapping[str, Any]:
    """Remove fields and values that are not allowed, and count them.

    Never raise: this is a log call.
    """
    global _refused_values  # noqa: PLW0603  one counter for the process is what a metric reads
    names = [*_FIRST, *(name for name in event if name not in _FIRST)]
    passed = {name: _filter_value(name, event[name]) for name in names if name in event and name in _NAMES}
    refused = len(event) - len(passed) + sum(value == REFUSED for value in passed.values())
    if refused:
        _refused_values += refused
        passed["refused"] = refused
    return passed


def _filter_value(name: str, value: object) -> object:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    shape = _PATTERNS.get(name)
    if isinstance(value, str) and shape is not None and shape.fullmatch(value):
        return value if name == "route" or not _TOKEN.search(value) else REFUSED
    return REFUSED


class _LibraryLogHandler(logging.Handler):
    """Log records of other libraries by logger, level and location.

    Their text may contain anything.
    """

    def emit(self, record: logging.LogRecord) -> None:
        log: Any = structlog.get_logger()
        where = _format_location(record.pathname, record.lineno)
        log.log(
            record.levelno,
            "library.message",
            logger=record.name,
            where=where,
            exc_info=record.exc_info and record.exc_info[1],
        )


def _log_crash(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    log: Any = structlog.get_logger()
    log.critical("process.crashed", exc_info=error)


# Filter lines that are logged before `configure` is called, or without it.
_configure_structlog("postroom", logging.WARNING, sys.stderr, text=False)
