"""`postroom documents export`: confirmed records as CSV, JSON Lines or Parquet."""

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from postroom.cli import list_options, progress
from postroom.cli.export import load_parquet_files
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
from postroom.documents.spreadsheet_text import escape_formula
from postroom.errors import OperatorError, PermanentError

if TYPE_CHECKING:
    from postroom.model import OrganizationId
    from postroom.store.database import Connection


class ExportFormat(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


EXAMPLES = """\b
Examples:
  postroom documents export --format csv --kind invoice > invoices.csv
  postroom documents export --format parquet --output trades.parquet --kind contract-note"""


def export(
    form: Annotated[ExportFormat, typer.Option("--format", help="File format.")] = ExportFormat.JSONL,
    kind: KindOption = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write [default: standard output]")
    ] = None,
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
) -> None:
    """Export confirmed records with their documents, oldest first."""
    given = {
        "kind": kind, "q": q, "state": choose_state(state, every_state=every_state), "order": order,
        "supplier": supplier, "due": due, "from": from_, "until": until, "min": min_, "max": max_,
        "sort": sort,
    }  # fmt: skip
    rows = read_records(given)
    try:
        _write(rows, form, output)
    except OSError as error:
        if output is None:
            raise  # the reader of the pipe has left
        reason = os.strerror(error.errno).lower() if error.errno else "unknown error"
        raise OperatorError(
            f"{output} cannot be written: {reason}. Choose another file with --output."
        ) from None
    progress.print_status(f"Exported records: {len(rows)}.")


def choose_state(state: str | None, *, every_state: bool) -> str:
    """The state to list: the confirmed records unless others are asked for."""
    return "all" if every_state else state or "confirmed"


def read_records(given: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """The records that these filters select, with all their fields."""
    from postroom.cli import startup
    from postroom.documents.kinds import kind_registry as kinds
    from postroom.store import records
    from postroom.store.lists.list_reading import MAX_EXPORTED
    from postroom.store.lists.records import RECORDS

    kinds.require_installed(given["kind"])
    query = list_options.build_query(RECORDS, given)

    async def read(connection: "Connection", _: "OrganizationId") -> list[dict[str, Any]]:
        ids = await list_options.find_ids(connection, query, MAX_EXPORTED)
        return await records.list_for_export(connection, ids)

    return startup.run_in_transaction(read)


def _write(rows: Sequence[dict[str, Any]], form: ExportFormat, output: Path | None) -> None:
    match form:
        case ExportFormat.JSONL:
            with _open_output(output) as file:
                file.writelines(json.dumps(row, default=str) + "\n" for row in rows)
        case ExportFormat.CSV:
            write_csv(rows, output)
        case ExportFormat.PARQUET:
            _write_parquet(rows, output)


def _open_output(output: Path | None) -> AbstractContextManager[TextIO]:
    return output.open("w", encoding="utf-8", newline="") if output else nullcontext(sys.stdout)


def _flatten(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return columns for all fields of any record, and flat rows.

    Lists and tables become JSON.
    """
    flat = [{**{k: v for k, v in row.items() if k != "fields"}, **row["fields"]} for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    return columns, [
        {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in row.items()}
        for row in flat
    ]


def write_csv(rows: Sequence[dict[str, Any]], output: Path | None) -> None:
    columns, flat = _flatten(rows)
    with _open_output(output) as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({name: escape_formula(value) for name, value in row.items()} for row in flat)


def _write_parquet(rows: Sequence[dict[str, Any]], output: Path | None) -> None:
    if output is None:
        raise PermanentError("Parquet is a binary format. Give a file with --output.")
    files = load_parquet_files()
    columns, flat = _flatten(rows)
    table = files.arrow.table({name: [_to_text(row.get(name)) for row in flat] for name in columns})
    files.parquet.write_table(table, output)


def _to_text(value: Any) -> str | None:
    return None if value is None else str(value)
