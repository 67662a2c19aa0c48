"""The page of a mailbox: folders as a tree, subscription, quota, how long a listing takes, audit button."""

import re
from html import unescape

from postroom.api_types import FolderResource
from postroom.web import folder_tree


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
    assert re.search(r"At this pace, done in about 3 h", page), page


async def test_admin_starts_an_audit(visitor, owner, organization, make_mailbox):
    mailbox = await make_mailbox(organization)
    assert "An audit is running" not in (await visitor.get(f"/mailboxes/{mailbox}")).text
    answer = await visitor.post(f"/mailboxes/{mailbox}/audit")
    assert answer.status_code == 303
    page = (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert "An audit is running" in page
    assert re.search(r'<button class="button" disabled>Audit now', page)
    cursor = await owner.execute("SELECT event_type FROM ledger WHERE event_type = 'AUDIT_REQUESTED'")
    assert len(await cursor.fetchall()) == 1
