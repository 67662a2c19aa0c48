"""The rows of a list as a file: CSV, Excel, JSON, or Parquet where pyarrow is installed.

Spreadsheets run no text as a formula: CSV quotes it, and Excel files hold it as text.
"""

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO, StringIO
from typing import Any, cast

import xlsxwriter

from postroom.documents import record_matching
from postroom.documents.spreadsheet_text import escape_formula
from postroom.store.lists.list_definition import ListColumn
from postroom.store.lists.list_reading import ListRow


class ListFormat(StrEnum):
    CSV = "csv"
    XLSX = "xlsx"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def label(self) -> str:
        return {"csv": "CSV", "xlsx": "Excel", "json": "JSON", "parquet": "Parquet"}[self.value]

    @property
    def media_type(self) -> str:
        return {
            "csv": "text/csv; charset=utf-8",
            "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "json": "application/json",
            "parquet": "application/vnd.apache.parquet",
        }[self.value]


@cache
def list_available() -> Sequence[ListFormat]:
    """The formats that this installation can write."""
    has_arrow = find_spec("pyarrow") is not None
    return [form for form in ListFormat if form is not ListFormat.PARQUET or has_arrow]


def write(form: ListFormat, columns: Sequence[ListColumn], rows: Sequence[ListRow]) -> bytes:
    """Write the columns of the rows, in their order."""
    match form:
        case ListFormat.CSV:
            return _write_csv(columns, rows)
        case ListFormat.XLSX:
            return _write_xlsx(columns, rows)
        case ListFormat.JSON:
            return _write_json(columns, rows)
        case ListFormat.PARQUET:
            return _write_parquet(columns, rows)


def _write_csv(columns: Sequence[ListColumn], rows: Sequence[ListRow]) -> bytes:
    file = StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([column.label for column in columns])
    for row in rows:
        writer.writerow([escape_formula(_to_text(row[column.name])) for column in columns])
    return file.getvalue().encode("utf-8-sig")  # with a mark, or Excel reads it in another encoding


def _write_xlsx(columns: Sequence[ListColumn], rows: Sequence[ListRow]) -> bytes:
    file = BytesIO()
    options = {
        "in_memory": True,
        "constant_memory": False,
        "strings_to_formulas": False,
        "strings_to_urls": False,
    }
    book: Any = xlsxwriter.Workbook(file, options)
    with book:
        sheet = book.add_worksheet()
        bold = book.add_format({"bold": True})
        for at, column in enumerate(columns):
            sheet.write_string(0, at, column.label, bold)
            sheet.set_column(at, at, 28 if column.placement == "heading" else 16)
        for line, row in enumerate(rows, start=1):
            for at, column in enumerate(columns):
                _write_cell(sheet, line, at, column, row[column.name])
        sheet.freeze_panes(1, 1)
    return file.getvalue()


def _write_cell(sheet: Any, line: int, at: int, column: ListColumn, value: Any) -> None:
    """Write numbers as numbers, and everything else as text that is no formula."""
    is_number = column.shape in ("amount", "number") and record_matching.is_number(value)
    if value is None:
        return
    if is_number and len(str(value)) <= 15:  # as many digits as Excel keeps
        sheet.write_number(line, at, float(value))
    else:
        sheet.write_string(line, at, _to_text(value))


def _write_json(columns: Sequence[ListColumn], rows: Sequence[ListRow]) -> bytes:
    shown = [{column.name: _to_json(row[column.name]) for column in columns} for row in rows]
    return json.dumps(shown, ensure_ascii=False, indent=1).encode()


def _write_parquet(columns: Sequence[ListColumn], rows: Sequence[ListRow]) -> bytes:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    texts = {
        column.name: [None if row[column.name] is None else _to_text(row[column.name]) for row in rows]
        for column in columns
    }
    table = arrow.table(texts, schema=arrow.schema([(name, arrow.string()) for name in texts]))
    file = BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _to_json(value: Any) -> Any:
    """Amounts stay exact as text."""
    return value if value is None or type(value) in (int, list) else _to_text(value)


def _to_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.isoformat(timespec="seconds")
        case Decimal():
            return f"{value:f}"
        case list():
            amounts = cast("list[tuple[str | None, str]]", value)
            return "; ".join(f"{amount} {currency or ''}".strip() for currency, amount in amounts)
        case _:
            return str(value)
