"""Threads on the pages: found by folder and label, page by page, read in order, however many there are."""

import re

import pytest

from postroom.store.views import threads

THREADS, EACH = 120, 3


@pytest.fixture
def write(owner, organization):
    """Mail in `count` threads, a message a minute, the newest of thread 0; the threads' ids by key."""

    async def write(mailbox, *, count=THREADS, each=EACH, folder=None, labels=(), key="t"):
        values = {
            "organization": organization, "mailbox": mailbox, "count": count, "each": each,
            "folder": folder, "labels": list(labels), "key": key,
        }  # fmt: skip
        cursor = await owner.execute(
            """
            INSERT INTO threads (organization_id, mailbox_id, provider_thread_id, subject, message_count)
            SELECT %(organization)s, %(mailbox)s, %(key)s || n, 'Talk ' || %(key)s || n, %(each)s
            FROM generate_series(0, %(count)s - 1) AS n RETURNING provider_thread_id, id
            """,
            values,
        )
        made = dict(await cursor.fetchall())
        await owner.execute(
            """
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, folder_id,
                labels, from_name, from_address, received_at, subject, snippet)
            SELECT %(organization)s, %(mailbox)s, threads.id, %(key)s || n, %(folder)s, %(labels)s, 'Ann',
                'ann@example.org', now() - n * interval '1 minute', 'Talk', 'snippet ' || n
            FROM generate_series(0, %(count)s * %(each)s - 1) AS n
            JOIN threads ON mailbox_id = %(mailbox)s AND provider_thread_id = %(key)s || n %% %(count)s
            """,
            values,
        )
        return made

    return write


@pytest.fixture
def make_folder(owner, organization):
    async def make(mailbox, name):
        cursor = await owner.execute(
            """
            INSERT INTO folders (organization_id, mailbox_id, provider_folder_id, name)
            VALUES (%s, %s, %s, %s) RETURNING id
            """,
            [organization, mailbox, name, name],
        )
        return (await cursor.fetchone())[0]

    return make


def listed(text):
    return [int(each) for each in re.findall(r'id="thread-(\d+)"', text)]


async def test_threads_are_listed_once_newest_first(visitor, make_mailbox, organization, write):
    mailbox = await make_mailbox(organization)
    made = await write(mailbox)
    address, found, looked = f"/mailboxes/{mailbox}?view=threads", [], 0
    while address:
        shown = (await visitor.get(address)).text
        found += listed(shown)
        older = re.search(r'href="([^"]+)">Older messages</a>', shown)
        address, looked = older and older[1].replace("&amp;", "&"), looked + 1
    assert found == list(made.values())
    assert looked == 3
    assert ">Talk t0<" in (await visitor.get(f"/mailboxes/{mailbox}?view=threads")).text


async def test_threads_are_filtered_by_folder_and_by_label(
    visitor, owner, make_mailbox, make_folder, organization, write
):
    outlook = await make_mailbox(organization, provider="outlook")
    inbox, orders = await make_folder(outlook, "Inbox"), await make_folder(outlook, "Orders")
    first = await write(outlook, count=2, folder=inbox)
    second = await write(outlook, count=1, folder=orders, key="s")
    await owner.execute(
        "UPDATE messages SET folder_id = %s WHERE provider_message_id = 't5'", [orders]
    )  # the oldest of the second talk was moved

    async def of(mailbox, folder):
        return listed((await visitor.get(f"/mailboxes/{mailbox}?view=threads&folder={folder}")).text)

    assert await of(outlook, inbox) == list(first.values())
    assert await of(outlook, orders) == [second["s0"], first["t1"]]
    await owner.execute("UPDATE messages SET deleted_at = now() WHERE provider_message_id = 't5'")
    assert await of(outlook, orders) == [second["s0"]]

    gmail = await make_mailbox(organization)
    label = await make_folder(gmail, "Acme")
    await write(gmail, count=2)
    labelled = await write(gmail, count=1, labels=["Acme"], key="l")
    assert await of(gmail, label) == list(labelled.values())


async def test_thread_page_shows_messages_in_order_with_the_newest_open(
    visitor, owner, make_mailbox, organization, write
):
    mailbox = await make_mailbox(organization)
    made = await write(mailbox, count=1, each=60)
    shown = (await visitor.get(f"/threads/{made['t0']}")).text
    numbers = [int(each) for each in re.findall(r"snippet (\d+)", shown)]
    assert numbers == list(range(49, -1, -1))
    assert len(re.findall(r"<details class=\"tile thread-message\"[^>]* open>", shown)) == 1
    assert "does not store the text" in shown
    earlier = re.search(r'href="([^"]+)">Earlier messages<', shown)[1]
    before = (await visitor.get(earlier)).text
    assert [int(each) for each in re.findall(r"snippet (\d+)", before)] == list(range(59, 49, -1))
    await owner.execute(
        """
        INSERT INTO message_contents (organization_id, message_id, body_html, search)
        SELECT organization_id, id, '<p>x</p>', '' FROM messages
        """
    )
    readable = (await visitor.get(f"/threads/{made['t0']}")).text
    assert "does not store the text" not in readable
    assert readable.count('sandbox="allow-popups allow-popups-to-escape-sandbox" src="/messages/') == 50
    assert (await visitor.get("/threads/999999")).status_code == 404


async def test_thread_list_reads_a_bounded_number_of_rows(
    visitor, database, owner, make_mailbox, make_folder, organization, write
):
    mailbox = await make_mailbox(organization)
    inbox, rare = await make_folder(mailbox, "Inbox"), await make_folder(mailbox, "Rare")
    await write(mailbox, count=7000, folder=inbox)
    await write(mailbox, count=10, each=2, folder=rare, key="r")
    await owner.execute("ANALYZE messages, threads")
    async with database.transaction(organization) as connection:
        for folder in (None, inbox, rare):
            values = {
                "mailbox": mailbox, "folder": folder, "label": None, "at": None, "id": 0, "limit": 51,
                "walked": threads.MAX_SCANNED_MESSAGES, "named": threads.MAX_NAMED_SENDERS,
            }  # fmt: skip
            cursor = await connection.execute(
                "EXPLAIN (ANALYZE, FORMAT JSON) " + threads._LIST_THREADS, values, prepare=False
            )
            [plan] = (await cursor.fetchone())[0]
            assert read_by(plan["Plan"]) < 500, (folder, plan)
    await owner.execute("UPDATE messages SET folder_id = NULL")
    # An unused label is searched for a stretch at a time.
    shown = (await visitor.get(f"/mailboxes/{mailbox}?view=threads&folder={rare}")).text
    assert "No matches among the newest messages" in shown
    older = re.search(r'href="([^"]+)">Older messages</a>', shown)[1].replace("&amp;", "&")
    assert "No threads here yet" in (await visitor.get(older)).text


def read_by(plan):
    """How many rows of tables a plan looked at; none of it by reading all messages or threads."""
    if plan["Node Type"] == "Seq Scan":  # right for a handful of folders
        assert plan["Relation Name"] not in {"messages", "threads"}, plan
    own = 0
    if "Relation Name" in plan:
        dropped = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        own = (plan["Actual Rows"] + dropped) * plan["Actual Loops"]
    return own + sum(read_by(each) for each in plan.get("Plans", ()))
