"""What can be switched while the simulator runs. Where Google's behaviour is uncertain the default is the
harsher one.
"""

from typing import Annotated, Literal

import msgspec

QuotaShape = Literal["mixed", "403", "403-short", "429", "429-retry-after"]
Count = Annotated[int, msgspec.Meta(ge=0)]
PROJECT_UNITS = 1_200_000


class GoogleOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Each is set over the control API under its own name."""

    quota_shape: QuotaShape = "mixed"  # how an exhausted quota is told
    user_units: Count | None = None  # per minute; None: what the chosen table says
    project_units: Count = PROJECT_UNITS
    concurrent_calls: Count = 50  # of one user; 0: unlimited. The calls inside a batch run at the same time.
    metadata_scope_wins: bool = True  # gmail.metadata forbids search and bodies, whatever else was granted
    attachment_seconds: Count = 3600  # how long an attachment id works
    inline_text_bytes: Count = 200_000  # longer texts come as an attachment
    padding: Literal["mixed", "always", "never"] = "mixed"  # of base64url
    history_days: Annotated[float, msgspec.Meta(ge=0)] = 7.0
    history_label: Literal["after", "either"] = (
        "after"  # the labels of a changed message that `labelId` looks at
    )
    search_depth: Annotated[int, msgspec.Meta(ge=1)] = (
        500  # letters opened for one page of a search; a page may be short or empty
    )
    stop_status: Literal[200, 204] = 204
    watch_days: Annotated[float, msgspec.Meta(gt=0)] = 7.0
    push_history_id: Literal["number", "text"] = "number"
    push_per_second: Count = 1  # events of one watched user; the rest are dropped. 0: unlimited
    auto_consent: bool = False  # the consent page agrees by itself
