"""`postroom suppliers`: list the issuers of records, and switch trust in one on or off."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from postroom.cli import list_options
from postroom.cli.document_files import ActorOption
from postroom.cli.list_options import KindOption, LimitOption, SearchOption, SortOption
from postroom.cli.options import JsonOption
from postroom.errors import NotFound

if TYPE_CHECKING:
    from postroom.flow.documents.supplier_trust import SupplierTrust
    from postroom.model import OrganizationId
    from postroom.store.database import Connection

group = typer.Typer(
    name="suppliers",
    help="List suppliers and brokers, and switch trust in one on or off.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom suppliers list --q acme
  postroom suppliers trust 6f1c2a4e-3b7d-4c55-9a52-0d0f6f3c8e11 --off""",
)


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom suppliers list --q acme
  postroom suppliers list --kind contract-note --sort -records --json""",
)
def list_suppliers(
    q: SearchOption = None,
    kind: KindOption = None,
    sort: SortOption = None,
    limit: LimitOption = 50,
    *,
    json: JsonOption = False,
) -> None:
    """List the issuers of confirmed and reopened records, newest record first."""
    from postroom.cli import startup
    from postroom.documents.kinds import kind_registry as kinds
    from postroom.flow.documents import route
    from postroom.store.lists.suppliers import SUPPLIERS
    from postroom.wiring import documents as wired

    kinds.require_installed(kind)
    query = list_options.build_query(SUPPLIERS, {"q": q, "kind": kind, "sort": sort})
    routing = wired.build_route_context(startup.load_command_settings("cli"))
    startup.run_in_transaction(lambda connection, _: route.identify_all_earlier_records(connection, routing))
    list_options.print_list(
        query, limit, json=json, empty="No suppliers. They appear with the first confirmed record."
    )


@group.command(
    epilog="""\b
Examples:
  postroom suppliers trust 6f1c2a4e-3b7d-4c55-9a52-0d0f6f3c8e11
  postroom suppliers trust 6f1c2a4e-3b7d-4c55-9a52-0d0f6f3c8e11 --off --as Ann"""
)
def trust(
    supplier: Annotated[UUID, typer.Argument(metavar="SUPPLIER", help="ID from `suppliers list --json`.")],
    *,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Switch trust on or off.")] = None,
    actor: ActorOption = "command line",
    json: JsonOption = False,
) -> None:
    """Show trust in a supplier, or switch it on or off.

    With trust, uncertain values that people confirmed unchanged in two documents of the same layout need no
    review in the next one. Failed checks, duplicates and scans always need review.
    """
    from dataclasses import asdict

    from postroom.cli import output, startup
    from postroom.flow.documents import route, supplier_trust
    from postroom.store import suppliers
    from postroom.wiring import documents as wired

    settings = startup.load_command_settings("cli")
    review = wired.build_review_context(settings, wired.load_pipelines(settings))

    async def act(connection: "Connection", organization: "OrganizationId") -> "SupplierTrust":
        found = await suppliers.get(connection, supplier, machine=route.MACHINE)
        if found is None:
            raise NotFound("There is no such supplier. Run `postroom suppliers list --json` to see the IDs.")
        if on is not None:
            await supplier_trust.set_trust(connection, organization, supplier, trusted=on, actor=actor)
        kind = review.routing.kinds.get(found.kind)
        return await supplier_trust.load_trust(connection, supplier, kind, review.pipelines)

    found = startup.run_in_transaction(act)
    if json:
        output.print_json(asdict(found))
        return
    typer.echo(f"trust: {'on' if found.trusted else 'off'}")
    rows = [(each.layout, str(each.confirmed), ", ".join(each.fields) or "none") for each in found.layouts]
    output.print_table(("LAYOUT", "CONFIRMED UNCHANGED", "TRUSTED FIELDS"), rows)
