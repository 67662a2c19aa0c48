"""GoogleOptions: the options of simulated Google and Gmail, changeable at run time.

Where Google's behavior is uncertain, the default is the stricter variant.
"""

from typing import Annotated, Literal

import msgspec

QuotaShape = Literal["mixed", "403", "403-short", "429", "429-retry-after"]
Count = Annotated[int, msgspec.Meta(ge=0)]
PROJECT_UNITS = 1_200_000


class GoogleOptions(msgspec.Struct, forbid_unknown_fields=True):
    """The options, set over the control API by name."""

    quota_shape: QuotaShape = "mixed"  # the error for an exhausted quota
    user_units: Count | None = None  # per minute; None: the limit of the selected cost table
    project_units: Count = PROJECT_UNITS
    concurrent_calls: Count = 50  # per user, calls inside a batch included; 0: unlimited
    metadata_scope_wins: bool = True  # gmail.metadata forbids search and bodies even beside wider scopes
    attachment_seconds: Count = 3600  # lifetime of an attachment ID
    inline_text_bytes: Count = 200_000  # longer texts are returned as attachments
    padding: Literal["always", "mixed", "never"] = "always"  # of base64url; mixed: every second message
    history_days: Annotated[float, msgspec.Meta(ge=0)] = 7.0
    history_label: Literal["after", "either"] = (
        "after"  # which labels of a changed message `labelId` is compared with
    )
    search_depth: Annotated[int, msgspec.Meta(ge=1)] = (
        500  # messages parsed for one page of a search; a page may be short or empty
    )
    stop_status: Literal[200, 204] = 204
    watch_days: Annotated[float, msgspec.Meta(gt=0)] = 7.0
    push_history_id: Literal["number", "text"] = "number"
    push_per_second: Count = 1  # notifications per watched user; more are dropped. 0: unlimited
    auto_consent: bool = False  # grant consent without showing the page
