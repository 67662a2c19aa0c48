"""`postroom db`: the schema of the database."""

import asyncio
from typing import Annotated

import typer

from postroom.cli.exits import Exit

group = typer.Typer(name="db", help="The database: schema, prompt, backup, restore.", no_args_is_help=True)


@group.command(
    epilog="""\b
Examples:
  postroom db migrate
  POSTROOM_DATABASE_URL=postgresql://postroom@db.example/postroom postroom db migrate"""
)
def migrate() -> None:
    """Bring the schema to what this Postroom needs. Safe to run at any time, by many at once."""
    from postroom import config
    from postroom.cli import opening
    from postroom.store import migrate as schema

    with opening.database_url(config.load()) as url:
        applied = asyncio.run(
            schema.migrate(url, lambda each: opening.say(f"applying {each.version:04} {each.name}"))
        )
    typer.echo(f"{len(applied)} applied; the schema is current." if applied else "The schema is current.")


@group.command(
    epilog="""\b
Examples:
  postroom db status
  postroom db status --json || postroom db migrate"""
)
def status(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> Exit:
    """Say which migrations are applied and which are pending. Exit code 1 when the schema is not current."""
    from postroom import config
    from postroom.cli import opening, output
    from postroom.store import migrate as schema

    with opening.database_url(config.load()) as url:
        found = asyncio.run(schema.status(url))
    rows = [(each.version, each.name, each.applied_at) for each in found.applied]
    rows += [(each.version, each.name, None) for each in found.pending]
    if json:
        migrations = [{"version": n, "name": name, "applied_at": at} for n, name, at in rows]
        output.as_json(
            {
                "current": found.current,
                "fault": found.fault,
                "missing_roles": found.missing_roles,
                "migrations": migrations,
            }
        )
    else:
        output.table(("VERSION", "NAME", "APPLIED"), [(n, name, at or "pending") for n, name, at in rows])
        verdict = "current." if found.current else "not current. Run `postroom db migrate`."
        typer.echo(found.fault or f"The schema is {verdict}")
    return Exit.OK if found.current else Exit.FAILED
