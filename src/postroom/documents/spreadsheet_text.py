"""Escapes text for spreadsheets, so that none of it is run as a formula."""

from typing import Any

from postroom.documents import record_matching


def escape_formula(value: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula. Signed numbers stay as they are."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula and not record_matching.is_number(value) else value
