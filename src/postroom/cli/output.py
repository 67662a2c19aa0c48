"""Prints results on standard output: tables and lines for people, JSON for programs.

Progress goes to standard error, by `progress`.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import typer


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns under their headings."""
    cells = [list(headings), *([to_printable(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    for row in cells:
        padded = [value.ljust(width) for value, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(padded).rstrip())


def print_fields(headings: Sequence[str], fields: Mapping[str, Sequence[object]]) -> None:
    """Print fields with their values, which come first, and each field that is a table below them."""
    tables: dict[str, list[Mapping[str, object]]] = {
        name: cells[0] for name, cells in fields.items() if isinstance(cells[0], list)
    }
    rows = [
        [name, "see below" if tables.get(name) else value, *others]
        for name, (value, *others) in fields.items()
    ]
    print_table(headings, rows)
    for name, lines in tables.items():
        columns = list(dict.fromkeys(column for line in lines for column in line))
        if columns:
            typer.echo()
            print_line(f"{name}:")
            print_table(columns, [[line.get(column) for column in columns] for line in lines])


def print_line(text: str) -> None:
    """Print a line that may contain text from mail, without control characters."""
    typer.echo(to_printable(text))


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, default=str))


def to_printable(value: object) -> str:
    """Format a value for one line, with control characters and line breaks replaced."""
    match value:
        case None:
            text = "-"
        case bool():
            text = str(value).lower()
        case datetime():
            text = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        case _:
            text = str(value)
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
