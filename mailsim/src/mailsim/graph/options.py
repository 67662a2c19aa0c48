"""What can be switched while the simulator runs. Where Microsoft's behaviour is uncertain, the default is the
harsher one.
"""

from typing import Literal

import msgspec


class MicrosoftOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Each is set over the control API under its own name."""

    auto_consent: bool = (
        False  # the consent page agrees by itself, for the account of login_hint or the first
    )
    generations: int = 3  # delta links of so many rounds of a folder stay alive; 0: all
    gone_location: bool = False  # 410 carries a Location
    retry_after: Literal["always", "sometimes", "never"] = "sometimes"
    partial_updates: bool = True  # a delta entry of a changed message holds only what changed
    delta_page: int = 10
    delta_largest_page: int = 1000
    attachments_page: int = 0  # of a message without $top; 0: all
    drafts_received: bool = False  # drafts have a receivedDateTime
    lifecycle_shape: Literal["tenant", "organization", "both"] = "both"
    reauthorization: bool = True  # pushes pause when the subscription's access token has expired
    subscriptions_per_mailbox: int = 1000
    revalidate: bool = False  # PATCH of the expiration checks the URL again
    echo_updates: bool = False  # a created push is followed by an updated one
    push_seconds: float = 0.0  # how long a push waits before its first attempt, on the simulator's clock
    push_batch: int = 100
    first_timeout: float = 3.0  # real seconds, as the next two
    retry_timeout: float = 10.0
    validation_timeout: float = 10.0
