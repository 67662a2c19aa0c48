"""Read orders from the text of a CSV file, or of cells copied from a spreadsheet."""

import csv
from collections import Counter
from collections.abc import Mapping
from io import StringIO
from itertools import islice

from postroom.errors import PermanentError
from postroom.flow.documents.orders import OrderRequest, find_fault
from postroom.flow.documents.route import RecordIdentity

_OWN_COLUMNS = frozenset({"reference", "username"})


def parse_orders(
    text: str, kind: str, identity: RecordIdentity, *, source: str, most: int | None = None
) -> list[OrderRequest]:
    """Parse and validate at most `most` orders. The error names the source and its first invalid line."""
    header = text.partition("\n")[0]
    delimiter = next((mark for mark in "\t,;" if mark in header), ",")
    try:
        reader = csv.DictReader(StringIO(text, newline=""), delimiter=delimiter)
        read = islice(reader, None if most is None else most + 1)
        rows = [(reader.reader.line_num, row) for row in read]  # its own count omits blank lines
        columns = list(reader.fieldnames or ())
    except csv.Error as error:
        raise PermanentError(
            f"{source} cannot be parsed as CSV ({error}). Save it as CSV again and retry."
        ) from error
    if most is not None and len(rows) > most:
        raise PermanentError(f"{source} has more than {most:,} orders. Import them in parts.")
    if duplicates := sorted(name for name, count in Counter(columns).items() if count > 1):
        raise PermanentError(f"{source} has the column {duplicates[0]} twice. Remove one.")
    unknown = set(columns) - set(identity.shapes) - _OWN_COLUMNS
    if "reference" not in columns or unknown:
        problem = (
            "has no column `reference`"
            if not unknown
            else f"has unknown columns: {', '.join(sorted(unknown))}"
        )
        raise PermanentError(f"{source} {problem}. Fields of {kind}: {', '.join(identity.shapes)}.")
    orders = dict[str, OrderRequest]()
    for number, row in rows:
        order = _parse_row(f"{source}, line {number}", row)
        fault = (
            "duplicate reference; remove one"
            if order.reference in orders
            else find_fault(kind, identity, order)
        )
        if fault:
            raise PermanentError(f"{source}, line {number}: {fault}.")
        orders[order.reference] = order
    return list(orders.values())


def _parse_row(line: str, row: Mapping[str | None, str | None]) -> OrderRequest:
    if None in row:
        raise PermanentError(f"{line}: more values than columns. Quote values that contain the separator.")
    values = {name: (value or "").strip() for name, value in row.items() if name is not None}
    if not values.get("reference"):
        raise PermanentError(f"{line}: the reference is missing. Every order needs one.")
    fields = {name: value for name, value in values.items() if name not in _OWN_COLUMNS and value}
    return OrderRequest(values["reference"], values.get("username") or None, fields)
