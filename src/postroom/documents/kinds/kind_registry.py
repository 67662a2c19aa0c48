"""The document kinds that are installed: the built-in ones and those of other packages."""

from importlib.metadata import entry_points
from typing import Final

from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.invoice import INVOICE
from postroom.errors import PermanentError, SettingsError

ENTRY_POINT_GROUP: Final = "postroom.kinds"


def require_installed(name: str | None) -> None:
    """That a kind of this name is installed, where one is named."""
    there = list_installed()
    if name is not None and name not in there:
        raise PermanentError(f"There is no kind {name}; there are {', '.join(sorted(there))}.")


def list_installed() -> dict[str, DocumentKind]:
    """The kinds that ship and those of installed packages, found by the entry point `postroom.kinds`."""
    kinds = {kind.name: kind for kind in (INVOICE, CONTRACT_NOTE)}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found = point.load()
        except Exception as error:
            raise SettingsError(
                f"the kind {point.name} of {point.value} cannot be imported ({type(error).__name__}): "
                "repair or uninstall its package"
            ) from error
        if not isinstance(found, DocumentKind):
            raise SettingsError(f"the entry point {point.name} ({point.value}) is no Kind")
        _ = found.fields
        kinds[found.name] = found
    return kinds
