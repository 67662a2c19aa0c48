"""MailboxSettings: what the methods of users.settings store about one mailbox."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class MailboxSettings:
    """The settings that differ from the defaults; lists are by address in lower case."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    primary: dict[str, Any] = field(default_factory=dict[str, Any])  # changes of the primary alias
    aliases: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    forwarding: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    delegates: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
