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


@dataclass(slots=True, eq=False)
class MessageDetails:
    """What clients store with a message, besides its bytes and state. Keys are in lower case."""

    extensions: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])  # by name
    properties: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])  # by ID
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])  # by ID
    flag_dates: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


NO_DETAILS = MessageDetails()  # shared: only `GraphContext.edit_details` makes details that may change


@dataclass(slots=True)
class OutlookProfile:
    """The settings that differ from the defaults, and master categories, rules and overrides by ID."""

    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    rules: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    has_categories: bool = False  # whether the default categories were added
    categories: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
