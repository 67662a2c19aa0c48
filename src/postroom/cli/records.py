"""`postroom records`: list, show, reopen, correct, void, merge and split records.

`flow.documents.record_changes` makes the changes.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postroom.cli import documents as document_commands
from postroom.cli import record_export
from postroom.cli.documents import ActorOption
from postroom.cli.list_options import (
    DueOption,
    EveryStateOption,
    FromOption,
    KindOption,
    MaxOption,
    MinOption,
    OrderFilterOption,
    RecordStateOption,
    SearchOption,
    SortOption,
    SupplierOption,
    UntilOption,
)
from postroom.cli.options import JsonOption
from postroom.errors import ChecksFailed, PermanentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from postroom.flow.documents.record_changes import RecordChange
    from postroom.flow.documents.value_checks import ReviewContext
    from postroom.model import OrganizationId
    from postroom.store.database import Connection
    from postroom.store.records import Record

    ChangeStep = Callable[[Connection, ReviewContext, RecordChange], Awaitable[Record]]

group = typer.Typer(
    name="records",
    help="List, correct, void, merge and split records.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom records list --kind invoice
  postroom records correct 6f1c2a4e --set gross=119.00 --reason "misread" """,
)
RecordArgument = Annotated[
    str, typer.Argument(metavar="RECORD", help="Key, ID, or start of the ID.", show_default=False)
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, for the ledger.")]


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom records list --kind invoice
  postroom records list --all --json
  postroom records list --due overdue --min 1000 --sort -amount""",
)
def list_records(
    kind: KindOption = None,
    q: SearchOption = None,
    state: RecordStateOption = None,
    order: OrderFilterOption = None,
    supplier: SupplierOption = None,
    due: DueOption = None,
    from_: FromOption = None,
    until: UntilOption = None,
    min_: MinOption = None,
    max_: MaxOption = None,
    sort: SortOption = "confirmed",
    *,
    every_state: EveryStateOption = False,
    json: JsonOption = False,
) -> None:
    """List confirmed records, oldest first."""
    from postroom.cli import output

    given = {
        "kind": kind, "q": q, "order": order, "supplier": supplier, "due": due, "from": from_, "until": until,
        "min": min_, "max": max_, "sort": sort,
        "state": record_export.choose_state(state, every_state=every_state),
    }  # fmt: skip
    rows = record_export.read_records(given)
    if json:
        output.print_json(rows)
    elif not rows:
        typer.echo("No records. To include voided and merged ones, add --all.")
    else:
        names = ("key", "kind", "state", "version", "order", "document")
        output.print_table(
            ["RECORD", *(name.upper() for name in names)],
            [[row["record"][:8], *(_shorten(name, row[name]) for name in names)] for row in rows],
        )


def _shorten(name: str, value: Any) -> str | None:
    return None if value is None else str(value)[:8] if name == "document" else str(value)


@group.command(epilog="\b\nExamples:\n  postroom records show 6f1c2a4e --json")
def show(record: RecordArgument, *, json: JsonOption = False) -> None:
    """Show one record: its values, order, documents and versions."""
    from postroom.cli import output, startup

    details = startup.run_in_transaction(lambda connection, _: _read_record(connection, record))
    if json:
        output.print_json(details)
        return
    for name in ("id", "key", "kind", "state", "version", "order_reference", "merged_into"):
        output.print_line(f"{name:<17}{details[name] if details[name] is not None else '-'}")
    for document in details["document_ids"]:
        output.print_line(f"{'document':<17}{document}")
    for path in details["archive_paths"]:
        output.print_line(f"{'archive':<17}{path}")
    typer.echo()
    output.print_fields(["FIELD", "VALUE"], {name: [value] for name, value in details["fields"].items()})
    typer.echo()
    output.print_table(
        ["VERSION", "CHANGE", "BY", "REASON"],
        [
            [str(item["version"]), item["change"], item["actor_id"], item["reason"]]
            for item in details["versions"]
        ],
    )


@group.command(epilog="\b\nExamples:\n  postroom records reopen 6f1c2a4e --reason 'the amount looks wrong'")
def reopen(record: RecordArgument, reason: ReasonOption, actor: ActorOption = "command line") -> None:
    """Reopen a confirmed or voided record for review."""
    from postroom.flow.documents import record_changes

    changed = _change(record, reason, actor, record_changes.reopen)
    typer.echo(f"Reopened {changed.name}. Confirm or reject its document.")


@group.command(
    epilog="""\b
Examples:
  postroom records correct 6f1c2a4e --set gross=119.00 --reason "misread"
  postroom records correct 6f1c2a4e --order O-4711 --reason "ordered by phone\""""
)
def correct(
    record: RecordArgument,
    reason: ReasonOption,
    corrections: document_commands.CorrectionsOption = None,
    override: document_commands.OverrideOption = None,
    order: document_commands.OrderOption = None,
    actor: ActorOption = "command line",
) -> None:
    """Correct fields of a confirmed record, or its order.

    The corrected fields are checked again, and Postroom learns from the corrections.
    """
    from postroom.flow.documents import record_changes

    values = document_commands.parse_corrections(corrections)

    async def step(connection: "Connection", context: "ReviewContext", change: "RecordChange") -> "Record":
        return await record_changes.correct(
            connection, context, change, values, override=override or (), order=order
        )

    try:
        changed = _change(record, reason, actor, step)
    except ChecksFailed as error:
        raise PermanentError(document_commands.describe_failed_checks(error)) from error
    typer.echo(f"Corrected {changed.name}: version {changed.version}.")


@group.command(epilog="\b\nExamples:\n  postroom records void 6f1c2a4e --reason 'not our invoice'")
def void(record: RecordArgument, reason: ReasonOption, actor: ActorOption = "command line") -> None:
    """Void a record that should not exist.

    Its documents are skipped, and its order is open again.
    """
    from postroom.flow.documents import record_changes

    changed = _change(record, reason, actor, record_changes.void)
    typer.echo(f"Voided {changed.name}.")


@group.command(
    epilog="\b\nExamples:\n  postroom records merge 6f1c2a4e --into 81d0c3aa --reason 'one invoice'"
)
def merge(
    record: RecordArgument,
    into: Annotated[str, typer.Option(metavar="RECORD", help="Record to merge into: key or ID.")],
    reason: ReasonOption,
    actor: ActorOption = "command line",
) -> None:
    """Merge a record into another record of the same invoice or trade.

    The other record keeps its values and gets the documents.
    """
    from postroom.flow.documents import record_changes

    async def step(connection: "Connection", context: "ReviewContext", change: "RecordChange") -> "Record":
        target = await find_record(connection, into)
        return await record_changes.merge(connection, context, change, into=target.id)

    left = _change(record, reason, actor, step)
    typer.echo(f"Merged into {left.name}.")


@group.command(
    epilog="""\b
Examples:
  postroom records split 6f1c2a4e --reason "two invoices"
  postroom records split 6f1c2a4e --document 04be77d1 --reason "another delivery\""""
)
def split(
    record: RecordArgument,
    reason: ReasonOption,
    document: Annotated[
        str | None, typer.Option(metavar="DOCUMENT", help="Document that gets a record of its own.")
    ] = None,
    actor: ActorOption = "command line",
) -> None:
    """Undo the merge of a record, or give one of its documents a record of its own."""
    from postroom.flow.documents import record_changes

    async def step(connection: "Connection", context: "ReviewContext", change: "RecordChange") -> "Record":
        chosen = await document_commands.find_document(connection, document) if document else None
        return await record_changes.split(connection, context, change, document=chosen)

    alone = _change(record, reason, actor, step)
    typer.echo(f"Split off {alone.name} ({alone.id}).")


def _change(name: str, reason: str, actor: str, step: "ChangeStep") -> "Record":
    from postroom.cli import startup
    from postroom.flow.documents.record_changes import RecordChange

    settings = startup.load_command_settings("cli")
    context = document_commands.build_review_context(settings)

    async def write(connection: "Connection", organization: "OrganizationId") -> "Record":
        found = await find_record(connection, name)
        return await step(connection, context, RecordChange(organization, found.id, actor, reason))

    return startup.run_in_transaction(write, settings)


async def find_record(connection: "Connection", name: str) -> "Record":
    from postroom.store import records

    matches = await records.find_by_name(connection, name)
    if len(matches) != 1:
        problem = "No record" if not matches else "More than one record"
        raise PermanentError(
            f"{problem} has the key {name}, or an ID that starts with it. Run `postroom records list --all`"
            " to see all."
        )
    return matches[0]


async def _read_record(connection: "Connection", name: str) -> dict[str, Any]:
    import msgspec

    from postroom.store import record_versions
    from postroom.store.views import documents as views

    record = await find_record(connection, name)
    resource = await views.get_record(connection, record.id)
    assert resource is not None, "found in this transaction"
    versions = await record_versions.list_versions(connection, record.id)
    return {**msgspec.structs.asdict(resource), "versions": [asdict(version) for version in versions]}
