"""What the control can order a provider to do to a mailbox. An unknown or misspelt property is an error."""

from typing import Literal

import msgspec

LifecycleEvent = Literal["missed", "reauthorizationRequired", "subscriptionRemoved"]


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`reason`: consent, password, or what else the provider knows: at Outlook session or an AADSTS code, at
    Gmail the trouble of an account. `client_id` (Outlook): only what that application was granted.
    """

    reason: str = "consent"
    client_id: str = ""


class Expiry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Now, and all of them: there is nothing to say."""


class Lifecycle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`subscription` empty: all of the mailbox. `shape` empty: as the options say."""

    event: LifecycleEvent
    subscription: str = ""
    shape: Literal["", "organization", "tenant"] = ""
