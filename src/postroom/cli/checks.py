"""The checks of `postroom doctor`: each looks at one thing and says what to do when it is wrong."""

import asyncio
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

from postroom import config, wiring
from postroom.cli import opening
from postroom.config import Settings
from postroom.errors import OperatorError, PostroomError, SettingsError, TransientError
from postroom.store import blobs as stored_blobs
from postroom.store import health, migrate
from postroom.store.database import open_database
from postroom.store.embedded import binaries
from postroom.vault import Sealer
from postroom.web import address
from postroom.wiring import documents

FULL_BYTES: Final = 200_000_000
NEARLY_FULL_BYTES: Final = 2_000_000_000
CLOCK_SECONDS: Final = 5


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    name: str
    state: State
    found: str
    remedy: str | None = None


def run() -> Iterator[Check]:
    """Every check, one after the other, as soon as each is known."""
    yield python()
    try:
        settings = config.load()
    except SettingsError as error:
        yield from (_failed("settings", line) for line in str(error).splitlines())
        return
    yield Check("settings", State.OK, "every one is right")
    if settings.database_url is None:
        yield home(opening.home_of(settings))
        yield disk(opening.home_of(settings))
    yield from database(settings)
    yield vault(settings)
    if settings.queue != "postgres":
        yield asyncio.run(queue(settings))
    yield listening(settings)
    yield public_url(settings)


def python() -> Check:
    system = f"{platform.system()} {platform.machine()}"
    found = f"{platform.python_implementation()} {platform.python_version()} on {system}"
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
        return Check("python", State.FAIL, found, "Use CPython 3.11 or newer.")
    return Check("python", State.OK, found)


def home(path: Path) -> Check:
    there = _nearest(path)
    if not there.is_dir() or (there != path and not os.access(there, os.W_OK | os.X_OK)):
        found = f"{path} cannot be made: {there} is no directory that this user may write to"
        return Check("home", State.FAIL, found, "Let this user write there, or set POSTROOM_HOME.")
    if there != path:
        return Check("home", State.OK, f"{path} is made at the first start")
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.stat().st_uid != os.geteuid() or not os.access(path, os.W_OK | os.X_OK):
        return Check(
            "home", State.FAIL, f"{path} belongs to another user", "Run as that user, or set POSTROOM_HOME."
        )
    if mode & 0o077:
        return Check("home", State.WARN, f"{path} is open to other users", f"Run `chmod 700 {path}`.")
    return Check("home", State.OK, str(path))


def _nearest(path: Path) -> Path:
    """The path, or the first above it that is there. What this user may not look at is not there."""
    return next(each for each in (path, *path.parents) if os.access(each, os.F_OK))


def disk(path: Path) -> Check:
    free = shutil.disk_usage(_nearest(path)).free
    found = f"{free / 1e9:.1f} GB free for {path}"
    remedy = "Free some space, or set POSTROOM_HOME to a larger disk."
    if free < FULL_BYTES:
        return Check("disk", State.FAIL, found, remedy)
    return (
        Check("disk", State.OK, found)
        if free >= NEARLY_FULL_BYTES
        else Check("disk", State.WARN, found, remedy)
    )


def database(settings: Settings) -> Iterator[Check]:
    """The server, the schema and the clock. A home that was never started is left alone."""
    try:
        if settings.database_url is None and not os.access(opening.home_of(settings) / "postgres", os.F_OK):
            found = binaries.find()
            yield Check("database", State.OK, f"embedded PostgreSQL {found.major}, made at the first start")
            return
        with opening.database_url(settings) as url:
            status = asyncio.run(migrate.status(url))
            yield schema(status)
            if status.current:
                yield from asyncio.run(_server(url))
                yield asyncio.run(blobs(settings, url))
    except PostroomError as error:
        yield _failed("database", " ".join(str(error).split()))


def schema(status: migrate.Status) -> Check:
    if status.fault is not None:
        return _failed("schema", status.fault)
    if not status.current:
        found = f"migrations pending: {len(status.pending)}"
        return Check("schema", State.FAIL, found, "Run `postroom db migrate`.")
    return Check("schema", State.OK, f"current, version {status.applied[-1].version}")


async def _server(url: str) -> list[Check]:
    async with open_database(url, pool_size=3, name=health.process_name("doctor")) as opened:
        found = await health.read(opened)
    return [server(found.server), clock(found.server.now, datetime.now(UTC))]


def server(found: health.Server) -> Check:
    words = f"PostgreSQL {found.version}, {found.connections} of {found.max_connections} connections"
    if found.read_only:
        return Check(
            "database", State.FAIL, f"{words}, read-only", "Point POSTROOM_DATABASE_URL to the primary."
        )
    if found.connections > 0.9 * found.max_connections:
        remedy = "Raise its max_connections, or lower POSTROOM_DATABASE_POOL_SIZE."
        return Check("database", State.WARN, words, remedy)
    return Check("database", State.OK, words)


def clock(theirs: datetime, ours: datetime) -> Check:
    apart = abs((theirs - ours).total_seconds())
    found = f"{apart:.1f} s between this machine and the database"
    if apart > CLOCK_SECONDS:
        return Check(
            "clock", State.FAIL, found, "Synchronise both with a time server (chrony, systemd-timesyncd)."
        )
    return Check("clock", State.OK, found)


async def blobs(settings: Settings, url: str) -> Check:
    """Where bytes are kept, and whether the database knows that place. Makes no directory."""
    name = health.process_name("doctor")
    async with open_database(url, pool_size=3, name=name) as opened, opened.engine() as connection:
        known = await stored_blobs.place(connection)
    root = opening.home_of(settings) / "blobs"
    if settings.blobs == "disk" and not os.access(root, os.F_OK):
        here, words = None, f"{root} is made at the first start"
    else:
        try:
            here = words = await wiring.blobs(settings).check()
        except PostroomError as error:
            return _failed("blobs", str(error))
    if known is not None and known != here:
        found = f"{wiring.ELSEWHERE} ({known}, not {here or root})"
        return Check("blobs", State.FAIL, found, wiring.ELSEWHERE_REMEDY)
    return Check("blobs", State.OK, words)


def vault(settings: Settings) -> Check:
    """The keys and, where chosen, AWS. Makes no key and sends nothing."""
    try:
        keys = wiring.vault_keys(settings)
        count = len(keys.every())
        wiring.vault(settings, Sealer(keys))
    except OperatorError as error:
        return _failed("vault", str(error))
    found = f"keys in {keys.source}" if count else f"{keys.source} is made at first use"
    return Check("vault", State.OK, found)


async def queue(settings: Settings) -> Check:
    """Whether the queue outside can be used. Sends and receives nothing."""
    try:
        found = documents.queue_of(settings)
        has_dead_letters = found is None or await found.check()
    except (OperatorError, TransientError) as error:
        return _failed("queue", str(error))
    if has_dead_letters:
        return Check("queue", State.OK, "Amazon SQS answers, and has a place for dead letters")
    remedy = "Give the queue a redrive policy, so that messages of nobody's end in another one."
    return Check("queue", State.WARN, "Amazon SQS answers, and has no place for dead letters", remedy)


def listening(settings: Settings) -> Check:
    try:
        address.listen(settings.host, settings.port).close()
    except OperatorError as error:
        if settings.port and _says_alive(f"http://{settings.host}:{settings.port}"):
            return Check("address", State.OK, f"Postroom answers on {settings.host} port {settings.port}")
        return _failed("address", str(error))
    return Check("address", State.OK, f"{settings.host} port {settings.port} is free")


def public_url(settings: Settings) -> Check:
    if settings.public_url is None:
        remedy = "Set POSTROOM_PUBLIC_URL to the https address of this Postroom, so that providers can push."
        return Check("public url", State.WARN, "not set: new mail is found by the sweep only", remedy)
    if _says_alive(settings.public_url):
        return Check("public url", State.OK, f"{settings.public_url} leads here")
    remedy = "Start `postroom serve` behind it; check DNS, certificate, proxy and firewall."
    return Check("public url", State.WARN, f"no Postroom answers at {settings.public_url} from here", remedy)


def _says_alive(url: str) -> bool:
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


def _failed(name: str, words: str) -> Check:
    """An error of ours is cause and remedy in sentences; the last one is the remedy."""
    cause, _, remedy = words.rstrip(".").rpartition(". ")
    return Check(name, State.FAIL, cause or remedy, f"{remedy}." if cause else None)
