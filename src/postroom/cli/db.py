"""`postroom db`: migrations, psql, backup, restore, and recovery after the database lost commits.

`store.schema_migrations` and `store.pg_programs` do the work.
"""

from pathlib import Path
from typing import Annotated

import typer

from postroom import interrupts
from postroom.cli import progress
from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption

group = typer.Typer(
    name="db",
    help="Migrate, inspect, back up and restore the database.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom db migrate
  postroom db backup postroom.dump""",
)


@group.command(
    epilog="""\b
Examples:
  postroom db migrate
  POSTROOM_DATABASE_URL=postgresql://postroom@db.example/postroom postroom db migrate"""
)
def migrate() -> None:
    """Migrate the schema to the version this Postroom needs.

    Safe to run at any time, even concurrently.
    """
    from postroom import config
    from postroom.cli import startup
    from postroom.store import schema_migrations as schema

    with startup.database_urls(config.load()) as urls:
        applied = interrupts.run_async(schema.migrate(urls.owner, startup.print_migration))
    typer.echo(f"The schema is current; migrations applied: {len(applied)}.")


@group.command(
    epilog="""\b
Examples:
  postroom db status
  postroom db status --json || postroom db migrate"""
)
def status(*, json: JsonOption = False) -> ExitCode:
    """List applied and pending migrations. Exit code 1 if the schema is not current."""
    from postroom import config
    from postroom.cli import output, startup
    from postroom.store import schema_migrations as schema

    with startup.database_urls(config.load()) as urls:
        result = interrupts.run_async(schema.read_status(urls.owner))
    rows = [(migration.version, migration.name, migration.applied_at) for migration in result.applied]
    rows += [(migration.version, migration.name, None) for migration in result.pending]
    if json:
        migrations = [{"version": n, "name": name, "applied_at": at} for n, name, at in rows]
        output.print_json(
            {
                "current": result.current,
                "fault": result.fault,
                "missing_roles": result.missing_roles,
                "migrations": migrations,
            }
        )
    else:
        output.print_table(
            ("VERSION", "NAME", "APPLIED"), [(n, name, at or "pending") for n, name, at in rows]
        )
        verdict = "current." if result.current else "not current. Run `postroom db migrate`."
        typer.echo(result.fault or f"The schema is {verdict}")
    return ExitCode.OK if result.current else ExitCode.FAILED


@group.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="""\b
Examples:
  postroom db psql
  postroom db psql -c 'SELECT kind, count(*) FROM work GROUP BY kind'""",
)
def psql(context: typer.Context) -> int:
    """Open psql on the database. Further arguments are passed to psql."""
    from postroom import config
    from postroom.cli import startup
    from postroom.store import pg_programs

    with startup.database_urls(config.load()) as urls:
        return pg_programs.run_psql(urls.owner, context.args)


@group.command(
    epilog="""\b
Examples:
  postroom db backup postroom.dump
  postroom db backup --overwrite /backups/postroom.dump"""
)
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup file to write.", show_default=False)],
    *,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Back up the whole database to one file. Postroom may keep running."""
    from postroom import config
    from postroom.cli import startup
    from postroom.store import pg_programs

    with startup.database_urls(config.load()) as urls, progress.spinner("Backing up"):
        interrupts.run_async(pg_programs.backup(urls.owner, file, overwrite=overwrite))
    typer.echo(f"Backed up to {file}.")


@group.command(
    epilog="""\b
Examples:
  postroom db restore postroom.dump
  POSTROOM_HOME=/srv/postroom-new postroom db restore postroom.dump"""
)
def restore(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Backup file written by `postroom db backup`.", show_default=False
        ),
    ],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete the current contents of the database first.")
    ] = False,
) -> None:
    """Restore a backup completely, or change nothing if it fails.

    Stop Postroom first.
    """
    from postroom import config
    from postroom.cli import startup
    from postroom.store import pg_programs

    with startup.database_urls(config.load()) as urls, progress.spinner("Restoring"):
        interrupts.run_async(pg_programs.restore(urls.owner, file, replace=replace))
    typer.echo(f"Restored from {file}.")


@group.command(
    epilog="""\b
Examples:
  postroom db recovered"""
)
def recovered() -> None:
    """Recover after the database lost commits.

    After a failover, or after `postroom db restore`, Postroom does this automatically. Run it if you restored
    the server's files, for example from a snapshot of its disk. All IDs and feed positions move ahead, so
    that none is issued twice. Programs that follow the feed start over. Every mailbox is synced now and
    audited within an hour, and the ledger records it.
    """
    from postroom import config
    from postroom.cli import startup
    from postroom.store import number_source
    from postroom.wiring.database import open_process_database

    settings = config.load()

    async def move_ahead(url: str) -> None:
        await startup.require_ready_database(url)
        async with (
            open_process_database(settings, url, "db recovered") as database,
            database.engine() as engine,
        ):
            await number_source.move_ahead(engine)

    with startup.database_url(settings) as url:
        interrupts.run_async(move_ahead(url))
    typer.echo(
        "IDs and feed positions moved ahead. Workers sync every mailbox now and audit it within an hour."
    )
