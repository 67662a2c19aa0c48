"""The request to connect a mailbox: account and content policy. A value, no logic."""

from dataclasses import dataclass

from postroom.model import ContentPolicy, MailboxId


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """What to connect: any account, one address, or a mailbox that must be reconnected.

    Without a policy, a known mailbox keeps its own and a new one gets `full`.
    """

    policy: ContentPolicy | None = None
    address: str | None = None
    mailbox: MailboxId | None = None
    force_consent: bool = False
