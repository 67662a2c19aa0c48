"""Compares a value that was read with the true value, for training, benchmarks and tests."""

import re
from datetime import date
from decimal import Decimal
from typing import Any


def is_same_value(name: str, wanted: Any, read: Any) -> bool:
    """Compare numbers by value, dates by day, and text without case, spaces and punctuation."""
    if read is None or wanted is None:
        return read is wanted
    if isinstance(wanted, Decimal | int | float):
        return abs(float(read) - float(wanted)) <= 1e-6 * max(1.0, abs(float(wanted)))
    if isinstance(wanted, date):
        return bool(read == wanted)
    one, other = _plain(wanted), _plain(read)
    if name in {"supplier", "broker", "name"}:
        # A name with or without its legal form or adjacent words is the same name. Some issuers print
        # identifiers on lines above or below it.
        lines = [one, *map(_plain, str(wanted).splitlines())]
        pairs = [sorted((line, other), key=len) for line in lines if line]
        return any(shorter in longer and len(shorter) >= 0.5 * len(longer) for shorter, longer in pairs)
    return one == other


def _plain(value: Any) -> str:
    return re.sub(r"[\W_]+", "", str(value).casefold())
