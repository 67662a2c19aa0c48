"""`postroom db`: the schema, a prompt, backup and restore."""

from pathlib import Path
from typing import Annotated

import typer

from postroom import interrupts
from postroom.cli.exit_codes import ExitCode

group = typer.Typer(
    name="db",
    help="The database: schema, prompt, backup, restore.",
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
    """Bring the schema to what this Postroom needs. Safe to run at any time, by many at once."""
    from postroom import config
    from postroom.cli import startup
    from postroom.store import schema_migrations as schema

    with startup.database_url(config.load()) as url:
        applied = interrupts.run_async(
            schema.migrate(url, lambda each: startup.say(f"applying {each.version:04} {each.name}"))
        )
    typer.echo(f"{len(applied)} applied; the schema is current." if applied else "The schema is current.")


@group.command(
    epilog="""\b
Examples:
  postroom db status
  postroom db status --json || postroom db migrate"""
)
def status(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> ExitCode:
    """Say which migrations are applied and which are pending. Exit code 1 when the schema is not current."""
    from postroom import config
    from postroom.cli import output, startup
    from postroom.store import schema_migrations as schema

    with startup.database_url(config.load()) as url:
        found = interrupts.run_async(schema.read_status(url))
    rows = [(each.version, each.name, each.applied_at) for each in found.applied]
    rows += [(each.version, each.name, None) for each in found.pending]
    if json:
        migrations = [{"version": n, "name": name, "applied_at": at} for n, name, at in rows]
        output.print_json(
            {
                "current": found.current,
                "fault": found.fault,
                "missing_roles": found.missing_roles,
                "migrations": migrations,
            }
        )
    else:
        output.print_table(
            ("VERSION", "NAME", "APPLIED"), [(n, name, at or "pending") for n, name, at in rows]
        )
        verdict = "current." if found.current else "not current. Run `postroom db migrate`."
        typer.echo(found.fault or f"The schema is {verdict}")
    return ExitCode.OK if found.current else ExitCode.FAILED


@group.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="""\b
Examples:
  postroom db psql
  postroom db psql -c 'SELECT kind, count(*) FROM work GROUP BY kind'""",
)
def psql(context: typer.Context) -> int:
    """Open PostgreSQL's prompt on the database, or hand it any of its own arguments."""
    from postroom import config
    from postroom.cli import startup
    from postroom.store import pg_programs

    with startup.database_url(config.load()) as url:
        return pg_programs.run_psql(url, context.args)


@group.command(
    epilog="""\b
Examples:
  postroom db backup postroom.dump
  postroom db backup --overwrite /backups/postroom.dump"""
)
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    *,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Write everything in the database to one file. Postroom may run meanwhile."""
    from postroom import config
    from postroom.cli import startup
    from postroom.store import pg_programs

    with startup.database_url(config.load()) as url, startup.busy("writing the backup"):
        interrupts.run_async(pg_programs.backup(url, file, overwrite=overwrite))
    typer.echo(f"Written to {file}.")


@group.command(
    epilog="""\b
Examples:
  postroom db restore postroom.dump
  POSTROOM_HOME=/srv/postroom-new postroom db restore postroom.dump"""
)
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `postroom db backup` wrote.", show_default=False)],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace what the database holds; it is lost.")
    ] = False,
) -> None:
    """Bring back a backup, everything or nothing. Stop Postroom first."""
    from postroom import config
    from postroom.cli import startup
    from postroom.store import pg_programs

    with startup.database_url(config.load()) as url, startup.busy("restoring"):
        interrupts.run_async(pg_programs.restore(url, file, replace=replace))
    typer.echo(f"Restored from {file}.")
