"""Validates rows that people enter for table fields, such as tax by rate or line items.

Checks the format only; the person is responsible for the values. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, Literal, cast, get_args, get_type_hints

from postroom.documents import record_matching
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldShape
from postroom.errors import InvalidField

TABLE_SHAPES: Final = frozenset[FieldShape]({"rates", "lines"})
MAX_ROWS: Final = 1_000
_MAX_CELL_CHARACTERS: Final = 1_000

TableRow = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The type of a column, and whether every row needs a value."""

    holds: Literal["number", "date", "text"]
    required: bool


def list_table_columns(kind: DocumentKind) -> dict[str, dict[str, TableColumn]]:
    """Return the columns of each table field, as the row dataclass declares them."""
    hints = get_type_hints(kind.model)
    return {
        name: _columns(row)
        for name, field in kind.fields.items()
        if field.shape in TABLE_SHAPES and (row := _find_row_type(hints[name])) is not None
    }


def _find_row_type(hint: Any) -> type[Any] | None:
    """Return the dataclass inside a hint such as `tuple[InvoiceLine, ...] | None`."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next((found for each in get_args(hint) if (found := _find_row_type(each)) is not None), None)


def _columns(row: type[Any]) -> dict[str, TableColumn]:
    hints = get_type_hints(row)
    found: dict[str, TableColumn] = {}
    for column in fields(row):
        kinds = {hints[column.name], *get_args(hints[column.name])}
        holds = "number" if Decimal in kinds else "date" if date in kinds else "text"
        found[column.name] = TableColumn(holds, required=type(None) not in kinds)
    return found


def parse_rows(name: str, given: Any, columns: Mapping[str, TableColumn]) -> list[TableRow] | None:
    """Return the rows as they are stored, None for no rows.

    Raises on the first invalid cell.
    """
    rows = _decode_rows(name, given)
    if len(rows) > MAX_ROWS:
        raise InvalidField(f"{name} has more than {MAX_ROWS:,} rows.", field=name)
    kept = [_parse_row(name, number, each, columns) for number, each in enumerate(rows)]
    return kept or None


def _decode_rows(name: str, given: Any) -> list[Mapping[str, Any]]:
    """Accept a list of rows, or the same as JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    rows = cast("list[Any]", given) if isinstance(given, list) else [None]
    if not all(isinstance(each, dict) for each in rows):
        raise InvalidField(
            f'{name} is a table: give a list of rows as JSON, such as [{{"column": "value"}}], or nothing.',
            field=name,
        )
    return cast("list[Mapping[str, Any]]", rows)


def _parse_row(
    name: str, number: int, given: Mapping[str, Any], columns: Mapping[str, TableColumn]
) -> TableRow:
    for column in given:
        if column not in columns:
            words = f"{name} has no column {column}; there are {', '.join(columns)}."
            raise InvalidField(words, field=name, row=number)
    kept: TableRow = {}
    for column, declared in columns.items():
        value = given.get(column)
        text = None if value is None else str(value).strip() or None
        if wrong := _describe_mismatch(text, declared):
            words = f"{column} in row {number + 1} of {name} {wrong}."
            raise InvalidField(words, field=name, row=number, column=column)
        kept[column] = text
    return kept


def _describe_mismatch(text: str | None, column: TableColumn) -> str | None:
    if text is None:
        return "is required" if column.required else None
    if len(text) > _MAX_CELL_CHARACTERS or "\0" in text:
        return f"must be text of at most {_MAX_CELL_CHARACTERS:,} characters"
    if column.holds == "number" and not record_matching.is_number(text):
        return f"must be a number such as 1234.50, not {text}"
    if column.holds == "date" and not record_matching.is_date(text):
        return f"must be a date such as 2026-02-04, not {text}"
    return None
