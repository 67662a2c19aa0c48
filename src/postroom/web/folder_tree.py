"""The folders of a mailbox in the order of their tree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from postroom.api_types import FolderResource
from postroom.web.pages import folder_label

MAX_DEPTH: Final = 6  # deeper folders are shown at this depth
_RANK: Final = {"inbox": 0, "archive": 1, "sent": 2, "drafts": 3, "spam": 6, "trash": 7}
_STATES: Final = ("UNREAD", "CHAT")  # Gmail labels that are states, not folders


@dataclass(frozen=True, slots=True)
class FolderNode:
    """A folder, its own name without those of its parents, and how deep it is."""

    folder: FolderResource
    name: str
    depth: int


def build_tree(folders: Sequence[FolderResource]) -> list[FolderNode]:
    """Each folder before its children: the inbox first, then the user's own folders, then spam and trash."""
    shown = [folder for folder in folders if folder.provider_folder_id not in _STATES]
    shown.sort(key=lambda folder: (_RANK.get(folder.role or "", 5), folder.name.casefold()))
    by_name = {folder.name: folder for folder in shown}
    by_provider_id = {folder.provider_folder_id: folder for folder in shown}
    children: dict[int | None, list[FolderResource]] = {}
    for folder in shown:
        parent = by_provider_id.get(folder.parent_provider_id or "") or _find_parent_by_name(folder, by_name)
        children.setdefault(parent.id if parent else None, []).append(folder)
    nodes: list[FolderNode] = []
    pending = [(folder, "", 0) for folder in reversed(children.get(None, []))]
    while pending:
        folder, parent_name, depth = pending.pop()
        name = folder.name.removeprefix(f"{parent_name}/") if parent_name else folder_label(folder.name)
        nodes.append(FolderNode(folder, name, min(depth, MAX_DEPTH)))
        pending += [(child, folder.name, depth + 1) for child in reversed(children.get(folder.id, []))]
    reached = {node.folder.id for node in nodes}
    # Moves may leave a circle of parents, which no root leads to.
    lost = [folder for folder in shown if folder.id not in reached]
    return nodes + [FolderNode(folder, folder_label(folder.name), 0) for folder in lost]


def _find_parent_by_name(
    folder: FolderResource, by_name: Mapping[str, FolderResource]
) -> FolderResource | None:
    """The nearest parent of a Gmail label, whose name has those of its parents before slashes."""
    name = folder.name
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in by_name:
            return by_name[name]
    return None
