"""OutlookProfile: what a mailbox's owner configures over Graph, besides messages and folders."""

from dataclasses import dataclass, field
from typing import Any

DEFAULT_CATEGORIES = {
    "Red category": "preset0",
    "Orange category": "preset1",
    "Yellow category": "preset3",
    "Green category": "preset4",
    "Blue category": "preset7",
    "Purple category": "preset8",
}


@dataclass(slots=True)
class OutlookProfile:
    """The settings that differ from the defaults, and the master categories and rules by ID."""

    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    rules: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    has_categories: bool = False  # whether the default categories were added
    categories: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
