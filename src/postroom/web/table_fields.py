"""Table fields in the review form of a document: editable rows, and which of them a reviewer changed.

A cell's input is named `cell-FIELD-ROW-COLUMN`. Rows keep the number they had when they were extracted; added
rows get higher numbers.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from postroom.documents.fields.table_validation import MAX_ROWS, TableColumn
from postroom.errors import InvalidField
from postroom.web import field_labels, pages

FormFields = Mapping[str, str]
_CELL: Final = re.compile(r"cell-(?P<field>\w+)-(?P<row>\d{1,6})-(?P<column>\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableFieldRow:
    """A row of the form: its cells by column, and the error in it if there is one."""

    number: int
    cells: Mapping[str, str]
    problem: str | None = None
    column: str | None = None  # the column that caused the problem


@dataclass(frozen=True, slots=True)
class TableField:
    """The rows and columns of a field; `spare` is the number of the next added row."""

    columns: Mapping[str, TableColumn]
    rows: Sequence[TableFieldRow]
    declared: Collection[str]  # editable columns; others are read-only
    unit: str
    spare: int

    def heading(self, column: str) -> str:
        """The column's label with its unit."""
        return field_labels.column_label(column, self.unit)

    def shape(self, column: str) -> str:
        """How a page shows the column's values, see `Formats.field_value`."""
        holds = self.columns[column].holds
        return "amount" if holds == "number" and column in field_labels.MONEY_COLUMNS else holds

    def is_text(self, column: str) -> bool:
        return self.columns[column].holds == "text"


def build_table(
    name: str,
    value: Any,
    columns: Mapping[str, TableColumn],
    unit: str,
    form: FormFields | None = None,
    error: InvalidField | None = None,
) -> TableField:
    """Build a table from the rejected form if there is one, else from the extracted rows.

    Extracted columns that the kind does not declare are shown too, read-only.
    """
    extracted = [_display_cells(row) for row in rows_of(value)]
    declared = frozenset(columns if len(extracted) <= MAX_ROWS else ())
    unknown = [column for row in extracted for column in row if column not in columns]
    columns = {**columns, **dict.fromkeys(unknown, TableColumn("text", required=False))}
    submitted = (
        _drop_empty_rows(_parse_cells(name, form)) if form is not None and f"table-{name}" in form else None
    )
    rows = submitted if submitted is not None else dict(enumerate(extracted))
    wrong = _find_rejected_row(rows, error) if error is not None and error.field == name else None
    return TableField(
        columns,
        [
            TableFieldRow(number, cells, str(error), error.column)
            if error is not None and number == wrong
            else TableFieldRow(number, cells)
            for number, cells in rows.items()
        ],
        declared,
        unit,
        max([*rows, len(extracted) - 1], default=-1) + 1,
    )


def find_changed_rows(name: str, value: Any, form: FormFields) -> list[dict[str, str | None]] | None:
    """Return all rows if any was changed, added or removed, else None.

    Untouched cells keep their extracted value, even where the page displays it differently.
    """
    submitted, extracted = _parse_cells(name, form), rows_of(value)
    columns = {column for cells in submitted.values() or extracted for column in cells}
    rows = _drop_empty_rows(submitted)
    before = [{column: row.get(column) for column in columns} for row in extracted]
    if rows == _drop_empty_rows(dict(enumerate(map(_display_cells, before)))):
        return None
    result: list[dict[str, str | None]] = []
    for number, cells in rows.items():
        former = extracted[number] if number < len(extracted) else {}
        displayed = _display_cells(former)
        result.append(
            {
                column: former[column] if text == displayed.get(column) else text
                for column, text in cells.items()
            }
        )
    return result


def rows_of(value: Any) -> list[dict[str, str | None]]:
    """The rows of a stored value; anything that is not a table has none."""
    rows = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, str | None]", row) for row in rows if isinstance(row, dict)]


def _display_cells(row: Mapping[str, str | None]) -> dict[str, str]:
    return {
        column: "" if cell is None else _to_single_line(str(pages.neutralize_bidi(str(cell))))
        for column, cell in row.items()
    }


def _to_single_line(text: str) -> str:
    """Collapse whitespace: a form input holds a single line."""
    return " ".join(text.split())


def _parse_cells(name: str, form: FormFields) -> dict[int, dict[str, str]]:
    rows: dict[int, dict[str, str]] = {}
    for key, text in form.items():
        cell = _CELL.fullmatch(key)
        if cell is not None and cell["field"] == name:
            rows.setdefault(int(cell["row"]), {})[cell["column"]] = _to_single_line(text)
    return rows


def _drop_empty_rows(rows: Mapping[int, dict[str, str]]) -> dict[int, dict[str, str]]:
    """Drop empty cells, and rows that have no others."""
    filled = {
        number: {column: text for column, text in cells.items() if text} for number, cells in rows.items()
    }
    return {number: cells for number, cells in filled.items() if cells}


def _find_rejected_row(rows: Mapping[int, dict[str, str]], error: InvalidField) -> int | None:
    """The form's number of the row with the error, which counts non-empty rows only."""
    filled = list(_drop_empty_rows(rows))
    return filled[error.row] if error.row is not None and error.row < len(filled) else None
