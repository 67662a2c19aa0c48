"""The checks of `postroom doctor`. Each checks one thing and changes nothing.

They return results; `doctor` prints them.
"""

import http.client
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from postroom import config, interrupts
from postroom.blobs.disk import RESERVED_BYTES
from postroom.cli import notice_checks, notification_checks, startup
from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState
from postroom.config import Settings
from postroom.documents.sandbox.confinement import Confinement, Measure
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import OperatorError, PostroomError, SettingsError, TransientError, UnreadableFile
from postroom.flow.mailboxes import mailbox_health
from postroom.flow.storage import blob_location, sender_quota, storage_limit
from postroom.model import MailboxHealth, OrganizationId
from postroom.store import blobs as stored_blobs
from postroom.store import health, mailboxes, number_source, parked_work, roles, schema_migrations
from postroom.store import mailbox_health as stored_health
from postroom.store.connection import connect, is_pooled
from postroom.store.embedded import binaries, server_account
from postroom.store.embedded.database_home import DatabaseHome, account_name
from postroom.vault import Sealer
from postroom.web import listener
from postroom.wiring import documents, secrets, storage
from postroom.wiring.database import open_process_database

LOW_FREE_BYTES: Final = 2_000_000_000
MAX_CLOCK_SKEW_SECONDS: Final = 5
_NEWER_KERNEL: Final = "Use Linux 5.13 or newer, and a container runtime that does not hide its features."
_CONFINEMENT_REMEDIES: Final[Mapping[Measure, str]] = {
    Measure.NO_NEW_PRIVILEGES: _NEWER_KERNEL,
    Measure.HIDDEN_MEMORY: _NEWER_KERNEL,
    Measure.OWN_USER: "Run Postroom as an ordinary user, or grant it CAP_SETUID and CAP_SETGID.",
    Measure.LANDLOCK: f"{_NEWER_KERNEL} Add landlock to the kernel parameter lsm=.",
    Measure.SECCOMP: "Use x86_64 or aarch64, and a kernel and container runtime that permit seccomp filters.",
}


def run_checks() -> Iterator[DoctorCheck]:
    """Run all checks in order and yield each result as soon as it is known."""
    yield check_python()
    try:
        settings = config.load()
    except SettingsError as error:
        yield from (_to_failed_check("settings", line) for line in str(error).splitlines())
        return
    yield DoctorCheck("settings", DoctorCheckState.OK, "valid")
    yield interrupts.run_async(check_sandbox())
    if settings.database_url is None:
        yield check_home(startup.resolve_home(settings))
        yield check_disk(startup.resolve_home(settings))
        if (account := check_account(startup.resolve_home(settings))) is not None:
            yield account
    yield from check_database(settings)
    yield check_vault(settings)
    if settings.queue != "postgres":
        yield interrupts.run_async(check_queue(settings))
    yield check_listen_address(settings)
    yield check_public_url(settings)
    if (proof := notification_checks.check_push_proof(settings)) is not None:
        yield proof
    if (gmail := notification_checks.check_gmail(settings)) is not None:
        yield gmail


def check_python() -> DoctorCheck:
    system = f"{platform.system()} {platform.machine()}"
    found = f"{platform.python_implementation()} {platform.python_version()} on {system}"
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
        return DoctorCheck("python", DoctorCheckState.FAIL, found, "Use CPython 3.11 or newer.")
    return DoctorCheck("python", DoctorCheckState.OK, found)


async def check_sandbox() -> DoctorCheck:
    """Start a document process and report how the kernel confines it."""
    if sys.platform != "linux":
        found = f"documents cannot be read on {sys.platform}"
        return DoctorCheck("sandbox", DoctorCheckState.FAIL, found, "Run Postroom on Linux.")
    try:
        async with FileSandbox(parallel=1) as sandbox:
            confinement = await sandbox.check_confinement()
    except (TransientError, UnreadableFile) as error:
        return _to_failed_check("sandbox", str(error))
    return describe_confinement(confinement, is_root=os.geteuid() == 0)


def describe_confinement(confinement: Confinement, *, is_root: bool) -> DoctorCheck:
    """Name the measures in force, and warn about those that this kernel or container refused."""
    details = {Measure.LANDLOCK: f" ABI {confinement.landlock_version}"}
    in_force = [f"{measure}{details.get(measure, '')}" for measure in confinement.measures]
    found = (
        f"document processes have {', '.join((*in_force, f'uid {confinement.uid}'))}, no separate namespaces"
    )
    missing = [
        measure
        for measure in Measure
        if measure not in confinement.measures and (is_root or measure is not Measure.OWN_USER)
    ]
    if not missing:
        return DoctorCheck("sandbox", DoctorCheckState.OK, found)
    return DoctorCheck(
        "sandbox",
        DoctorCheckState.WARN,
        f"{found}; not enforced: {', '.join(missing)}",
        " ".join(dict.fromkeys(_CONFINEMENT_REMEDIES[measure] for measure in missing)),
    )


def check_home(path: Path) -> DoctorCheck:
    existing = _nearest_existing(path)
    if not existing.is_dir() or (existing != path and not os.access(existing, os.W_OK | os.X_OK)):
        found = f"{path} cannot be created: {existing} is not a directory this user may write to"
        return DoctorCheck(
            "home", DoctorCheckState.FAIL, found, "Grant this user write access, or set POSTROOM_HOME."
        )
    if existing != path:
        return DoctorCheck("home", DoctorCheckState.OK, f"{path} will be created on first start")
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
            "home", DoctorCheckState.WARN, f"{path} is accessible to other users", f"Run `chmod 700 {path}`."
        )
    return DoctorCheck("home", DoctorCheckState.OK, str(path))


def _nearest_existing(path: Path) -> Path:
    """The path, or its nearest parent that exists and is visible to this user."""
    return next(candidate for candidate in (path, *path.parents) if os.access(candidate, os.F_OK))


def check_account(path: Path) -> DoctorCheck | None:
    """Check that no other service shares the account of the embedded server. None if there is no account."""
    home = DatabaseHome(Path(os.path.realpath(path)) / "postgres")
    try:
        account = server_account.choose_account(home)
    except PostroomError:
        return None  # the check of the database explains it
    name = account_name(account.uid)
    found = f"the embedded database runs as {name}, and every process of {name} can read the mail in it"
    others = server_account.count_other_processes(account, home) if account.is_other else 0
    if name not in server_account.SHARED_ACCOUNTS and not others:
        return DoctorCheck("account", DoctorCheckState.OK, found)
    found += f"; other processes of {name} now: {others}" if others else "; other services use this account"
    if account.is_other:
        remedy = (
            "Create an account for Postroom (`useradd --system postroom`). If the database exists, stop "
            f"Postroom and run `chown -R postroom {home.data}`."
        )
    else:
        remedy = "Run Postroom as a user of its own, or set POSTROOM_DATABASE_URL."
    return DoctorCheck("account", DoctorCheckState.WARN, found, remedy)


def check_disk(path: Path) -> DoctorCheck:
    free = shutil.disk_usage(_nearest_existing(path)).free
    found = f"{free / 1e9:.1f} GB free for {path}"
    remedy = "Free some space, or move POSTROOM_HOME to a larger disk."
    if free < RESERVED_BYTES:
        return DoctorCheck("disk", DoctorCheckState.FAIL, found, remedy)
    return (
        DoctorCheck("disk", DoctorCheckState.OK, found)
        if free >= LOW_FREE_BYTES
        else DoctorCheck("disk", DoctorCheckState.WARN, found, remedy)
    )


def check_database(settings: Settings) -> Iterator[DoctorCheck]:
    """Check schema, server, clock and blobs.

    An embedded server that never ran is not created.
    """
    try:
        if settings.database_url is None and not os.access(
            startup.resolve_home(settings) / "postgres", os.F_OK
        ):
            server = binaries.find_binaries()
            yield DoctorCheck(
                "database",
                DoctorCheckState.OK,
                f"embedded PostgreSQL {server.major}, to be created on first start",
            )
            return
        with startup.database_url(settings) as url:
            status = interrupts.run_async(schema_migrations.read_status(url))
            yield check_schema(status)
            if status.current:
                yield from interrupts.run_async(_check_server_and_clock(settings, url))
                yield interrupts.run_async(check_login(url))
                if (failover := interrupts.run_async(check_failover(settings, url))) is not None:
                    yield failover
                if (pooler := interrupts.run_async(check_pooler(settings, url))) is not None:
                    yield pooler
                yield interrupts.run_async(check_blobs(settings, url))
                if (storage_use := interrupts.run_async(check_storage(settings, url))) is not None:
                    yield storage_use
                if (senders := interrupts.run_async(check_senders(settings, url))) is not None:
                    yield senders
                yield interrupts.run_async(check_mailboxes(settings, url))
                if (notices := interrupts.run_async(notice_checks.check_notices(settings, url))) is not None:
                    yield notices
    except PostroomError as error:
        yield _to_failed_check("database", " ".join(str(error).split()))


def check_schema(status: schema_migrations.SchemaStatus) -> DoctorCheck:
    if status.fault is not None:
        return _to_failed_check("schema", status.fault)
    if not status.current:
        found = f"pending migrations: {len(status.pending)}"
        return DoctorCheck("schema", DoctorCheckState.FAIL, found, "Run `postroom db migrate`.")
    return DoctorCheck("schema", DoctorCheckState.OK, f"current, version {status.applied[-1].version}")


async def _check_server_and_clock(settings: Settings, url: str) -> list[DoctorCheck]:
    async with open_process_database(settings, url, "doctor") as opened:
        server = (await health.read_health(opened)).server
    return [check_server(server), check_clock(server.now, datetime.now(UTC))]


async def check_login(url: str) -> DoctorCheck:
    """Check that the role of the URL cannot leave row-level security."""
    async with await connect(url, name=health.process_name("doctor")) as connection:
        role, risk = connection.info.user, await roles.find_login_risk(connection)
    if risk is None:
        return DoctorCheck("login", DoctorCheckState.OK, f"the database role {role} owns nothing")
    found = f"the database role {role} {risk}: row-level security does not bind it"
    remedy = "Let Postroom log in as a role that owns nothing; see docs/how-to/database.md."
    return DoctorCheck("login", DoctorCheckState.WARN, found, remedy)


async def check_failover(settings: Settings, url: str) -> DoctorCheck | None:
    """Check that processes notice a failover. None if they do."""
    async with open_process_database(settings, url, "doctor") as opened, opened.engine() as engine:
        if await number_source.can_identify_server(engine):
            return None
    found = "processes do not notice a failover: the owner of the schema may not identify the server"
    remedy = (
        "Grant it EXECUTE on pg_control_system(), or run `postroom db recovered` after each failover that "
        "lost commits."
    )
    return DoctorCheck("failover", DoctorCheckState.WARN, found, remedy)


async def check_pooler(settings: Settings, url: str) -> DoctorCheck | None:
    """Check, behind a connection pooler, that LISTEN, migrations and backups can go past it."""
    if not await _is_pooled(url):
        return None
    found = "POSTROOM_DATABASE_URL leads to a connection pooler"
    direct, owner = settings.database_direct_url, settings.database_owner_url
    if direct is None:
        remedy = "Set POSTROOM_DATABASE_DIRECT_URL to the server itself; see docs/scaling.md."
        return DoctorCheck("pooler", DoctorCheckState.WARN, f"{found}: processes poll for changes", remedy)
    for name, past in (("DIRECT", direct), ("OWNER", owner)):
        if past is not None and await _is_pooled(past.reveal()):
            remedy = f"Set POSTROOM_DATABASE_{name}_URL to the server itself; see docs/scaling.md."
            found += f", and so does POSTROOM_DATABASE_{name}_URL"
            return DoctorCheck("pooler", DoctorCheckState.FAIL, found, remedy)
    return DoctorCheck("pooler", DoctorCheckState.OK, f"{found}; LISTEN, migrations and backups go past it")


async def _is_pooled(url: str) -> bool:
    async with await connect(url, name=health.process_name("doctor")) as connection:
        return await is_pooled(connection)


def check_server(server: health.DatabaseServer) -> DoctorCheck:
    found = f"PostgreSQL {server.version}, {server.connections} of {server.max_connections} connections used"
    if server.read_only:
        return DoctorCheck(
            "database",
            DoctorCheckState.FAIL,
            f"{found}, read-only",
            "Set POSTROOM_DATABASE_URL to the primary server.",
        )
    if server.connections > 0.9 * server.max_connections:
        remedy = "Raise its max_connections, or lower POSTROOM_DATABASE_POOL_SIZE."
        return DoctorCheck("database", DoctorCheckState.WARN, found, remedy)
    return DoctorCheck("database", DoctorCheckState.OK, found)


def check_clock(database_time: datetime, local_time: datetime) -> DoctorCheck:
    skew = abs((database_time - local_time).total_seconds())
    found = f"{skew:.1f} s difference between this machine and the database"
    if skew > MAX_CLOCK_SKEW_SECONDS:
        return DoctorCheck(
            "clock",
            DoctorCheckState.FAIL,
            found,
            "Synchronize both clocks with NTP (chrony, systemd-timesyncd).",
        )
    return DoctorCheck("clock", DoctorCheckState.OK, found)


async def check_blobs(settings: Settings, url: str) -> DoctorCheck:
    """Check that blobs are where the database expects them. Creates no directory."""
    async with open_process_database(settings, url, "doctor") as opened, opened.engine() as connection:
        expected = await stored_blobs.get_location(connection)
    root = startup.resolve_home(settings) / "blobs"
    if settings.blobs == "disk" and not os.access(root, os.F_OK):
        location, found = None, f"{root} will be created on first start"
    else:
        try:
            location = found = await storage.build_blob_store(settings).check()
        except PostroomError as error:
            return _to_failed_check("blobs", str(error))
    if expected is not None and expected != location:
        found = f"{blob_location.MISMATCH} ({expected}, not {location or root})"
        return DoctorCheck("blobs", DoctorCheckState.FAIL, found, blob_location.MISMATCH_REMEDY)
    return DoctorCheck("blobs", DoctorCheckState.OK, found)


async def check_storage(settings: Settings, url: str) -> DoctorCheck | None:
    """Report organizations that are at their storage limit or close to it, if there is one."""
    if settings.organization_storage_gb is None:
        return None
    async with open_process_database(settings, url, "doctor") as opened:
        used = await storage_limit.list_use(opened)
    max_bytes = settings.organization_storage_gb * 1e9
    close = [f"{each} uses {size / 1e9:,.2f} GB" for each, size in used if size > 0.9 * max_bytes]
    limit = f"of {settings.organization_storage_gb:,.2f} GB"
    if not close:
        return DoctorCheck("storage", DoctorCheckState.OK, f"every organization uses less than 90 % {limit}")
    is_full = any(size >= max_bytes for _, size in used)
    state = DoctorCheckState.FAIL if is_full else DoctorCheckState.WARN
    return DoctorCheck("storage", state, f"{', '.join(close)} {limit}", storage_limit.REMEDY)


async def check_senders(settings: Settings, url: str) -> DoctorCheck | None:
    """Report how many senders have used up their storage quota, without naming them."""
    if settings.sender_storage_gb is None:
        return None
    async with open_process_database(settings, url, "doctor") as opened:
        full = await sender_quota.count_full(opened, int(settings.sender_storage_gb * 1e9))
    quota = f"quota of {settings.sender_storage_gb:,.2f} GB"
    if not full:
        return DoctorCheck("senders", DoctorCheckState.OK, f"every sender is below its {quota}")
    found = f"senders that have used up their {quota}: {full}. Their new attachments are not stored"
    return DoctorCheck(
        "senders",
        DoctorCheckState.WARN,
        found,
        f"See `postroom blobs senders` and `postroom failures list`. {sender_quota.REMEDY}",
    )


async def check_mailboxes(settings: Settings, url: str) -> DoctorCheck:
    """Report mailboxes that are unhealthy, paused or have parked work. Asks no provider."""
    async with (
        open_process_database(settings, url, "doctor") as opened,
        opened.transaction(OrganizationId(settings.organization)) as connection,
    ):
        causes = await stored_health.count_by_cause(connection)
        connected = [each for each in await mailboxes.list_all(connection) if each.disconnected_at is None]
        ids = {str(mailbox.id) for mailbox in connected}
        parked = [each for each in await parked_work.list_parked(connection) if each.subject in ids]
    paused = sum(mailbox.paused_at is not None for mailbox in connected)
    described = [(mailbox_health.DESCRIPTIONS[each.cause], each) for each in causes]
    findings = [
        f"{each.mailboxes} {description.name.lower()} since {each.since:%Y-%m-%d %H:%M} UTC"
        for description, each in described
    ]
    findings += [f"{paused} paused"] if paused else []
    kinds = ", ".join(sorted({each.kind for each in parked}))
    findings += [f"work parked: {kinds}"] if parked else []
    found = f"{len(connected)} connected; {', '.join(findings) or 'all healthy'}"
    if not causes and not parked:
        return DoctorCheck("mailboxes", DoctorCheckState.OK, found)
    remedies = [description.remedy for description, _ in described]
    remedies += (
        ["Run `postroom parked-work list`, fix the cause, then run `postroom parked-work retry`."]
        if parked
        else []
    )
    is_blocked = any(each.cause.health is MailboxHealth.OPERATOR_ERROR for each in causes)
    return DoctorCheck(
        "mailboxes",
        DoctorCheckState.FAIL if is_blocked else DoctorCheckState.WARN,
        found,
        " ".join(dict.fromkeys(remedies)),
    )


def check_vault(settings: Settings) -> DoctorCheck:
    """Check the vault's keys and, if configured, AWS access.

    Creates no key and sends nothing.
    """
    try:
        keys = secrets.build_vault_keys(settings)
        count = len(keys.list_all())
        secrets.build_vault(settings, Sealer(keys))
    except OperatorError as error:
        return _to_failed_check("vault", str(error))
    found = f"keys in {keys.source}" if count else f"{keys.source} will be created on first use"
    return DoctorCheck("vault", DoctorCheckState.OK, found)


async def check_queue(settings: Settings) -> DoctorCheck:
    """Check that the SQS queue is usable. Sends and receives nothing."""
    try:
        queue = documents.build_queue(settings)
        has_dead_letter_queue = queue is None or await queue.check()
    except (OperatorError, TransientError) as error:
        return _to_failed_check("queue", str(error))
    if has_dead_letter_queue:
        return DoctorCheck(
            "queue", DoctorCheckState.OK, "Amazon SQS is reachable and has a dead-letter queue"
        )
    remedy = "Add a redrive policy, so that foreign messages move to a dead-letter queue."
    return DoctorCheck(
        "queue", DoctorCheckState.WARN, "Amazon SQS is reachable but has no dead-letter queue", remedy
    )


def check_listen_address(settings: Settings) -> DoctorCheck:
    try:
        listener.open_socket(settings.host, settings.port).close()
    except OperatorError as error:
        if settings.port and _is_postroom(f"http://{settings.host}:{settings.port}"):
            return DoctorCheck(
                "address", DoctorCheckState.OK, f"Postroom is running on {settings.host} port {settings.port}"
            )
        return _to_failed_check("address", str(error))
    return DoctorCheck("address", DoctorCheckState.OK, f"{settings.host} port {settings.port} is free")


def check_public_url(settings: Settings) -> DoctorCheck:
    if settings.public_url is None:
        remedy = (
            "Set POSTROOM_PUBLIC_URL to the https URL of this Postroom, so that people can sign in and"
            " providers can push."
        )
        outlook = notification_checks.check_outlook(settings).found
        return DoctorCheck("public url", DoctorCheckState.WARN, f"not set; Microsoft 365: {outlook}", remedy)
    if _is_postroom(settings.public_url):
        return DoctorCheck("public url", DoctorCheckState.OK, f"{settings.public_url} reaches Postroom")
    remedy = "Start `postroom serve` there; check DNS, certificate, proxy and firewall."
    return DoctorCheck(
        "public url", DoctorCheckState.WARN, f"Postroom does not respond at {settings.public_url}", remedy
    )


def _is_postroom(url: str) -> bool:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", f"{parts.path}/healthz")
        response = connection.getresponse()
        return response.status == 200 and response.read(100) == b"alive\n"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _to_failed_check(name: str, message: str) -> DoctorCheck:
    """Split an error message into cause and remedy. The remedy is its last sentence."""
    cause, _, remedy = message.rstrip(".").rpartition(". ")
    return DoctorCheck(name, DoctorCheckState.FAIL, cause or remedy, f"{remedy}." if cause else None)
