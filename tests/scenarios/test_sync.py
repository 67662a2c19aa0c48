"""Mailboxes of both simulated providers are mirrored; after each scenario the store equals the truth."""

import asyncio
from dataclasses import replace

from postroom.store import search
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import MORE_THAN_A_PAGE, postroom


async def test_a_first_sync_mirrors_the_whole_mailbox(room, provider):
    box = await room.mailbox(provider, messages=100, days=20)
    await box.sync()
    assert await box.check() == 100


async def test_whatever_its_owner_does_is_mirrored(room, provider):
    box = await room.mailbox(provider, messages=60, days=20)
    await box.sync()
    person = MailboxUser(room.world.sim, box.address, seed=7)
    for _ in range(4):
        person.act(15)
        await box.sync()
        await box.check()


async def test_folders_that_are_made_renamed_moved_and_deleted_are_followed(room, provider):
    box = await room.mailbox(provider, messages=40, days=20)
    await box.sync()
    person = MailboxUser(room.world.sim, box.address, seed=8)

    async def later():
        await room.move_clock(4000)  # labels are read again after an hour
        await box.sync()
        await box.check()
        rows = await box.rows("SELECT name FROM folders WHERE deleted_at IS NULL")
        return {name for (name,) in rows}

    outer, inner = person.make_folder("Projects"), person.make_folder("Bridge")
    for number in range(1, 11):
        person.sim.act(box.address, number, "move", folder=outer if number % 2 else inner)
    assert await later() >= {"Projects", "Bridge"}
    person.rename_folder(outer, "Old projects")
    assert {"Projects", "Old projects"} & await later() == {"Old projects"}
    person.move_folder(inner, "Bridge", under=outer)
    await later()
    parents = await box.rows("SELECT parent_provider_id, provider_folder_id FROM folders")
    ids = dict(await box.rows("SELECT name, provider_folder_id FROM folders"))
    [nested] = [name for name in ids if name.endswith("Bridge")]
    assert (ids["Old projects"], ids[nested]) in parents
    person.delete_folder(outer)
    assert "Old projects" not in await later()


async def test_an_expired_cursor_loses_and_doubles_nothing(room, provider):
    box = await room.mailbox(provider, messages=60, days=20)
    await box.sync()
    person = MailboxUser(room.world.sim, box.address, seed=9)
    person.act(25)
    box.sim.post(f"mailboxes/{box.address}/expire-cursors")
    await box.sync()
    await box.check()


async def test_a_cursor_that_expires_during_the_first_listing_loses_and_doubles_nothing(room, provider):
    box = await room.mailbox(provider, messages=MORE_THAN_A_PAGE[provider], days=20)
    box.context = replace(box.context, slice_seconds=0)
    await box.sync_once()
    assert await box.one("SELECT bool_or(completed_at IS NULL) FROM cursors WHERE kind = 'backfill'")
    box.context = replace(box.context, slice_seconds=5)
    person = MailboxUser(room.world.sim, box.address, seed=10)
    person.act(20)
    box.sim.post(f"mailboxes/{box.address}/expire-cursors")
    await box.sync()
    await box.check()


async def test_requests_of_a_sync_name_the_account_never_me(room, provider):
    box = await room.mailbox(provider, messages=8)
    box.sim.delete("requests")
    await box.sync()
    box.sim.deliver(box.address, kind="invoice")
    await box.sync()
    paths = [each["path"] for each in box.sim.get("requests", mailbox=box.address, limit=1000)]
    assert len(paths) > 3
    assert [path for path in paths if "me" in path.split("/")] == []


async def test_words_only_in_html_are_found(room, provider):
    box = await room.mailbox(provider)
    text = "<p>Dear all,</p>" + "<p>not yet</p>" * 50 + "<p>the word is <b>albatross</b></p>"
    box.sim.deliver(box.address, b"Subject: x\r\nContent-Type: text/html\r\n\r\n" + text.encode())
    await box.sync()
    async with room.world.database.transaction(box.organization) as connection:
        found = await search.search_messages(connection, "albatross")
    assert len(found) == 1


async def test_every_message_has_its_size(room, provider):
    box = await room.mailbox(provider, messages=8, days=10)
    await box.sync()
    sizes = dict(await box.rows("SELECT provider_message_id, size FROM messages"))
    assert sizes == {each["id"]: each["size"] for each in box.sim.truth(box.address)}


async def test_an_emptied_mailbox_is_empty(room, provider):
    box = await room.mailbox(provider, messages=30, days=20)
    await box.sync()
    for each in box.sim.truth(box.address, digests=False):
        box.sim.delete(f"mailboxes/{box.address}/messages/{each['number']}")
    await box.sync()
    assert await box.check() == 0


async def test_only_the_window_is_mirrored_to_its_very_edge(room, provider):
    """Graph returns whole seconds, Gmail thousandths: messages lie close together where the window begins."""
    sim, address = room.world.sim, f"window.{provider}@example.com"
    sim.create(provider, address, messages=20, days=20)
    for _ in range(60):
        sim.move_clock(0.3)
        sim.deliver(address)
    MailboxUser(sim, address, seed=15).draft()
    now = sim.move_clock(30 * 86_400 - 14)
    # Real time passed too. From here on it may move the edge of the window by 14 seconds.
    await room.owner.execute("UPDATE clock_offset SET ahead = %s::timestamptz - clock_timestamp()", [now])
    box = await room.connect(provider, address)
    await box.sync()
    since = await box.one("SELECT min(since) FROM cursors")
    assert 2 < await box.check(since=since) < 59


async def test_one_account_of_two_organizations_is_mirrored_by_each(
    room, provider, database_url, owner, other_organization, tmp_path
):
    box = await room.mailbox(provider, messages=30, days=20)
    async with postroom(room.world.sim, database_url, owner, other_organization, tmp_path) as other:
        twin = await other.connect(provider, box.address)
        await box.wake()
        await asyncio.gather(box.sync(), twin.sync())
        MailboxUser(room.world.sim, box.address, seed=11).act(15)
        await box.wake()
        await asyncio.gather(box.sync(), twin.sync())
        await box.check()
        await twin.check()


async def test_one_new_message_costs_three_requests(room, provider):
    box = await room.mailbox(provider, messages=30, days=20)
    person = MailboxUser(room.world.sim, box.address, seed=12)
    for number in range(6):
        person.make_folder(f"Folder {number}")
    await box.sync()
    before = box.sim.get("requests", limit=1)[0]["number"]
    recorded = box.sim.deliver(box.address)
    await box.hint(recorded["id"])
    await box.sync()
    await box.check()
    assert len(box.requests(after=before)) <= 3, [each["path"] for each in box.requests(after=before)]
