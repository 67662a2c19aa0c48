"""Request bodies of the control API's actions on a mailbox: revoke, expire, send a lifecycle event.

Structs only, with the names that a provider knows. They are here because providers carry the actions out.
Unknown properties are rejected.
"""

from typing import Literal

import msgspec

LifecycleEvent = Literal["missed", "reauthorizationRequired", "subscriptionRemoved"]


class RevocationRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Revoke what a user granted.

    `reason` is `consent` or `password`, at Outlook also `session` or an AADSTS code, at Gmail also an account
    problem. `client_id` (Outlook only) restricts the revocation to one application.
    """

    reason: str = "consent"
    client_id: str = ""


class ProviderNames(msgspec.Struct, frozen=True):
    """The names that the control API knows for one provider.

    `fault_codes` holds the codes of the fault kinds that have some, "" among them if there is a default.
    """

    endpoints: list[str]
    fault_codes: dict[str, list[str]]
    revocation_reasons: list[str]


class ExpiryRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Expire all tokens or cursors of the mailbox now. It has no parameters."""


class LifecycleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send a lifecycle event.

    An empty `subscription` means all subscriptions of the mailbox, an empty `shape` the configured one.
    """

    event: LifecycleEvent
    subscription: str = ""
    shape: Literal["", "organization", "tenant"] = ""
