"""Fields that are tables, in the form of a document's page: rows to type in, and what of them was changed.

A cell is called `cell-FIELD-ROW-COLUMN`. Rows keep the number with which they came; new ones have others.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from postroom.documents.fields.table_validation import MOST_ROWS, Column
from postroom.errors import InvalidField
from postroom.web import pages

FormFields = Mapping[str, str]
_CELL: Final = re.compile(r"cell-(?P<field>\w+)-(?P<row>\d{1,6})-(?P<column>\w+)", re.ASCII)
# Names of columns that are sums of money.
MONEY_COLUMNS: Final = frozenset({"amount", "net", "tax", "vat", "gross", "price", "unit_price", "total"})


@dataclass(frozen=True, slots=True)
class TableFieldRow:
    """One row of the form, its cells by their columns, and what is wrong with it."""

    number: int
    cells: Mapping[str, str]
    problem: str | None = None
    column: str | None = None  # the one to blame


@dataclass(frozen=True, slots=True)
class TableField:
    """A field's rows, the columns they have, and the number that the next new row takes."""

    columns: Mapping[str, Column]
    rows: Sequence[TableFieldRow]
    declared: Collection[str]  # what can be typed; other columns are only shown
    unit: str
    spare: int

    def heading(self, column: str) -> str:
        """With the unit of what stands in it."""
        unit = "%" if "rate" in column else self.unit if column in MONEY_COLUMNS else ""
        return column.replace("_", " ") + (f", {unit}" if unit else "")

    def is_text(self, column: str) -> bool:
        return self.columns[column].holds == "text"


def build_table(
    name: str,
    value: Any,
    columns: Mapping[str, Column],
    unit: str,
    given: FormFields | None = None,
    refused: InvalidField | None = None,
) -> TableField:
    """What was typed and refused, else what was read, also where the model declares no such column."""
    read = [_display_cells(each) for each in rows_of(value)]
    declared = frozenset(columns if len(read) <= MOST_ROWS else ())
    unknown = [column for row in read for column in row if column not in columns]
    columns = {**columns, **dict.fromkeys(unknown, Column("text", needed=False))}
    typed = (
        _drop_empty_rows(_parse_cells(name, given))
        if given is not None and f"table-{name}" in given
        else None
    )
    rows = typed if typed is not None else dict(enumerate(read))
    wrong = _find_refused_row(rows, refused) if refused is not None and refused.field == name else None
    return TableField(
        columns,
        [
            TableFieldRow(number, cells, str(refused), refused.column)
            if refused is not None and number == wrong
            else TableFieldRow(number, cells)
            for number, cells in rows.items()
        ],
        declared,
        unit,
        max([*rows, len(read) - 1], default=-1) + 1,
    )


def find_changed_rows(name: str, value: Any, given: FormFields) -> list[dict[str, str | None]] | None:
    """All rows where any was changed, added or removed; None where all is as it was read.

    Cells that nobody touched stay as they were read, also where they are shown otherwise.
    """
    typed, read = _parse_cells(name, given), rows_of(value)
    columns = {column for cells in typed.values() or read for column in cells}
    rows, before = _drop_empty_rows(typed), [{column: row.get(column) for column in columns} for row in read]
    if rows == _drop_empty_rows(dict(enumerate(map(_display_cells, before)))):
        return None
    found: list[dict[str, str | None]] = []
    for number, cells in rows.items():
        former = read[number] if number < len(read) else {}
        shown = _display_cells(former)
        found.append(
            {column: former[column] if text == shown.get(column) else text for column, text in cells.items()}
        )
    return found


def rows_of(value: Any) -> list[dict[str, str | None]]:
    """Of a value as it is kept."""
    rows = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, str | None]", row) for row in rows if isinstance(row, dict)]


def _display_cells(row: Mapping[str, str | None]) -> dict[str, str]:
    return {
        column: "" if cell is None else _to_single_line(str(pages.neutralize_bidi(str(cell))))
        for column, cell in row.items()
    }


def _to_single_line(text: str) -> str:
    """As a line of a form can hold it."""
    return " ".join(text.split())


def _parse_cells(name: str, given: FormFields) -> dict[int, dict[str, str]]:
    rows: dict[int, dict[str, str]] = {}
    for key, text in given.items():
        cell = _CELL.fullmatch(key)
        if cell is not None and cell["field"] == name:
            rows.setdefault(int(cell["row"]), {})[cell["column"]] = _to_single_line(text)
    return rows


def _drop_empty_rows(rows: Mapping[int, dict[str, str]]) -> dict[int, dict[str, str]]:
    """What stands in them. A row without a word is no row."""
    told = {
        number: {column: text for column, text in cells.items() if text} for number, cells in rows.items()
    }
    return {number: cells for number, cells in told.items() if cells}


def _find_refused_row(rows: Mapping[int, dict[str, str]], refused: InvalidField) -> int | None:
    """The form's number of the row that was refused; empty ones were not counted."""
    filled = list(_drop_empty_rows(rows))
    return filled[refused.row] if refused.row is not None and refused.row < len(filled) else None
