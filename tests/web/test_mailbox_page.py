"""The page of a mailbox: folders as a tree, subscription, quota, how long a listing takes, audit."""

import re
from html import unescape

import pytest
from playwright.async_api import expect

from browsers import needs_browser
from postroom.api_types import FolderResource
from postroom.model import OrganizationId
from postroom.web import folder_tree
from web.sign_in_support import ORGANIZATION
from web.test_pages_browser import browsing


def folder(number, name, parent=None, role=None):
    return FolderResource(number, None, f"f{number}", parent, name, role)


def test_children_follow_their_folder():
    folders = [
        folder(1, "Trash", role="trash"), folder(2, "Projects"), folder(3, "Zebra", parent="f2"),
        folder(4, "Acme", parent="f2"), folder(5, "Bills", parent="f4"), folder(6, "Inbox", role="inbox"),
    ]  # fmt: skip
    tree = folder_tree.build_tree(folders)
    assert [(node.name, node.depth) for node in tree] == [
        ("Inbox", 0), ("Projects", 0), ("Acme", 1), ("Bills", 2), ("Zebra", 1), ("Trash", 0)
    ]  # fmt: skip


def test_labels_are_nested_by_their_names():
    tree = folder_tree.build_tree(
        [folder(1, "A/B/C"), folder(2, "A"), folder(3, "UNREAD"), folder(4, "A/x/y")]
    )
    assert [(node.name, node.depth) for node in tree] == [("A", 0), ("B/C", 1), ("x/y", 1), ("Unread", 0)]


def test_folders_in_a_circle_are_shown():
    tree = folder_tree.build_tree([folder(1, "A", parent="f2"), folder(2, "B", parent="f1")])
    assert [(node.name, node.depth) for node in tree] == [("A", 0), ("B", 0)]


def read_facts(page):
    """The names and values of the tiles."""
    pairs = re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", page, re.DOTALL)
    return {name: " ".join(unescape(re.sub(r"<[^>]+>", " ", value)).split()) for name, value in pairs}


async def test_mailbox_page_shows_subscription_quota_and_the_rest_of_a_listing(
    visitor, owner, organization, make_mailbox
):
    mailbox = await make_mailbox(organization)
    page = (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert read_facts(page)["Subscription"] == "none, polled instead"
    values = {"organization": organization, "mailbox": mailbox}
    await owner.execute(
        """
        INSERT INTO quota_usage (organization_id, mailbox_id, minute, share)
        VALUES (%(organization)s, %(mailbox)s, date_trunc('minute', postroom_now()), 0.25),
            (%(organization)s, %(mailbox)s, date_trunc('minute', postroom_now()) - interval '5 hours', 0.8)
        """,
        values,
    )
    await owner.execute(
        """
        INSERT INTO cursors (organization_id, mailbox_id, kind, scope, listed, expected, started_at)
        VALUES (%(organization)s, %(mailbox)s, 'backfill', '', 100, 400, postroom_now() - interval '1 hour')
        """,
        values,
    )
    page = (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert read_facts(page)["Highest quota use"] == "25% in 1 h, 80% in 24 h"
    assert re.search(r"At this rate, done in about 3 h", page), page


async def test_pages_name_what_a_listing_does(visitor, owner, organization, make_mailbox):
    mailbox = await make_mailbox(organization)

    async def read_listing():
        page = (await visitor.get(f"/mailboxes/{mailbox}")).text
        tile = re.search(r"<h2>((?:First|Full) \w+)</h2>(.*?)</section>", page, re.DOTALL)
        text = " ".join(unescape(re.sub(r"<[^>]+>", " ", tile[2])).split())
        facts = read_facts((await visitor.get("/mailboxes")).text)
        [(name, value)] = [(name, value) for name, value in facts.items() if name.startswith("F")]
        return tile[1], text, name, value

    assert await read_listing() == ("First sync", "Not started", "First sync", "Not started")
    await owner.execute("UPDATE mailboxes SET last_synced_at = postroom_now()")
    assert await read_listing() == ("First sync", "Complete", "First sync", "Complete")
    await owner.execute(
        """
        INSERT INTO cursors (organization_id, mailbox_id, kind, scope, listed, expected)
        VALUES (%s, %s, 'resync', '', 100, 400)
        """,
        [organization, mailbox],
    )
    shown = "100 of about 400 messages"
    name, text, *card = await read_listing()
    assert (name, card) == ("Full resync", ["Full resync", shown])
    assert text.startswith(shown)


async def test_admin_starts_an_audit(visitor, owner, organization, make_mailbox):
    mailbox = await make_mailbox(organization)
    page = (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert "An audit" not in page
    assert "Available once the first sync is complete" in page
    answer = await visitor.post(f"/mailboxes/{mailbox}/audit")
    assert answer.status_code == 303
    page = (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert "An audit starts as soon as a worker is free." in page
    assert re.search(r'<button class="button" disabled>Audit now', page)
    cursor = await owner.execute("SELECT event_type FROM ledger WHERE event_type = 'AUDIT_REQUESTED'")
    assert len(await cursor.fetchall()) == 1


@pytest.fixture
async def own_mailbox(owner, make_mailbox):
    """A synced mailbox of the web process's organization, with one message."""
    await owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'x') ON CONFLICT DO NOTHING", [ORGANIZATION]
    )
    mailbox = await make_mailbox(OrganizationId(ORGANIZATION))
    await owner.execute("UPDATE mailboxes SET last_synced_at = postroom_now() WHERE id = %s", [mailbox])
    return mailbox


async def list_for_audit(owner, mailbox, *keys):
    await owner.execute(
        """
        INSERT INTO listed_messages (organization_id, mailbox_id, kind, scope, provider_message_id)
        SELECT %s, %s, 'audit', '', unnest(%s::text[])
        """,
        [ORGANIZATION, mailbox, list(keys)],
    )


@needs_browser
async def test_page_follows_an_audit_until_its_result(owner, own_mailbox, database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        await page.goto(f"/mailboxes/{own_mailbox}")
        await page.get_by_role("button", name="Audit now").click()
        tile = page.get_by_role("region", name="Audit")
        await expect(tile).to_contain_text("An audit starts as soon as a worker is free.")
        await list_for_audit(owner, own_mailbox, "a", "b")
        await owner.execute(
            """
            UPDATE work SET state = 'leased', lease_token = gen_random_uuid(), due_at = NULL,
                leased_until = postroom_now() + interval '1 hour'
            WHERE kind = 'audit'
            """
        )
        await expect(tile).to_contain_text("An audit is running: 2 of about 0 messages compared.")
        await list_for_audit(owner, own_mailbox, "c")
        await expect(tile).to_contain_text("An audit is running: 3 of about 0 messages compared.")
        await owner.execute("DELETE FROM work WHERE kind = 'audit'")
        await owner.execute(
            """
            INSERT INTO audits (organization_id, mailbox_id, started_at, listed, missing, extra, different,
                missing_ids, extra_ids, different_ids)
            VALUES (%s, %s, postroom_now(), 3, 0, 0, 0, '{}', '{}', '{}')
            """,
            [ORGANIZATION, own_mailbox],
        )
        await expect(tile).to_contain_text("Identical 3 messages compared")
        await expect(page.get_by_role("button", name="Audit now")).to_be_enabled()
        assert complaints == []
