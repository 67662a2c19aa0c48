"""MailboxSettings: what the methods of users.settings store about one mailbox."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class MailboxSettings:
    """The settings that differ from the defaults; lists are by address in lower case or by ID."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    primary: dict[str, Any] = field(default_factory=dict[str, Any])  # changes of the primary alias
    aliases: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    forwarding: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    delegates: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    filters: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    # by alias, then by ID
    smime: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, dict[str, dict[str, Any]]])
    cse_identities: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    cse_key_pairs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
