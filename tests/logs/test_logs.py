import io
import json
import logging
import sys
import warnings
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

import pytest
import structlog

from postroom import logs
from postroom.errors import DatabaseUnavailable, PermanentError
from postroom.model import Secret

PERSONAL = [
    "jane.doe@example.org",
    "Invoice of Jane Doe",
    "ya29.a0AfH6SMBx7Zk3Qw9Rt5",
    "Bearer abcdefghijklmnop1234567890",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "rechnung-2024.pdf",
    "https://user:hunter2@db.example/x",
    b"bytes of a body",
    Secret("hunter2"),
    {"subject": "Invoice of Jane Doe"},
    ["jane.doe@example.org"],
    object(),
]
log = logs.Log()


@pytest.fixture
def stream():
    written = io.StringIO()
    logs.configure("worker", level="debug", style="json", stream=written)
    return written


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Colour(StrEnum):
    RED = "red"


def test_a_line_carries_time_level_process_event_and_its_fields(stream):
    identifier = UUID(int=7)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    log.info("work.claimed", count=3, kind="sample", organization=identifier, retry_at=at)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "process": "worker",
        "event": "work.claimed",
        "count": 3,
        "kind": "sample",
        "organization": str(identifier),
        "retry_at": at.isoformat(),
    }


@pytest.mark.parametrize("value", PERSONAL, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", sorted(logs._NAMES - {"refused"}))
def test_no_field_takes_personal_data_or_a_secret(stream, name, value):
    if name == "event":
        structlog.get_logger().info(value)
    elif name != "message" or not isinstance(
        value, str
    ):  # the message of an operator error is the one sentence
        structlog.get_logger().info("work.claimed", **{name: value})
    for personal in ("jane", "Jane", "ya29", "Bearer", "eyJ", "rechnung", "hunter2", "bytes of"):
        assert personal not in stream.getvalue()


def test_an_unknown_field_is_dropped_and_counted(stream):
    before = logs.count_refused_values()
    structlog.get_logger().info("work.claimed", subject="anything", kind="jane@example.org", count=1)
    (line,) = lines(stream)
    assert line["refused"] == 2
    assert line["kind"] == logs.REFUSED
    assert line["count"] == 1
    assert "subject" not in line
    assert logs.count_refused_values() == before + 2


def test_enums_and_durations_are_written_as_their_values(stream):
    structlog.get_logger().info("work.claimed", state=Colour.RED, seconds=timedelta(seconds=2))
    assert lines(stream)[0]["state"] == "red"
    assert lines(stream)[0]["seconds"] == 2


def raised(error, cause=None):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def test_a_foreign_exception_is_logged_by_class_and_place_only(stream):
    log.error("step.failed", error=raised(ValueError("jane.doe at home"), KeyError("hunter2")), kind="sample")
    (line,) = lines(stream)
    assert (line["error"], line["cause"], line["kind"]) == ("ValueError", "KeyError", "sample")
    assert line["where"].startswith("logs/test_logs.py:")
    assert "jane" not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_only_an_operator_error_is_logged_with_its_message(stream):
    log.warning("database.lost", error=raised(DatabaseUnavailable("no answer.\nStart it.")))
    log.warning("step.failed", error=raised(PermanentError("the provider said: Dear Jane")))
    first, second = lines(stream)
    assert first["message"] == "no answer. Start it."
    assert "message" not in second


def test_an_operator_error_that_contains_an_address_is_logged_without_its_message(stream):
    log.warning(
        "database.lost", error=raised(DatabaseUnavailable("cannot reach postgresql://u:hunter2@db.example/x"))
    )
    assert lines(stream)[0]["message"] == logs.REFUSED
    assert "hunter2" not in stream.getvalue()


def test_records_and_warnings_of_libraries_are_logged_without_their_text(stream):
    logging.getLogger("uvicorn.error").warning("request of %s", "jane.doe@example.org")
    logging.getLogger("asyncio").error("jane", exc_info=raised(OSError("jane")))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("jane", stacklevel=1)
    first, second, third = lines(stream)
    assert (first["event"], first["logger"], first["level"]) == (
        "library.message",
        "uvicorn.error",
        "warning",
    )
    assert (second["logger"], second["error"]) == ("asyncio", "OSError")
    assert third["logger"] == "py.warnings"
    assert "jane" not in stream.getvalue()


def test_an_uncaught_exception_is_logged_without_its_message(stream):
    error = raised(ValueError("jane"))
    sys.excepthook(type(error), error, error.__traceback__)
    (line,) = lines(stream)
    assert (line["level"], line["event"], line["error"]) == ("critical", "process.crashed", "ValueError")
    assert "jane" not in stream.getvalue()


def test_lines_below_the_level_are_not_written():
    written = io.StringIO()
    logs.configure("web", level="warning", style="json", stream=written)
    log.info("work.claimed")
    log.warning("work.failed")
    assert [line["event"] for line in lines(written)] == ["work.failed"]


def test_text_format_is_readable_and_guarded_as_well():
    written = io.StringIO()
    logs.configure("web", style="text", stream=written)
    log.info("work.claimed", count=3, kind="jane@example.org")
    assert "work.claimed" in written.getvalue()
    assert "count=3" in written.getvalue()
    assert "jane" not in written.getvalue()
    assert not written.getvalue().startswith("{")
