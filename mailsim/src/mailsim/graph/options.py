"""MicrosoftOptions: the options of simulated Entra and Graph, changeable at run time.

Where Microsoft's behavior is uncertain, the default is the stricter one.
"""

from typing import Literal

import msgspec


class MicrosoftOptions(msgspec.Struct, forbid_unknown_fields=True):
    """The control API sets each option under its own name."""

    auto_consent: bool = False  # consent without a page, for the account of login_hint or the first
    generations: int = 3  # rounds of a folder whose delta links stay valid; 0: all
    gone_location: bool = False  # 410 has a Location header
    retry_after: Literal["always", "sometimes", "never"] = "sometimes"
    partial_updates: bool = True  # a delta entry of a changed message contains only the changed properties
    delta_page: int = 10
    delta_largest_page: int = 1000
    attachments_page: int = 0  # default page size without $top; 0: all
    lifecycle_shape: Literal["tenant", "organization", "both"] = "both"
    reauthorization: bool = True  # pause pushes once the subscription's access token has expired
    subscriptions_per_mailbox: int = 1000
    revalidate: bool = False  # PATCH of the expiration repeats the handshake
    echo_updates: bool = False  # send an `updated` push after each `created` push
    push_seconds: float = 0.0  # delay before the first attempt, on the simulator's clock
    push_batch: int = 100
    first_timeout: float = 3.0  # real seconds, as the next two
    retry_timeout: float = 10.0
    validation_timeout: float = 10.0
