"""`postroom export`: messages, mail events, documents and records as Parquet files, once or continuously."""

import asyncio
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import progress
from postroom.errors import DatabaseUnavailable, OperatorError, TransientError

if TYPE_CHECKING:
    from postroom.flow.outbound.export import Export
    from postroom.flow.outbound.parquet_files import ExportDirectory, PositionRange
    from postroom.model import OrganizationId
    from postroom.store.database import Database

RETRY_SECONDS = 5
EXAMPLES = """\b
Examples:
  postroom export /srv/lake
  postroom export --follow /srv/lake --interval 600
  duckdb -c "SELECT count(DISTINCT id) FROM '/srv/lake/messages/*.parquet'"

The tables and their columns are described in docs/parquet.md."""


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new events until Ctrl-C.")] = False,
    interval: Annotated[
        float,
        typer.Option(
            min=0.1, max=86400, metavar="SECONDS", help="With --follow: seconds between two exports."
        ),
    ] = 60,
) -> None:
    """Export messages, mail events, documents and records to Parquet files, each row once.

    Run it again to add what has changed: it continues where the newest complete file ends, even after a
    crash.
    """
    from postroom.cli import startup

    parquet_files = load_parquet_files()

    async def act(database: "Database", organization: "OrganizationId") -> None:
        with parquet_files.open_directory(directory) as opened:
            await _export(database, organization, opened, interval if follow else None)

    try:
        startup.run_for_organization(act)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else "unknown error"
        raise OperatorError(
            f"{directory} cannot be written: {reason}. Correct it, or choose another directory."
        ) from None


def load_parquet_files() -> ModuleType:
    try:
        from postroom.flow.outbound import parquet_files
    except ImportError:
        raise OperatorError("Parquet requires pyarrow. Run `pip install 'postroom[parquet]'`.") from None
    return parquet_files


async def _export(
    database: "Database",
    organization: "OrganizationId",
    directory: "ExportDirectory",
    interval: float | None,
) -> None:
    """Write files up to the end of the feed; with an interval, again and again."""
    from postroom.flow.outbound.export import Export

    def report(table: str, positions: "PositionRange", rows: int) -> None:
        progress.print_status(f"{table}/{positions.file_name}: {rows} rows")

    export = Export(database, organization, directory, report)
    if interval is None:
        with progress.spinner("Exporting"):
            await export.write_available()
    else:
        await _follow(export, interval)


async def _follow(export: "Export", interval: float) -> None:
    """Write files until the schema is newer than this version."""
    from postroom.store import schema_migrations

    outdated = asyncio.create_task(schema_migrations.raise_when_newer(export.database))
    is_interrupted = False
    try:
        while True:
            try:
                with progress.spinner("Exporting"):
                    await export.write_available()
                is_interrupted = False
            except (DatabaseUnavailable, TransientError) as error:
                if not is_interrupted:
                    progress.print_status(f"{error} Retrying.")
                is_interrupted = True
            await asyncio.wait([outdated], timeout=RETRY_SECONDS if is_interrupted else interval)
            if outdated.done():
                outdated.result()
    finally:
        outdated.cancel()
