"""The document kinds that are installed: the built-in ones and those of other packages."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final

from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.invoice import INVOICE
from postroom.errors import PermanentError, SettingsError

ENTRY_POINT_GROUP: Final = "postroom.kinds"


def require_installed(name: str | None) -> None:
    """Raise PermanentError if a kind is named that is not installed."""
    kinds = list_installed()
    if name is not None and name not in kinds:
        raise PermanentError(f"There is no document kind {name}; installed: {', '.join(sorted(kinds))}.")


# Finding the entry points opens a file of every installed package.
@cache
def list_installed() -> Mapping[str, DocumentKind]:
    """Return the built-in kinds and those of packages with an entry point `postroom.kinds`, by name."""
    kinds = {kind.name: kind for kind in (INVOICE, CONTRACT_NOTE)}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found = point.load()
        except Exception as error:
            raise SettingsError(
                f"The document kind {point.name} ({point.value}) cannot be imported"
                f" ({type(error).__name__}). Repair or uninstall its package."
            ) from error
        if not isinstance(found, DocumentKind):
            raise SettingsError(
                f"The entry point {point.name} ({point.value}) is not a DocumentKind."
                " Correct or uninstall its package."
            )
        _ = found.fields
        kinds[found.name] = found
    return MappingProxyType(kinds)
