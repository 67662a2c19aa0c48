"""The timeline of a mailbox: what happened to it, in plain words, page by page."""

import re
from html import unescape

import pytest

from postroom.store import ledger
from postroom.store.ledger import NewLedgerEntry
from postroom.web import mailbox_timeline
from postroom.web.formats import DEFAULT


@pytest.fixture
def record(database, organization):
    async def record(*entries):
        async with database.transaction(organization) as connection:
            await ledger.append_entries(connection, organization, [NewLedgerEntry(*each) for each in entries])

    return record


def read_entries(page):
    """The texts of the entries, without their times."""
    [timeline] = re.findall(r'<ol class="timeline">(.*?)</ol>', page, re.DOTALL)
    items = re.findall(r"<li[^>]*>(.*?)</li>", timeline, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<time.*?</time>|<[^>]+>", " ", item)).split()) for item in items]


async def test_timeline_describes_events_of_the_mailbox_and_its_subscriptions(
    visitor, owner, organization, make_mailbox, record
):
    mailbox, other = await make_mailbox(organization), await make_mailbox(organization)
    cursor = await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url)
        VALUES (%s, %s, '', '') RETURNING id
        """,
        [organization, mailbox],
    )
    [(subscription,)] = await cursor.fetchall()
    errors = {"errors": 2, "messages_synced": 1500}
    await record(
        ("MAILBOX_CONNECTED", "mailbox", str(mailbox), None, {"policy": "metadata"}),
        ("SYNC_STARTED", "mailbox", str(mailbox)),
        ("SYNC_COMPLETED", "mailbox", str(mailbox), None, {"errors": 0}),
        ("SYNC_COMPLETED", "mailbox", str(mailbox), None, errors),
        ("SUBSCRIPTION_RENEWED", "subscription", str(subscription), None, {}),
        (
            "SUBSCRIPTION_RECREATED",
            "subscription",
            str(subscription),
            None,
            {"expires_at": "2026-03-01T10:00:00+00:00"},
        ),
        ("TOKEN_REFRESH_FAILED", "mailbox", str(mailbox), None, {"error": "invalid <grant>"}),
        ("AUDIT_COMPLETED", "mailbox", str(mailbox), None, {"listed": 9, "missing": 1, "extra": 0}),
        ("MAILBOX_PAUSED", "mailbox", str(mailbox), "command line"),
        ("MAILBOX_PAUSED", "mailbox", str(other)),
    )
    page = (await visitor.get(f"/mailboxes/{mailbox}/timeline")).text
    assert read_entries(page) == [
        "Paused by command line",
        "Audit completed 9 messages compared: 1 missing.",
        "Consent lost: reconnect the mailbox invalid <grant>",
        "Subscription replaced Expires 2026-03-01 10:00:00 UTC.",
        "Sync with errors 2 items failed; 1,500 messages synced.",
        "Connected Content policy: Metadata only.",
    ]
    assert re.search(r'<time datetime="[^"]+" title="[^"]+ UTC">just now</time>', page)
    assert f'href="/mailboxes/{mailbox}/timeline"' in (await visitor.get(f"/mailboxes/{mailbox}")).text


async def test_pages_of_the_timeline_show_every_event_once(
    visitor, organization, make_mailbox, record, monkeypatch
):
    monkeypatch.setattr(mailbox_timeline, "PAGE_SIZE", 2)
    mailbox = await make_mailbox(organization)
    await record(*[("MAILBOX_PAUSED", "mailbox", str(mailbox), f"person {number}") for number in range(5)])
    seen, path = [], f"/mailboxes/{mailbox}/timeline"
    while path:
        page = (await visitor.get(path)).text
        seen.append(read_entries(page))
        older = re.search(r'href="([^"]+)">Older events', page)
        path = older and older[1]
        await record(("MAILBOX_RESUMED", "mailbox", str(mailbox)))
    assert seen == [
        ["Paused by person 4", "Paused by person 3"],
        ["Paused by person 2", "Paused by person 1"],
        ["Paused by person 0"],
    ]


def test_event_without_a_description_is_shown_by_its_name():
    entry = mailbox_timeline.LedgerEntryResource(
        1, None, "MAILBOX_WAS_MOVED", "mailbox", "m", None, {}, "", None
    )
    assert mailbox_timeline.describe_entry(entry, {}, DEFAULT).title == "Mailbox was moved"
