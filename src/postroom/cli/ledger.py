"""`postroom ledger`: what happened, and the proof that nobody changed it."""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.errors import SettingsError

if TYPE_CHECKING:
    from postroom.flow.ledger.seal import LedgerVerification
    from postroom.model import OrganizationId
    from postroom.store.database import Database
    from postroom.store.ledger import LedgerEntry
    from postroom.vault import LedgerKeys

group = typer.Typer(
    name="ledger",
    help="The audit trail: its newest entries, and its proof.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom ledger show --limit 20
  postroom ledger verify""",
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OrganizationOption = Annotated[
    UUID | None,
    typer.Option("--organization", help="Only this one, by its id [default: all]", show_default=False),
]


@group.command(
    epilog="""\b
Examples:
  postroom ledger verify
  postroom ledger verify --head 41:9f2c…  (a head that you kept: shows what was cut off since)
  postroom ledger verify --json | jq '.[].head'"""
)
def verify(
    organization: OrganizationOption = None,
    head: Annotated[
        str | None,
        typer.Option("--head", help="A head that an earlier run printed; it must still be in the ledger."),
    ] = None,
    *,
    json: JsonOption = False,
) -> ExitCode:
    """Compute every digest, chain and signature again. Exit code 1 when the ledger is broken.

    Keep the head that this prints somewhere else: with it, the next run also shows what was cut off the end.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.wiring import secrets

    if head is not None and not re.fullmatch(r"[0-9]+:[0-9a-f]{64}", head):
        raise SettingsError("--head takes a head as this command prints it: number, colon, 64 digits.")
    keys = secrets.build_ledger_keys(config.load())
    proofs = startup.run_with_database(
        lambda database: _verify_organizations(database, keys, organization, head)
    )
    if json:
        output.print_json([{"organization": each, **asdict(proof)} for each, proof in proofs])
    else:
        for each, proof in proofs:
            _print_proof(each, proof)
        if not proofs:
            typer.echo("The ledger is empty.")
    return ExitCode.FAILED if any(proof.faults for _, proof in proofs) else ExitCode.OK


@group.command(
    epilog="""\b
Examples:
  postroom ledger show
  postroom ledger show --limit 200 --json"""
)
def show(
    organization: OrganizationOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="How many entries of each organization.")] = 20,
    *,
    json: JsonOption = False,
) -> None:
    """Show the newest entries, the newest first. Personal values are not shown."""
    from postroom.cli import output, startup

    found = startup.run_with_database(lambda database: _read_newest(database, organization, limit))
    if json:
        output.print_json([_to_json(each, entry) for each, entry in found])
        return
    output.print_table(
        ("WHEN", "EVENT", "ABOUT", "BY", "SEALED"),
        [
            (
                entry.occurred_at.isoformat(sep=" ", timespec="seconds"),
                entry.event_type,
                f"{entry.entity_type} {entry.entity_id}",
                entry.actor_id,
                "yes" if entry.position else "not yet",
            )
            for _, entry in found
        ],
    )


def _print_proof(organization: "OrganizationId", proof: "LedgerVerification") -> None:
    state = "BROKEN" if proof.faults else "whole"
    typer.echo(
        f"{organization}: {state}. {proof.entries} entries in {proof.seals} seals,"
        f" {proof.unsealed} not sealed yet, {proof.purged} with personal values purged."
    )
    for fault in proof.faults:
        typer.echo(f"  {fault}")
    if proof.head:
        typer.echo(f"  head {proof.head}")


def _to_json(organization: "OrganizationId", entry: "LedgerEntry") -> dict[str, object]:
    return {
        "organization": organization,
        "id": entry.id,
        "position": entry.position,
        "occurred_at": entry.occurred_at.isoformat(),
        "event_type": entry.event_type,
        "entity_type": entry.entity_type,
        "entity_id": entry.entity_id,
        "actor_id": entry.actor_id,
        "payload": entry.payload,
    }


async def _verify_organizations(
    database: "Database", keys: "LedgerKeys", organization: UUID | None, head: str | None
) -> "list[tuple[OrganizationId, LedgerVerification]]":
    from postroom.flow.ledger import seal

    found = await _select_organizations(database, organization)
    if head is not None and len(found) > 1:
        raise SettingsError("A head belongs to one organization. Say which one with --organization.")
    return [(each, await seal.verify(database, each, keys.check, head=head)) for each in found]


async def _read_newest(
    database: "Database", organization: UUID | None, limit: int
) -> "list[tuple[OrganizationId, LedgerEntry]]":
    from postroom.store import ledger

    found: list[tuple[OrganizationId, LedgerEntry]] = []
    for each in await _select_organizations(database, organization):
        async with database.transaction(each) as connection:
            found += [(each, entry) for entry in await ledger.list_newest(connection, limit=limit)]
    return sorted(found, key=lambda pair: pair[1].occurred_at, reverse=True)


async def _select_organizations(database: "Database", only: UUID | None) -> "list[OrganizationId]":
    from postroom.store import organizations

    async with database.engine() as connection:
        found = await organizations.list_ids(connection)
    if only is None:
        return found
    if only not in found:
        raise SettingsError(f"There is no organization {only}.")
    return [each for each in found if each == only]
