"""`postroom documents export`: confirmed records as CSV, JSON Lines or Parquet."""

import csv
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from postroom.cli import progress
from postroom.cli.export import load_parquet_files
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
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="Only records of this kind.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write [default: standard output]")
    ] = None,
    *,
    every_state: Annotated[
        bool, typer.Option("--all", help="Include reopened, voided and merged records.")
    ] = False,
) -> None:
    """Export confirmed records with their documents, oldest first."""
    from postroom.cli import startup
    from postroom.documents.kinds import kind_registry as kinds
    from postroom.store import records

    kinds.require_installed(kind)

    async def read(connection: "Connection", _: "OrganizationId") -> list[dict[str, Any]]:
        return await records.list_for_export(connection, kind, every_state=every_state)

    rows = startup.run_in_transaction(read)
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
