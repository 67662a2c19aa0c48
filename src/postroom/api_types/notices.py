"""Types of the destinations of notices in the API."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from postroom.api_types import Text
from postroom.notice_types import NoticeKind, NoticeMedium

# An hour of the day such as 22:00.
TimeOfDay = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
ReviewHours = Annotated[float, msgspec.Meta(ge=0.25, le=8760)]


class NoticeDestinationResource(msgspec.Struct, frozen=True):
    """A destination, without its URL, which is a secret. An empty list of `kinds` means all."""

    id: UUID
    name: str
    medium: NoticeMedium
    addresses: list[str]
    kinds: list[NoticeKind]
    review_hours: float
    quiet_from: str | None
    quiet_until: str | None
    time_zone: str
    failing_since: datetime | None
    last_error: str | None
    last_sent_at: datetime | None
    created_at: datetime


class NewNoticeDestination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Email needs `addresses`, Slack and Teams need the `url` of their incoming webhook."""

    medium: NoticeMedium
    name: Text = ""
    addresses: list[Text] = []
    url: Text | None = None
    kinds: list[NoticeKind] = []
    review_hours: ReviewHours = 24
    quiet_from: TimeOfDay | None = None
    quiet_until: TimeOfDay | None = None
    time_zone: Text = "UTC"


class NoticeDestinationChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Omitted fields keep their value. Quiet hours end with `"quiet_from": ""`."""

    name: Text | None = None
    addresses: list[Text] | None = None
    url: Text | None = None
    kinds: list[NoticeKind] | None = None
    review_hours: ReviewHours | None = None
    quiet_from: Text | None = None
    quiet_until: Text | None = None
    time_zone: Text | None = None


class NoticeTestResult(msgspec.Struct, frozen=True):
    """Whether the test notice was accepted. `error` may also say that some recipients were refused."""

    accepted: bool
    error: str | None
