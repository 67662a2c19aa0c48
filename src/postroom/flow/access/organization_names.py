"""Set the names by which suppliers address the organization.

`flow.documents.controls` compares the addressees of documents with them.
"""

from collections.abc import Sequence
from typing import Final

from postroom.errors import PermanentError
from postroom.model import OrganizationId
from postroom.store import ledger, organizations
from postroom.store.connection import Connection
from postroom.store.ledger import NewLedgerEntry

MAX_NAMES: Final = 50
MAX_LENGTH: Final = 200
_MIN_ALPHABETIC: Final = 3


async def set_names(
    connection: Connection, organization: OrganizationId, names: Sequence[str], *, actor: str
) -> list[str]:
    """Replace the names; none means that addressees are not checked. The ledger records a change."""
    cleaned = list(dict.fromkeys(" ".join(name.split()) for name in names))
    for name in cleaned:
        if sum(map(str.isalpha, name)) < _MIN_ALPHABETIC or len(name) > MAX_LENGTH or "\0" in name:
            raise PermanentError(
                f"A name needs at least {_MIN_ALPHABETIC} alphabetic characters, and at most {MAX_LENGTH}"
                " characters in all. Enter it as it appears on invoices, with its legal form."
            )
    if len(cleaned) > MAX_NAMES:
        raise PermanentError(f"An organization has at most {MAX_NAMES} names. Remove some.")
    await organizations.ensure(connection, organization)
    if await organizations.set_names(connection, cleaned):
        entry = NewLedgerEntry(
            "ORGANIZATION_NAMES_CHANGED",
            "organization",
            str(organization),
            actor_id=actor,
            payload={"count": len(cleaned)},
            personal={"names": list(cleaned)},
        )
        await ledger.append_entries(connection, organization, [entry])
    return cleaned
