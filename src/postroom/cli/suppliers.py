"""`postroom suppliers`: list the issuers of records."""

import typer

from postroom.cli import list_options
from postroom.cli.list_options import KindOption, LimitOption, SearchOption, SortOption
from postroom.cli.options import JsonOption

group = typer.Typer(
    name="suppliers",
    help="List suppliers and brokers.",
    no_args_is_help=True,
    epilog="\b\nExamples:\n  postroom suppliers list --q acme",
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
