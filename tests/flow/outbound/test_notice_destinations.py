"""A destination that cannot be notified is refused when it is entered, with the reason."""

from dataclasses import replace

import pytest

from postroom.errors import PermanentError
from postroom.flow.outbound import notices as flow
from postroom.flow.outbound.notices import DestinationInput
from postroom.model import Secret
from postroom.notice_types import NoticeMedium
from postroom.store.notices import NoticeSelection


@pytest.mark.parametrize(
    "medium, changed, words",
    [
        ("email", {"addresses": ()}, "1 to 20 addresses"),
        ("email", {"addresses": ("a@example.com\r\nBcc: b@example.com",)}, "not valid"),
        ("email", {"url": Secret("https://x.example")}, "not a URL"),
        ("slack", {}, "not email addresses"),
        ("slack", {"addresses": ()}, "needs the URL"),
        ("teams", {"addresses": (), "url": Secret("nonsense")}, "needs a URL"),
        ("email", {"name": "x" * 101}, "at most 100"),
        ("email", {"selection": NoticeSelection(review_hours=0)}, "0.25 to 8760"),
        ("email", {"selection": NoticeSelection(quiet_from="22:00")}, "a start and an end"),
        ("email", {"selection": NoticeSelection(quiet_from="25:00", quiet_until="1")}, "a start and an end"),
        (
            "email",
            {"selection": NoticeSelection(quiet_from="07:00", quiet_until="07:00")},
            "cannot start and end at the same time",
        ),
        ("email", {"selection": NoticeSelection(time_zone="Mars/Base")}, "time zone is not known"),
    ],
)
async def test_invalid_destination_is_explained(context, organization, medium, changed, words):
    given = replace(DestinationInput("", ("ap@example.com",), None, NoticeSelection()), **changed)
    with pytest.raises(PermanentError, match=words):
        await flow.add(context, organization, NoticeMedium(medium), given)


async def test_email_needs_a_mail_server(context, organization):
    given = DestinationInput("", ("ap@example.com",), None, NoticeSelection())
    with pytest.raises(PermanentError, match="POSTROOM_SMTP_URL"):
        await flow.add(replace(context, send_mail=None), organization, NoticeMedium.EMAIL, given)
