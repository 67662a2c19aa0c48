"""Reads the address lists of headers, however broken."""

from collections.abc import Iterable
from email.utils import getaddresses


def read_addresses(headers: Iterable[str]) -> list[tuple[str, str]]:
    """Names and addresses of these headers. A header with comments nested too deeply has none."""
    found: list[tuple[str, str]] = []
    for header in headers:
        try:
            found += getaddresses([header])
        except RecursionError:  # the standard library reads nested comments by recursion
            continue
    return found
