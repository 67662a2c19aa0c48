"""Run PostgreSQL's programs for an operator: psql, pg_dump for backups, pg_restore to restore one.

The connection is passed in the environment, never on the command line, which every user can read.
"""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from psycopg import pq

from postroom.errors import OperatorError
from postroom.store import number_source, roles, shared_state_backup
from postroom.store.connection import Connection, check_url, connect
from postroom.store.database_errors import translate_errors
from postroom.store.embedded import binaries

_TLS_MODES = {"require", "verify-ca", "verify-full"}
_CUSTOM_FORMAT = b"PGDMP"
_PSQL_FOR_SCRIPTS = [
    "--no-psqlrc",
    "--quiet",
    "--no-password",
    "--set=ON_ERROR_STOP=1",
    "--set=VERBOSITY=terse",
    "--output=/dev/null",
]
_BEGIN = "BEGIN; SET LOCAL lock_timeout = '{}s'; SET LOCAL client_min_messages = warning;\n"
_DROP_SCHEMA = "DROP SCHEMA IF EXISTS postroom CASCADE;\n"
# Lines of a restore script that the server may not support.
_TIMEOUT_OF_17 = b"SET transaction_timeout = 0;\n"
_CREATE_SCHEMA = b"CREATE SCHEMA postroom;\n"


def run_psql(url: str, arguments: Sequence[str]) -> int:
    """Run psql on this terminal and return its exit code. Ctrl-C reaches psql only."""
    environment = _build_environment(url)
    environment.setdefault("PGOPTIONS", f"--search_path={roles.SCHEMA},public")
    command = [_find_program("psql", environment), *arguments]
    before = signal.signal(signal.SIGINT, _ignore_interrupt)
    try:
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - the operator's arguments
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore_interrupt(number: int, frame: object) -> None:
    """Do nothing. Unlike SIG_IGN, psql does not inherit a handler."""


async def backup(url: str, file: Path, *, overwrite: bool = False) -> None:
    """Write Postroom's data to one file that only its owner can read.

    The file appears only when it is complete and synced to disk.
    """
    _require_writable_path(file, overwrite=overwrite)
    async with await connect(url) as connection:
        await roles.require_owner(connection)
        if (await _inspect_database(connection)).tables == 0:
            raise OperatorError("The database has no Postroom schema yet. Run `postroom db migrate` first.")
        with translate_errors():
            shared = await shared_state_backup.list_dump_options(connection)
    part = file.with_name(f".postroom-{secrets.token_hex(4)}.part")
    with _report_file_errors(f"Cannot write {file}"):
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            await _dump(url, part, shared)
            part.replace(file)
            _sync_directory(file.parent)
        finally:
            part.unlink(missing_ok=True)


def _require_writable_path(file: Path, *, overwrite: bool) -> None:
    if file.is_dir():
        raise OperatorError(f"{file} is a directory. Name a file inside it.")
    if file.exists() and not overwrite:
        raise OperatorError(f"{file} already exists. Choose another name, or pass --overwrite.")


async def restore(url: str, file: Path, *, replace: bool = False, wait_seconds: int = 10) -> None:
    """Restore a backup in one transaction: everything or nothing.

    Refused if the database already holds organizations, unless `replace` is set. Waits at most
    `wait_seconds` for locks of other clients.
    """
    environment = _build_environment(url)
    listing = await _require_backup(file, environment)
    async with await connect(url) as connection:
        await roles.require_owner(connection)
        await roles.ensure(connection)
        holdings = await _inspect_database(connection)
        if holdings.in_use and not replace:
            raise OperatorError(
                "The database already holds data; nothing was changed. Restore into an empty database, "
                "or pass --replace."
            )
        if holdings.tables and not holdings.may_create:
            raise OperatorError(
                "The database role may not replace its schema. Ask a database administrator to run: "
                f"DROP SCHEMA postroom CASCADE; CREATE SCHEMA postroom AUTHORIZATION {connection.info.user};"
            )
        begin, unfit = _BEGIN.format(wait_seconds), set[bytes]()
        if holdings.shared:
            begin += shared_state_backup.DROP_TABLE
        if holdings.may_create:
            begin += _DROP_SCHEMA
        else:
            unfit.add(_CREATE_SCHEMA)
        if connection.info.server_version < 17_0000:
            unfit.add(_TIMEOUT_OF_17)
        chosen = shared_state_backup.filter_restore_list(listing, wanted=not holdings.foreign)
        await _run_restore(file, chosen, environment, begin, unfit)
        with translate_errors():
            await connection.execute("ANALYZE")


@dataclass(frozen=True)
class _DatabaseContents:
    """Postroom's objects in the database. A schema without an organization is not in use.

    The table shared with another scheduler is owned by us (shared), by another role (foreign), or missing.
    """

    tables: int
    in_use: bool
    may_create: bool
    shared: bool
    foreign: bool


async def _inspect_database(connection: Connection) -> _DatabaseContents:
    with translate_errors():
        cursor = await connection.execute(
            """
            SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = 'postroom' AND c.relkind IN ('r', 'p')),
                   to_regclass('postroom.organizations') IS NOT NULL,
                   has_database_privilege(current_database(), 'CREATE')
            """
        )
        tables, known, may_create = await cursor.fetchone() or (0, False, False)
        ours, foreign = await shared_state_backup.get_ownership(connection)
        in_use = ours and await shared_state_backup.has_rows(connection)
        if known:
            cursor = await connection.execute("SELECT EXISTS (SELECT FROM postroom.organizations)")
            in_use = in_use or await cursor.fetchone() == (True,)
        return _DatabaseContents(tables, in_use or (tables > 0 and not known), may_create, ours, foreign)


async def _require_backup(file: Path, environment: dict[str, str]) -> str:
    """The file's table of contents. Rejects other files before the database is touched."""
    with _report_file_errors(f"Cannot read {file}"), file.open("rb") as content:
        if content.read(len(_CUSTOM_FORMAT)) != _CUSTOM_FORMAT:
            raise OperatorError(f"{file} was not written by `postroom db backup`. Choose another file.")
    listing = await _run_program(
        "pg_restore", ["--list", _absolute_path(file)], environment, f"{file} is damaged or truncated"
    )
    if b" TABLE postroom schema_migrations " not in listing:
        raise OperatorError(f"{file} is not a backup of Postroom. Choose another file.")
    return listing.decode()


async def _run_restore(
    file: Path, chosen: str, environment: dict[str, str], begin: str, unfit: set[bytes]
) -> None:
    """Execute the chosen entries in one transaction. Without the final COMMIT nothing changes."""
    with (
        tempfile.NamedTemporaryFile() as entries,
        tempfile.TemporaryFile() as source_errors,
        tempfile.TemporaryFile() as target_errors,
    ):
        entries.write(chosen.encode())
        entries.flush()
        script = ["--no-owner", "--file=-", f"--use-list={entries.name}", _absolute_path(file)]
        async with (
            _running_program("pg_restore", script, environment, source_errors) as source,
            _running_program("psql", _PSQL_FOR_SCRIPTS, environment, target_errors) as target,
        ):
            assert source.stdout
            assert target.stdin
            with suppress(BrokenPipeError, ConnectionResetError):
                target.stdin.write(begin.encode())
                await _copy_script(source.stdout, target.stdin, unfit)
                if await source.wait() == 0:
                    missing_table = shared_state_backup.create_missing_table_script()
                    target.stdin.write(f"{missing_table}{number_source.MARK_RESTORED}COMMIT;\n".encode())
                    await target.stdin.drain()
                target.stdin.close()
            failed = await target.wait() != 0
            if source.returncode:
                reason = _extract_reason(_read_text(source_errors))
                raise OperatorError(f"{file} is damaged or truncated ({reason}). Nothing was changed.")
            if failed:
                raise OperatorError(
                    f"The restore failed; nothing was changed: {_extract_reason(_read_text(target_errors))}"
                )


async def _copy_script(source: StreamReader, target: StreamWriter, unfit: set[bytes]) -> None:
    """Copy the script without unsupported lines. Row data may contain anything and is not filtered."""
    while (line := await source.readline()) and not line.startswith(b"COPY "):
        if line not in unfit:
            target.write(line)
            await target.drain()
    target.write(line)
    while chunk := await source.read(1 << 16):
        target.write(chunk)
        await target.drain()


async def _dump(url: str, part: Path, shared: list[str]) -> None:
    options = ["--format=custom", "--no-owner", "--no-password", "--lock-wait-timeout=60s"]
    await _run_program(
        "pg_dump",
        [*options, f"--schema={roles.SCHEMA}", *shared, f"--file={_absolute_path(part)}"],
        _build_environment(url),
        "The backup failed",
    )


async def _run_program(name: str, arguments: list[str], environment: dict[str, str], otherwise: str) -> bytes:
    with tempfile.TemporaryFile() as complaints:
        async with _running_program(name, arguments, environment, complaints) as process:
            output, _ = await process.communicate()
        if process.returncode != 0:
            raise OperatorError(f"{otherwise}: {_extract_reason(_read_text(complaints))}")
        return output


@asynccontextmanager
async def _running_program(
    name: str, arguments: list[str], environment: dict[str, str], complaints: IO[bytes]
) -> AsyncGenerator[Process]:
    """Start a program and kill it at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        _find_program(name, environment),
        *arguments,
        env=environment,
        stdin=PIPE,
        stdout=PIPE,
        stderr=complaints,
        limit=1 << 22,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _build_environment(url: str) -> dict[str, str]:
    """Our environment plus the URL's parts in the variables that PostgreSQL's programs read."""
    check_url(url)
    environment = {name: value for name, value in os.environ.items() if name != "PGSERVICE"}
    for option in pq.Conninfo.parse(url.encode()):
        if option.envvar and option.val is not None:
            environment[option.envvar.decode()] = option.val.decode()
    return environment


def _find_program(name: str, environment: dict[str, str]) -> str:
    """The wheel's program, or the system's if the URL requires TLS, which the wheel lacks."""
    if environment.get("PGSSLMODE") not in _TLS_MODES:
        return binaries.find_binaries().program(name)
    path = shutil.which(name)
    if path is None:
        raise OperatorError(
            f"The database URL requires TLS, which Postroom's own {name} does not support, and this machine "
            "has no other. Install PostgreSQL's client programs (package postgresql-client)."
        )
    return path


def _absolute_path(file: Path) -> str:
    """An absolute path, which no program mistakes for an option."""
    return str(file.absolute())


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(100_000).decode(errors="replace")


def _extract_reason(complaints: str) -> str:
    """The line of a program's output that names the error. Details may quote rows and are left out."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line.lower() or "FATAL:" in line]
    reason = (errors or lines or ["no reason given"])[0]
    if "no encryption" in reason:
        reason += ". Add sslmode=require to the URL."
    if "lock timeout" in reason:
        reason += ". The database is in use: stop Postroom's other processes."
    return reason


@contextmanager
def _report_file_errors(what: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise OperatorError(f"{what}: {error.strerror}") from error


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
