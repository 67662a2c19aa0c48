"""The checks of `postroom doctor`: each looks at one thing and says what to do when it is wrong."""

import http.client
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from postroom import config, interrupts
from postroom.cli import startup
from postroom.config import Settings
from postroom.errors import OperatorError, PostroomError, SettingsError, TransientError
from postroom.flow.storage import blob_location
from postroom.store import blobs as stored_blobs
from postroom.store import health, schema_migrations
from postroom.store.database import open_database
from postroom.store.embedded import binaries
from postroom.vault import Sealer
from postroom.web import listener
from postroom.wiring import documents, secrets, storage

MIN_FREE_BYTES: Final = 200_000_000
LOW_FREE_BYTES: Final = 2_000_000_000
MAX_CLOCK_SKEW_SECONDS: Final = 5


class DoctorCheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class DoctorCheck:
    name: str
    state: DoctorCheckState
    found: str
    remedy: str | None = None


def run_checks() -> Iterator[DoctorCheck]:
    """Every check, one after the other, as soon as each is known."""
    yield check_python()
    try:
        settings = config.load()
    except SettingsError as error:
        yield from (_to_failed_check("settings", line) for line in str(error).splitlines())
        return
    yield DoctorCheck("settings", DoctorCheckState.OK, "every one is right")
    if settings.database_url is None:
        yield check_home(startup.resolve_home(settings))
        yield check_disk(startup.resolve_home(settings))
    yield from check_database(settings)
    yield check_vault(settings)
    if settings.queue != "postgres":
        yield interrupts.run_async(check_queue(settings))
    yield check_listen_address(settings)
    yield check_public_url(settings)


def check_python() -> DoctorCheck:
    system = f"{platform.system()} {platform.machine()}"
    found = f"{platform.python_implementation()} {platform.python_version()} on {system}"
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
        return DoctorCheck("python", DoctorCheckState.FAIL, found, "Use CPython 3.11 or newer.")
    return DoctorCheck("python", DoctorCheckState.OK, found)


def check_home(path: Path) -> DoctorCheck:
    there = _nearest_existing(path)
    if not there.is_dir() or (there != path and not os.access(there, os.W_OK | os.X_OK)):
        found = f"{path} cannot be made: {there} is no directory that this user may write to"
        return DoctorCheck(
            "home", DoctorCheckState.FAIL, found, "Let this user write there, or set POSTROOM_HOME."
        )
    if there != path:
        return DoctorCheck("home", DoctorCheckState.OK, f"{path} is made at the first start")
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.stat().st_uid != os.geteuid() or not os.access(path, os.W_OK | os.X_OK):
        return DoctorCheck(
            "home",
            DoctorCheckState.FAIL,
            f"{path} belongs to another user",
            "Run as that user, or set POSTROOM_HOME.",
        )
    if mode & 0o077:
        return DoctorCheck(
            "home", DoctorCheckState.WARN, f"{path} is open to other users", f"Run `chmod 700 {path}`."
        )
    return DoctorCheck("home", DoctorCheckState.OK, str(path))


def _nearest_existing(path: Path) -> Path:
    """The path, or the first above it that is there. What this user may not look at is not there."""
    return next(each for each in (path, *path.parents) if os.access(each, os.F_OK))


def check_disk(path: Path) -> DoctorCheck:
    free = shutil.disk_usage(_nearest_existing(path)).free
    found = f"{free / 1e9:.1f} GB free for {path}"
    remedy = "Free some space, or set POSTROOM_HOME to a larger disk."
    if free < MIN_FREE_BYTES:
        return DoctorCheck("disk", DoctorCheckState.FAIL, found, remedy)
    return (
        DoctorCheck("disk", DoctorCheckState.OK, found)
        if free >= LOW_FREE_BYTES
        else DoctorCheck("disk", DoctorCheckState.WARN, found, remedy)
    )


def check_database(settings: Settings) -> Iterator[DoctorCheck]:
    """The server, the schema and the clock. A home that was never started is left alone."""
    try:
        if settings.database_url is None and not os.access(
            startup.resolve_home(settings) / "postgres", os.F_OK
        ):
            found = binaries.find_binaries()
            yield DoctorCheck(
                "database", DoctorCheckState.OK, f"embedded PostgreSQL {found.major}, made at the first start"
            )
            return
        with startup.database_url(settings) as url:
            status = interrupts.run_async(schema_migrations.read_status(url))
            yield check_schema(status)
            if status.current:
                yield from interrupts.run_async(_check_server_and_clock(url))
                yield interrupts.run_async(check_blobs(settings, url))
    except PostroomError as error:
        yield _to_failed_check("database", " ".join(str(error).split()))


def check_schema(status: schema_migrations.SchemaStatus) -> DoctorCheck:
    if status.fault is not None:
        return _to_failed_check("schema", status.fault)
    if not status.current:
        found = f"migrations pending: {len(status.pending)}"
        return DoctorCheck("schema", DoctorCheckState.FAIL, found, "Run `postroom db migrate`.")
    return DoctorCheck("schema", DoctorCheckState.OK, f"current, version {status.applied[-1].version}")


async def _check_server_and_clock(url: str) -> list[DoctorCheck]:
    async with open_database(url, pool_size=3, name=health.process_name("doctor")) as opened:
        found = await health.read_health(opened)
    return [check_server(found.server), check_clock(found.server.now, datetime.now(UTC))]


def check_server(found: health.DatabaseServer) -> DoctorCheck:
    words = f"PostgreSQL {found.version}, {found.connections} of {found.max_connections} connections"
    if found.read_only:
        return DoctorCheck(
            "database",
            DoctorCheckState.FAIL,
            f"{words}, read-only",
            "Point POSTROOM_DATABASE_URL to the primary.",
        )
    if found.connections > 0.9 * found.max_connections:
        remedy = "Raise its max_connections, or lower POSTROOM_DATABASE_POOL_SIZE."
        return DoctorCheck("database", DoctorCheckState.WARN, words, remedy)
    return DoctorCheck("database", DoctorCheckState.OK, words)


def check_clock(theirs: datetime, ours: datetime) -> DoctorCheck:
    apart = abs((theirs - ours).total_seconds())
    found = f"{apart:.1f} s between this machine and the database"
    if apart > MAX_CLOCK_SKEW_SECONDS:
        return DoctorCheck(
            "clock",
            DoctorCheckState.FAIL,
            found,
            "Synchronise both with a time server (chrony, systemd-timesyncd).",
        )
    return DoctorCheck("clock", DoctorCheckState.OK, found)


async def check_blobs(settings: Settings, url: str) -> DoctorCheck:
    """Where bytes are kept, and whether the database knows that place. Makes no directory."""
    name = health.process_name("doctor")
    async with open_database(url, pool_size=3, name=name) as opened, opened.engine() as connection:
        known = await stored_blobs.get_location(connection)
    root = startup.resolve_home(settings) / "check_blobs"
    if settings.blobs == "disk" and not os.access(root, os.F_OK):
        here, words = None, f"{root} is made at the first start"
    else:
        try:
            here = words = await storage.build_blob_store(settings).check()
        except PostroomError as error:
            return _to_failed_check("blobs", str(error))
    if known is not None and known != here:
        found = f"{blob_location.MISMATCH} ({known}, not {here or root})"
        return DoctorCheck("blobs", DoctorCheckState.FAIL, found, blob_location.MISMATCH_REMEDY)
    return DoctorCheck("blobs", DoctorCheckState.OK, words)


def check_vault(settings: Settings) -> DoctorCheck:
    """The keys and, where chosen, AWS. Makes no key and sends nothing."""
    try:
        keys = secrets.build_vault_keys(settings)
        count = len(keys.every())
        secrets.build_vault(settings, Sealer(keys))
    except OperatorError as error:
        return _to_failed_check("vault", str(error))
    found = f"keys in {keys.source}" if count else f"{keys.source} is made at first use"
    return DoctorCheck("vault", DoctorCheckState.OK, found)


async def check_queue(settings: Settings) -> DoctorCheck:
    """Whether the queue outside can be used. Sends and receives nothing."""
    try:
        found = documents.build_queue(settings)
        has_dead_letters = found is None or await found.check()
    except (OperatorError, TransientError) as error:
        return _to_failed_check("queue", str(error))
    if has_dead_letters:
        return DoctorCheck(
            "queue", DoctorCheckState.OK, "Amazon SQS answers, and has a place for dead letters"
        )
    remedy = "Give the queue a redrive policy, so that messages of nobody's end in another one."
    return DoctorCheck(
        "queue", DoctorCheckState.WARN, "Amazon SQS answers, and has no place for dead letters", remedy
    )


def check_listen_address(settings: Settings) -> DoctorCheck:
    try:
        listener.open_socket(settings.host, settings.port).close()
    except OperatorError as error:
        if settings.port and _is_postroom(f"http://{settings.host}:{settings.port}"):
            return DoctorCheck(
                "address", DoctorCheckState.OK, f"Postroom answers on {settings.host} port {settings.port}"
            )
        return _to_failed_check("address", str(error))
    return DoctorCheck("address", DoctorCheckState.OK, f"{settings.host} port {settings.port} is free")


def check_public_url(settings: Settings) -> DoctorCheck:
    if settings.public_url is None:
        remedy = "Set POSTROOM_PUBLIC_URL to the https address of this Postroom, so that providers can push."
        return DoctorCheck(
            "public url", DoctorCheckState.WARN, "not set: new mail is found by the sweep only", remedy
        )
    if _is_postroom(settings.public_url):
        return DoctorCheck("public url", DoctorCheckState.OK, f"{settings.public_url} leads here")
    remedy = "Start `postroom serve` behind it; check DNS, certificate, proxy and firewall."
    return DoctorCheck(
        "public url", DoctorCheckState.WARN, f"no Postroom answers at {settings.public_url} from here", remedy
    )


def _is_postroom(url: str) -> bool:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", f"{parts.path}/healthz")
        answer = connection.getresponse()
        return answer.status == 200 and answer.read(100) == b"alive\n"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _to_failed_check(name: str, words: str) -> DoctorCheck:
    """An error of ours is cause and remedy in sentences; the last one is the remedy."""
    cause, _, remedy = words.rstrip(".").rpartition(". ")
    return DoctorCheck(name, DoctorCheckState.FAIL, cause or remedy, f"{remedy}." if cause else None)
