"""What reading promises for both providers: folders, listings, changes, looks, messages and their bytes."""

from datetime import datetime, timedelta

import pytest

from mailsim import samples
from postroom.errors import CursorExpired, NotFound, UnsupportedByProvider
from postroom.model import ContentPolicy, FetchedMessage, FetchFailure, FolderRole, Presence
from providers.reader import (
    assert_state,
    attached,
    changed,
    digests,
    fetched,
    is_gmail,
    listed,
    scopes,
    sha256,
    truth,
    wanted,
)

DRAFT = b"From: me@example.com\r\nTo: you@example.org\r\nSubject: Draft %d\r\n\r\nNot yet.\r\n"


def now(contract) -> datetime:
    return datetime.fromisoformat(contract.sim.get("clock")["now"])


async def test_a_listing_contains_every_message_and_fetching_returns_its_content(contract):
    contract.sim.deliver(contract.address, kind="invoice", count=5)
    contract.sim.deliver(contract.address, kind="plain", count=110)
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    real = truth(contract)
    assert set(found) == set(real)
    for each in await fetched(mailbox, list(found.values())):
        assert isinstance(each, FetchedMessage)
        assert_state(contract, each.state, real[each.key])
        assert each.state.received_at.timestamp() == pytest.approx(real[each.key]["received"] / 1000, abs=1)
        assert each.content.subject == real[each.key]["subject"]
        assert each.content.internet_message_id == real[each.key]["message_id"]
        assert each.content.sender.address
        assert each.content.body_html or each.content.body_plain
        assert await digests(mailbox, each) == attached(real[each.key])
        if is_gmail(contract):
            assert sha256(each.content.raw) == real[each.key]["sha256"]
            assert each.content.size == real[each.key]["size"]


async def test_a_listing_since_a_time_contains_all_messages_received_since(contract):
    await contract.wait(days=40)
    late = [contract.sim.deliver(contract.address, kind="plain")["id"] for _ in range(3)]
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox, since=now(contract) - timedelta(days=30))
    assert set(late) <= set(found)
    assert set(late) == {
        key
        for key in found
        if is_gmail(contract) or found[key].state.received_at >= now(contract) - timedelta(days=30)
    }


async def test_every_kind_of_message_is_fetched_with_its_attachments(contract):
    for kind in samples.list_kinds():
        for variant in samples.list_variants(kind):
            contract.sim.deliver(contract.address, kind=kind, variant=variant)
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    real = truth(contract)
    broken = []
    for each in await fetched(mailbox, list(found.values())):
        assert isinstance(each, FetchedMessage)
        if await digests(mailbox, each) != attached(real[each.key]):
            broken.append(real[each.key]["subject"])
        if is_gmail(contract):
            parts = {one["part"] for one in real[each.key]["attachments"] if not one.get("nested")}
            assert {one.part for one in each.content.attachments} == parts
    assert broken == []
    assert len(found) > 150


async def test_folders_are_listed_with_their_roles_and_parents_first(contract):
    sim, address = contract.sim, contract.address
    clients = sim.post(f"mailboxes/{address}/folders", name="Clients")
    inside = {"parent": clients["key"], "name": "Acme"}
    if is_gmail(contract):
        inside = {"name": "Clients/Acme"}
    acme = sim.post(f"mailboxes/{address}/folders", **inside)
    _, _, mailbox = await contract.connect()
    found = await mailbox.list_folders()
    by_key = {folder.key: folder for folder in found}
    assert by_key[acme["id"]].parent == clients["id"]
    order = [folder.key for folder in found]
    assert all(
        folder.parent is None or order.index(folder.parent) < order.index(folder.key) for folder in found
    )
    roles = {folder.role for folder in found}
    assert {FolderRole.INBOX, FolderRole.SENT, FolderRole.DRAFTS, FolderRole.SPAM, FolderRole.TRASH} <= roles
    real = sim.get(f"mailboxes/{address}")["folders"]
    assert {folder["id"] for folder in real if folder["key"] != "msgfolderroot"} == set(by_key)


async def test_hidden_folders_are_listed_and_search_folders_are_not(contract):
    if is_gmail(contract):
        pytest.skip("labels are neither hidden nor searches")
    sim, at = contract.sim, f"mailboxes/{contract.address}/folders"
    hidden = sim.post(at, name="Behind the scenes", parent="archive", hidden=True)
    search = sim.post(at, name="Weekly", query="contains(subject, 'weekly')")
    many = [sim.post(at, name=f"Folder {number}", parent="inbox")["id"] for number in range(45)]
    keys = {folder.key for folder in await (await contract.connect())[2].list_folders()}
    assert {hidden["id"], *many} <= keys
    assert search["id"] not in keys


@pytest.mark.parametrize("chosen", ["Archive", "its id"])
async def test_a_mailbox_that_is_limited_to_a_folder_has_the_feed_of_that_folder_only(contract, chosen):
    if is_gmail(contract):
        pytest.skip("an account at Gmail is read whole")
    sim, address = contract.sim, contract.address
    real = {each["key"]: each["id"] for each in sim.get(f"mailboxes/{address}")["folders"]}
    kept = sim.deliver(address, kind="plain", folder="archive")["id"]
    sim.deliver(address, kind="plain", folder="inbox")
    folder = real["archive"] if chosen == "its id" else chosen
    _, _, mailbox = await contract.connect(folder=folder)
    assert await scopes(mailbox) == [real["archive"]]
    assert len(await mailbox.list_folders()) > 8
    assert await recent_keys(mailbox, now(contract) - timedelta(hours=1)) == [kept]
    _, _, lost = await contract.connect(folder="AAMkNoSuchFolder")
    with pytest.raises(NotFound):
        await lost.list_folders()


async def test_new_mail_and_flags_are_listed_as_changes(contract):
    sim, address = contract.sim, contract.address
    first, second = (sim.deliver(address, kind="plain")["id"] for _ in range(2))
    _, _, mailbox = await contract.connect()
    _, live = await listed(mailbox)
    assert await changed(mailbox, live) == []
    sim.act(address, first, "mark", read=True)
    sim.act(address, second, "mark", flag="flagged")
    new = sim.deliver(address, kind="plain")["id"]
    changes = {change.key: change for change in await changed(mailbox, live)}
    assert {key: change.presence for key, change in changes.items()} == dict.fromkeys(
        (first, second, new), Presence.PRESENT
    )
    assert changes[first].state.is_read is True
    assert changes[first].state.is_flagged is None
    assert changes[second].state.is_flagged is True
    if is_gmail(contract):
        assert changes[first].labels_removed == {"UNREAD"}
        assert changes[second].labels_added == {"STARRED"}
    [message] = await fetched(mailbox, [changes[new]])
    assert_state(contract, message.state, truth(contract)[new])
    assert await changed(mailbox, live) == []
    sim.act(address, first, "mark", read=False)
    [change] = await changed(mailbox, live)
    assert change.state.is_read is False


async def test_a_move_is_listed_in_both_folders_or_as_label_changes(contract):
    sim, address = contract.sim, contract.address
    place = sim.post(f"mailboxes/{address}/folders", name="Elsewhere")
    key = sim.deliver(address, kind="plain")["id"]
    _, _, mailbox = await contract.connect()
    before, live = await listed(mailbox)
    sim.act(address, key, "move", folder=place["key"])
    changes = await changed(mailbox, live)
    if is_gmail(contract):
        [change] = changes
        assert change.labels_added == {place["id"]}
        assert change.labels_removed == {"INBOX"}
    else:
        left = before[key].state.folder
        assert sorted(
            ((change.presence, change.state.folder) for change in changes), key=lambda pair: pair[0].value
        ) == [(Presence.LEFT, None), (Presence.PRESENT, place["id"])]
        assert left != place["id"]
    [seen] = await mailbox.look_up([key])
    assert seen.presence is Presence.PRESENT
    assert_state(contract, seen.state, truth(contract)[key])


async def test_a_permanent_deletion_is_listed_and_a_lookup_confirms_it(contract):
    sim, address = contract.sim, contract.address
    keys = [sim.deliver(address, kind="plain")["id"] for _ in range(6)]
    _, _, mailbox = await contract.connect()
    _, live = await listed(mailbox)
    sim.act(address, keys[0], "trash")
    for key in keys[1:]:
        sim.delete(f"mailboxes/{address}/messages/{key}")
    changes = {change.key: change for change in await changed(mailbox, live)}
    assert set(changes) == set(keys)
    assert {changes[key].presence for key in keys[1:]} <= {Presence.LEFT, Presence.DELETED}
    seen = {change.key: change for change in await mailbox.look_up(keys)}
    assert seen[keys[0]].presence is Presence.PRESENT
    assert_state(contract, seen[keys[0]].state, truth(contract)[keys[0]])
    assert {seen[key].presence for key in keys[1:]} == {Presence.DELETED}


async def test_a_message_deleted_before_the_fetch_is_gone_and_others_are_fetched(contract):
    sim, address = contract.sim, contract.address
    keys = [sim.deliver(address, kind="plain")["id"] for _ in range(8)]
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    for key in keys[::2]:
        sim.delete(f"mailboxes/{address}/messages/{key}")
    answers = {each.key: each for each in await fetched(mailbox, [found[key] for key in keys])}
    assert all(isinstance(answers[key], FetchedMessage) for key in keys[1::2])
    assert all(isinstance(answers[key], FetchFailure) and answers[key].gone for key in keys[::2])
    [alone] = await fetched(mailbox, [found[keys[0]]])
    assert alone.gone
    with pytest.raises(NotFound):
        await mailbox.fetch_raw(keys[0])


async def test_added_and_deleted_between_two_syncs_ends_as_deleted(contract):
    sim, address = contract.sim, contract.address
    _, _, mailbox = await contract.connect()
    _, live = await listed(mailbox)
    key = sim.deliver(address, kind="plain")["id"]
    sim.act(address, key, "mark", read=True)
    sim.delete(f"mailboxes/{address}/messages/{key}")
    changes = await changed(mailbox, live)
    assert [change.presence for change in changes if change.key == key] in (
        [],
        [Presence.LEFT],
        [Presence.DELETED],
    )


async def test_edited_and_sent_drafts_can_be_followed(contract):
    sim, address = contract.sim, contract.address
    _, _, mailbox = await contract.connect()
    found, live = await listed(mailbox)
    present = set(found)

    def draft(method: str, path: str, text: bytes = b"") -> str:
        answer = sim.control.request(
            method, f"mailboxes/{address}/{path}", content=text, headers={"content-type": "message/rfc822"}
        )
        assert answer.is_success
        return answer.json()["messages"][0]["id"]

    key = draft("POST", "drafts", DRAFT % 1)
    for number in range(2, 5):
        key = draft("PUT", f"messages/{key}", DRAFT % number)
    for change in await changed(mailbox, live):
        (present.add if change.presence is Presence.PRESENT else present.discard)(change.key)
    assert present == set(truth(contract))
    [message] = await fetched(mailbox, wanted(key))
    assert message.state.is_draft
    assert message.content.subject == "Draft 4"
    draft("POST", f"messages/{key}/send")
    left = [change for change in await changed(mailbox, live) if change.presence is Presence.LEFT]
    seen = await mailbox.look_up([*present, *(change.key for change in left)])
    here = {change.key for change in seen if change.presence is Presence.PRESENT}
    assert here <= set(truth(contract))


async def test_lookup_and_fetch_have_the_same_version_and_a_change_a_later_one(contract):
    sim, address = contract.sim, contract.address
    key = sim.deliver(address, kind="plain")["id"]
    _, _, mailbox = await contract.connect()
    versions = []
    for mark in ({"read": True}, {"read": False}, {"flag": "flagged"}):
        [seen] = await mailbox.look_up([key])
        [message] = await fetched(mailbox, wanted(key))
        assert seen.version == message.version
        versions.append(seen.version)
        sim.act(address, key, "mark", **mark)
    assert versions == sorted(set(versions))


async def test_an_expired_cursor_and_a_deleted_folder_are_different_errors(contract):
    sim, address = contract.sim, contract.address
    place = sim.post(f"mailboxes/{address}/folders", name="Soon gone")
    _, _, mailbox = await contract.connect()
    _, live = await listed(mailbox)
    scope = place["id"] if not is_gmail(contract) else ""
    sim.fault("cursor_expired", mailbox=address, times=1)
    with pytest.raises(CursorExpired):
        await mailbox.list_changes(scope, live[scope])
    if not is_gmail(contract):
        sim.delete(f"mailboxes/{address}/folders/{place['key']}")
        with pytest.raises(NotFound):
            await mailbox.list_changes(scope, live[scope])
        with pytest.raises(NotFound):
            await mailbox.list_messages(scope, cursor=None, since=None)
    with pytest.raises(CursorExpired):
        await mailbox.list_messages(await some_scope(mailbox), cursor=spoiled(contract, live), since=None)


async def some_scope(mailbox) -> str:
    return (await scopes(mailbox))[0]


def spoiled(contract, live: dict[str, str]) -> str:
    """A place in a listing that the provider does not know, or no longer."""
    return '{"page":"nonsense"}' if is_gmail(contract) else next(iter(live.values()))[:-9]


async def test_changes_come_in_pages_and_a_sync_can_resume_after_any_page(contract):
    sim, address = contract.sim, contract.address
    _, _, mailbox = await contract.connect()
    _, live = await listed(mailbox)
    scope = (
        "" if is_gmail(contract) else {f.role: f.key for f in await mailbox.list_folders()}[FolderRole.INBOX]
    )
    sim.deliver(address, kind="plain", count=430)
    sim.fault("delta_empty_page", mailbox=address, times=2)
    sim.fault("delta_repeat", mailbox=address, probability=0.5)
    keys, pages, cursor, more = set(), 0, live[scope], True
    while more:
        page = await mailbox.list_changes(scope, cursor)
        keys |= {change.key for change in page.changes}
        pages, cursor, more = pages + 1, page.cursor, page.has_more
        _, _, mailbox = await contract.connect()  # another process, that knows nothing but the cursor
    assert pages > 2
    assert len(keys) == 430
    assert keys <= set(truth(contract))


async def recent_keys(mailbox, since, *, drafts=False):
    return [each.key async for page in mailbox.list_recent(since, drafts=drafts) for each in page]


async def test_recent_mail_is_listed_before_a_feed_has_a_cursor(contract):
    await contract.wait(hours=3)
    new = [contract.sim.deliver(contract.address, kind="plain")["id"] for _ in range(4)]
    _, _, mailbox = await contract.connect()
    since = now(contract) - timedelta(hours=1)
    recent = [each async for page in mailbox.list_recent(since) for each in page]
    assert {change.key for change in recent} == (set() if is_gmail(contract) else set(new))
    assert all(change.state.folder and change.version for change in recent)


async def test_drafts_are_listed_once_however_old_they_are(contract):
    if is_gmail(contract):
        pytest.skip("Gmail lists them with everything")
    answer = contract.sim.control.post(
        f"mailboxes/{contract.address}/drafts",
        content=DRAFT % 1,
        headers={"content-type": "message/rfc822"},
    )
    key = answer.json()["messages"][0]["id"]
    _, _, mailbox = await contract.connect()
    later, earlier = now(contract) + timedelta(hours=1), now(contract) - timedelta(hours=1)
    assert key not in await recent_keys(mailbox, later)
    assert (await recent_keys(mailbox, later, drafts=True)).count(key) == 1
    assert (await recent_keys(mailbox, earlier, drafts=True)).count(key) == 1


async def test_a_message_shifted_to_the_next_page_is_listed_once(contract):
    if is_gmail(contract):
        pytest.skip("the history contains it")
    since = now(contract) - timedelta(hours=1)
    contract.sim.deliver(contract.address, kind="plain", count=205)
    _, _, mailbox = await contract.connect()
    pages = [
        contract.sim.deliver(contract.address, kind="plain") and page
        async for page in mailbox.list_recent(since)
    ]
    keys = [each.key for page in pages for each in page]
    assert (len(pages), len(keys), len(set(keys))) == (2, 205, 205)


async def test_raw_bytes_are_those_that_were_delivered(contract):
    key = contract.sim.deliver(contract.address, kind="attachment")["id"]
    _, _, mailbox = await contract.connect()
    assert sha256(await mailbox.fetch_raw(key)) == truth(contract)[key]["sha256"]


async def test_a_large_attachment_is_streamed_if_the_provider_can(contract):
    key = contract.sim.deliver(contract.address, kind="big", size=14 << 20)["id"]
    _, _, mailbox = await contract.connect()
    [message] = await fetched(mailbox, wanted(key))
    [attachment] = message.content.attachments
    [real] = truth(contract)[key]["attachments"]
    assert real["size"] > 10 * 2**20
    pieces = [piece async for piece in mailbox.fetch_attachment(key, attachment)]
    assert sha256(b"".join(pieces)) == real["sha256"]
    if not is_gmail(contract):
        assert attachment.content is None
        assert max(len(piece) for piece in pieces) <= 2**17


async def test_a_reference_attachment_has_no_bytes(contract):
    key = contract.sim.deliver(contract.address, kind="reference")["id"]
    _, _, mailbox = await contract.connect()
    [message] = await fetched(mailbox, wanted(key))
    links = [each for each in message.content.attachments if each.kind == "reference"]
    if is_gmail(contract):
        assert all(each.kind == "file" for each in message.content.attachments)
        return
    assert links
    for each in links:
        with pytest.raises(UnsupportedByProvider):
            _ = [piece async for piece in mailbox.fetch_attachment(key, each)]


@pytest.mark.parametrize("key", ["nonsense", "AAMk../..$value?x=1#y", "ü"])
async def test_a_malformed_message_id_is_not_found(contract, key):
    """A push names messages, and a push is not believed."""
    _, _, mailbox = await contract.connect()
    [seen] = await mailbox.look_up([key])
    assert (seen.key, seen.presence) == (key, Presence.DELETED)
    [answer] = await fetched(mailbox, wanted(key))
    assert answer.gone


async def test_fetching_nothing_sends_no_request(contract):
    _, _, mailbox = await contract.connect()
    before = contract.sim.meter(contract.address)["requests"]
    assert await mailbox.look_up([]) == []
    assert [
        each for group in [g async for g in mailbox.fetch([], ContentPolicy.FULL)] for each in group
    ] == []
    assert contract.sim.meter(contract.address)["requests"] == before
