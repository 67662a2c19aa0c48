"""Read the address lists of headers, even broken ones."""

from collections.abc import Iterable
from email.utils import getaddresses


def read_addresses(headers: Iterable[str]) -> list[tuple[str, str]]:
    """List the names and addresses in these headers. A header with too deeply nested comments has none."""
    found: list[tuple[str, str]] = []
    for header in headers:
        try:
            found += getaddresses([header])
        except RecursionError:  # the standard library reads nested comments by recursion
            continue
    return found
