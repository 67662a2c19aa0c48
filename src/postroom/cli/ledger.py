"""`postroom ledger`: show and verify the audit trail.

`flow.ledger.verification` verifies.
"""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption
from postroom.errors import SettingsError

if TYPE_CHECKING:
    from postroom.flow.ledger.verification import LedgerVerification
    from postroom.model import OrganizationId
    from postroom.store.database import Database
    from postroom.store.ledger import LedgerEntry
    from postroom.vault import LedgerHeads, LedgerKeys

group = typer.Typer(
    name="ledger",
    help="Show and verify the audit trail.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom ledger show --limit 20
  postroom ledger verify""",
)
OrganizationOption = Annotated[
    UUID | None,
    typer.Option(
        "--organization", metavar="ID", help="ID of one organization [default: all]", show_default=False
    ),
]


@group.command(
    epilog="""\b
Examples:
  postroom ledger verify
  postroom ledger verify --head 41:9f2c…   # also detects entries cut off since that head
  postroom ledger verify --json | jq '.[].head'"""
)
def verify(
    organization: OrganizationOption = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="HEAD", help="Head printed by an earlier run; it must still be in the ledger."
        ),
    ] = None,
    *,
    json: JsonOption = False,
) -> ExitCode:
    """Verify all digests, MACs, chains and signatures of the ledger. Exit code 1 if it is broken.

    The ledger must contain the heads that workers kept in the file ledger.heads of the home directory and
    published in POSTROOM_LEDGER_HEADS_FILE, so entries cut off at the end are detected. A printed head that
    you stored elsewhere can be given as --head. The command writes nothing.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.wiring import secrets

    if head is not None and not re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", head):
        raise SettingsError(
            "--head is not valid. Give a head as this command prints it: a number, a colon, 64 hex digits."
        )
    settings = config.load()
    keys, kept = secrets.build_ledger_keys(settings), secrets.build_ledger_heads(settings)
    proofs = startup.run_with_database(
        lambda database: _verify_organizations(database, keys, kept, organization, head)
    )
    if json:
        output.print_json(
            [{"organization": organization_id, **asdict(proof)} for organization_id, proof in proofs]
        )
    else:
        for organization_id, proof in proofs:
            _print_proof(organization_id, proof)
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
    limit: Annotated[
        int,
        typer.Option(min=1, max=10000, metavar="COUNT", help="Maximum number of entries per organization."),
    ] = 20,
    *,
    json: JsonOption = False,
) -> None:
    """Show the latest entries, newest first, without personal values."""
    from postroom.cli import output, startup

    entries = startup.run_with_database(lambda database: _read_newest(database, organization, limit))
    if json:
        output.print_json([_to_json(organization_id, entry) for organization_id, entry in entries])
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
            for _, entry in entries
        ],
    )


def _print_proof(organization: "OrganizationId", proof: "LedgerVerification") -> None:
    state = "BROKEN" if proof.faults else "intact"
    typer.echo(
        f"{organization}: {state}. {proof.entries} entries in {proof.seals} seals,"
        f" {proof.unsealed} not sealed yet, {proof.purged} with personal values purged."
    )
    if proof.without_mac:
        typer.echo(f"  {_describe_authentication(proof)}")
    if proof.unchecked_entries or proof.unchecked_purges:
        typer.echo(
            f"  Not checked: the MACs of {proof.unchecked_entries} entries and"
            f" {proof.unchecked_purges} purges. Their keys are not in ledger.macs of this home directory."
        )
    if not proof.checked_heads:
        typer.echo(
            "  Not checked: whether entries were cut off at the end. No head of this ledger is stored here."
        )
    for fault in proof.faults:
        typer.echo(f"  {fault}")
    if proof.head:
        typer.echo(f"  head {proof.head}")


def _describe_authentication(proof: "LedgerVerification") -> str:
    entries = f"{proof.without_mac} entries were written before entries had MACs."
    if proof.authenticated_from is None:
        return f"{entries} No authenticated entries yet. Start a worker to seal them."
    return f"{entries} Authentication began at position {proof.authenticated_from}."


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
    database: "Database",
    keys: "LedgerKeys",
    kept: "LedgerHeads",
    organization: UUID | None,
    head: str | None,
) -> "list[tuple[OrganizationId, LedgerVerification]]":
    from postroom.flow.ledger.verification import verify_organizations

    if head is not None and organization is None and len(await _select_organizations(database, None)) > 1:
        raise SettingsError("--head belongs to one organization. Add --organization.")
    proofs = await verify_organizations(
        database, keys.check, kept, only=organization, heads=[head] if head else []
    )
    if organization is not None and not proofs:
        raise _unknown_organization(organization)
    return proofs


async def _read_newest(
    database: "Database", organization: UUID | None, limit: int
) -> "list[tuple[OrganizationId, LedgerEntry]]":
    from postroom.store import ledger

    entries: list[tuple[OrganizationId, LedgerEntry]] = []
    for organization_id in await _select_organizations(database, organization):
        async with database.transaction(organization_id) as connection:
            entries += [
                (organization_id, entry) for entry in await ledger.list_newest(connection, limit=limit)
            ]
    return sorted(entries, key=lambda pair: pair[1].occurred_at, reverse=True)


async def _select_organizations(database: "Database", only: UUID | None) -> "list[OrganizationId]":
    from postroom.store import organizations

    async with database.engine() as connection:
        ids = await organizations.list_ids(connection)
    if only is None:
        return ids
    if only not in ids:
        raise _unknown_organization(only)
    return [organization_id for organization_id in ids if organization_id == only]


def _unknown_organization(organization: UUID) -> SettingsError:
    return SettingsError(f"No such organization: {organization}. Leave out --organization to see all.")
