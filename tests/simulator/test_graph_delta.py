"""Message delta: rounds, complete links that expire after three generations, partial updates."""

import datetime as dt
import re
from collections import Counter

import pytest

from simulator.microsoft_user import IMMUTABLE

INBOX = "mailFolders/inbox/messages/delta"


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", messages=30, spread=False)


@pytest.fixture
def options(sim):
    yield lambda **more: sim.control.patch("microsoft/options", json=more).raise_for_status()
    defaults = {"generations": 3, "gone_location": False, "partial_updates": True, "delta_page": 10}
    sim.control.patch("microsoft/options", json=defaults)


def act(user, message, action, **more):
    user.simulation.act(user.address, message, action, **more)


def removed(entry):
    return entry.get("@removed") == {"reason": "deleted"}


def test_the_first_round_lists_every_message_once_and_completely(sim, user):
    reported, link = user.delta(INBOX, IMMUTABLE)
    assert Counter(one["id"] for one in reported) == Counter(entry["id"] for entry in sim.truth(user.address))
    assert all(one["@odata.type"].startswith("#microsoft.graph.") and "body" in one for one in reported)
    assert link.startswith(f"{sim.http}/v1.0/users/")


@pytest.mark.parametrize("size", [1, 7, 30, 31, 1000])
def test_the_preferred_page_size_is_respected(user, size):
    answer = user.request("GET", INBOX, headers={"prefer": f"odata.maxpagesize={size}"})
    page = answer.json()
    assert len(page["value"]) == min(size, 30)
    assert answer.headers["preference-applied"] == f"odata.maxpagesize={size}"
    assert ("@odata.deltaLink" in page) == (size >= 30)


def test_top_and_the_default_determine_the_page_size(user):
    assert len(user.get(INBOX)["value"]) == 10
    page = user.get(INBOX, **{"$top": 4})
    assert len(page["value"]) == 4
    assert len(user.get(page["@odata.nextLink"])["value"]) == 4


def test_changes_during_the_first_round_are_reported_in_the_next(sim, user):
    page = user.get(INBOX, {**IMMUTABLE})
    truth = sim.truth(user.address)
    new = sim.deliver(user.address, kind="plain")
    sim.control.delete(f"mailboxes/{user.address}/messages/{truth[0]['id']}")
    act(user, truth[29]["id"], "move", folder="archive")
    reported = [one["id"] for one in page["value"]]
    while link := page.get("@odata.nextLink"):
        page = user.get(link, IMMUTABLE)
        reported += [one["id"] for one in page["value"]]
    assert set(reported) >= {entry["id"] for entry in truth[:29]}
    later = {one["id"]: one for one in user.delta(page["@odata.deltaLink"], IMMUTABLE)[0]}
    assert new["id"] in later
    assert removed(later[truth[0]["id"]])
    assert removed(later[truth[29]["id"]])


def test_an_unchanged_folder_returns_nothing_and_another_link(user):
    _, first = user.delta(INBOX)
    reported, second = user.delta(first)
    assert reported == []
    assert second != first


def test_an_update_contains_only_changed_properties_unless_switched_off(sim, user, options):
    _, link = user.delta(INBOX, IMMUTABLE)
    entry = sim.truth(user.address)[3]
    act(user, entry["id"], "mark", read=True, flag="flagged")
    (reported,) = user.delta(link, IMMUTABLE)[0]
    assert set(reported) == {"@odata.type", "@odata.etag", "id", "isRead", "flag"}
    assert (reported["isRead"], reported["flag"]) == (True, {"flagStatus": "flagged"})
    options(partial_updates=False)
    (whole,) = user.delta(link, IMMUTABLE)[0]
    assert whole["subject"]


def test_a_move_is_a_tombstone_in_one_folder_and_a_full_message_in_the_other(sim, user):
    _, inbox = user.delta(INBOX, IMMUTABLE)
    _, archive = user.delta("mailFolders/archive/messages/delta", IMMUTABLE)
    entry = sim.truth(user.address)[5]
    act(user, entry["id"], "move", folder="archive")
    (gone,) = user.delta(inbox, IMMUTABLE)[0]
    (come,) = user.delta(archive, IMMUTABLE)[0]
    assert removed(gone)
    assert gone["id"] == come["id"] == entry["id"]
    assert come["subject"]


def test_without_immutable_ids_a_tombstone_has_the_former_id(sim, user):
    reported, inbox = user.delta(INBOX)
    _, archive = user.delta("mailFolders/archive/messages/delta")
    known = {one["internetMessageId"]: one["id"] for one in reported}
    entry = sim.truth(user.address)[5]
    act(user, entry["id"], "move", folder="archive")
    (gone,) = user.delta(inbox)[0]
    (come,) = user.delta(archive)[0]
    assert gone["id"] == known[entry["message_id"]]
    assert come["id"] != gone["id"]
    act(user, entry["id"], "move", folder="inbox")
    back = user.delta(inbox)[0]
    assert [removed(one) for one in back] == [True, False]
    assert back[0]["id"] == gone["id"]
    assert back[1]["id"] not in {gone["id"], come["id"]}


def test_links_work_with_either_kind_of_id(sim, user):
    _, link = user.delta(INBOX)
    new = sim.deliver(user.address, kind="plain")
    assert [one["id"] for one in user.delta(link, IMMUTABLE)[0]] == [new["id"]]
    assert [one["id"] for one in user.delta(link)[0]] != [new["id"]]


def test_a_message_added_and_deleted_in_one_round_is_reported_as_removed(sim, user):
    _, link = user.delta(INBOX, IMMUTABLE)
    new = sim.deliver(user.address, kind="plain")
    sim.control.delete(f"mailboxes/{user.address}/messages/{new['id']}")
    assert [(one["id"], removed(one)) for one in user.delta(link, IMMUTABLE)[0]] == [(new["id"], True)]


def test_many_changes_of_one_message_are_reported_once(sim, user):
    _, link = user.delta(INBOX, IMMUTABLE)
    entry = sim.truth(user.address)[0]
    for read in (True, False, True):
        act(user, entry["id"], "mark", read=read)
    assert len(user.delta(link, IMMUTABLE)[0]) == 1


def test_changes_are_paged_and_a_round_excludes_later_changes(sim, user):
    _, link = user.delta(INBOX, IMMUTABLE)
    ids = [sim.deliver(user.address, kind="plain")["id"] for _ in range(7)]
    prefer = {"prefer": 'odata.maxpagesize=3, IdType="ImmutableId"'}
    page = user.get(link, prefer)
    later = sim.deliver(user.address, kind="plain")["id"]
    reported = [one["id"] for one in page["value"]]
    while "@odata.deltaLink" not in page:
        page = user.get(page["@odata.nextLink"], prefer)
        reported += [one["id"] for one in page["value"]]
    assert reported == ids
    assert [one["id"] for one in user.delta(page["@odata.deltaLink"], prefer)[0]] == [later]


def test_links_keep_the_selected_properties(sim, user):
    reported, link = user.delta(INBOX, **{"$select": "subject"})
    assert {frozenset(one) for one in reported} == {
        frozenset({"@odata.type", "@odata.etag", "id", "subject"})
    }
    sim.deliver(user.address, kind="plain")
    (new,) = user.delta(link)[0]
    assert set(new) == {"@odata.type", "@odata.etag", "id", "subject"}


def test_change_types_filter_later_rounds_but_not_the_first(sim, user):
    reported, link = user.delta(INBOX, IMMUTABLE, changeType="created")
    assert len(reported) == 30
    new = sim.deliver(user.address, kind="plain")
    truth = sim.truth(user.address)
    act(user, truth[0]["id"], "mark", read=True)
    act(user, truth[1]["id"], "move", folder="archive")
    assert [one["id"] for one in user.delta(link, IMMUTABLE)[0]] == [new["id"]]
    user.expect_error(400, INBOX, params={"changeType": "created,moved"})


def test_a_filter_excludes_old_mail_but_not_its_tombstones_and_changes(sim, user):
    truth = sim.truth(user.address)
    since = f"{dt.datetime.fromtimestamp(truth[20]['received'] / 1000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    reported, link = user.delta(INBOX, IMMUTABLE, **{"$filter": f"receivedDateTime ge {since}"})
    assert {one["id"] for one in reported} == {entry["id"] for entry in truth[20:]}
    act(user, truth[0]["id"], "mark", read=True)
    act(user, truth[1]["id"], "move", folder="archive")
    act(user, truth[2]["id"], "move", folder="archive")
    act(user, truth[2]["id"], "move", folder="inbox")
    later = {one["id"]: one for one in user.delta(link, IMMUTABLE)[0]}
    assert set(later) == {truth[0]["id"], truth[1]["id"]}
    assert removed(later[truth[1]["id"]])


def test_a_filtered_round_ends_at_five_thousand(sim, microsoft, address):
    user = microsoft.connect(sim, address, messages=5200, spread=False)
    prefer = {"prefer": "odata.maxpagesize=1000"}
    everything = {"$select": "id", "$filter": "receivedDateTime ge 2000-01-01T00:00:00Z"}
    assert len(user.delta(INBOX, prefer, **everything)[0]) == 5000
    assert len(user.delta(INBOX, prefer, **{"$select": "id"})[0]) == 5200


def test_orderby_lists_newest_first(sim, user):
    reported, _ = user.delta(INBOX, IMMUTABLE, **{"$orderby": "receivedDateTime desc"})
    assert [one["id"] for one in reported] == [entry["id"] for entry in reversed(sim.truth(user.address))]


@pytest.mark.parametrize(
    "params",
    [
        {"$filter": "isRead eq true"}, {"$filter": "receivedDateTime le 2026-01-01T00:00:00Z"},
        {"$search": '"x"'},
        {"$orderby": "subject"}, {"$orderby": "receivedDateTime"}, {"$skip": "5"}, {"$select": "nothing"},
        {"$deltatoken": "latest"}, {"$skiptoken": "AAAA"}, {"$skiptoken": "ä"}, {"$top": "0"},
    ],
)  # fmt: skip
def test_unsupported_options_are_a_bad_request(user, params):
    user.expect_error(400, INBOX, params=params)


def test_a_link_is_complete_and_belongs_to_its_folder(user):
    link = user.get(INBOX)["@odata.nextLink"]
    user.expect_error(400, f"{link}&$select=subject")
    user.expect_error(400, f"{link}&$top=5")
    user.expect_error(400, link[:-3] + ("AAA" if link[-3:] != "AAA" else "BBB"))
    archive = user.get("mailFolders/archive")["id"]
    user.expect_error(400, re.sub(r"mailFolders\('[^']+'\)", f"mailFolders('{archive}')", link))


def test_links_expire_after_three_generations(user, options):
    _, first = user.delta(INBOX)
    newest = first
    for _ in range(3):
        _, newest = user.delta(newest)
    answer = user.request("GET", first)
    assert answer.status_code == 410
    error = answer.json()["error"]
    assert error["code"] == "SyncStateNotFound"
    assert re.fullmatch(
        r"The sync state generation is not found; generation=\d+;\[highest=\d+\]\[\d+\]\[\d+\]\[\d+\]\.",
        error["message"],
    )
    assert "location" not in answer.headers
    options(gone_location=True)
    location = user.request("GET", first).headers["location"]
    assert len(user.delta(location)[0]) == 30


def test_polling_with_the_newest_link_never_expires(user):
    _, link = user.delta(INBOX)
    for _ in range(8):
        _, link = user.delta(link)


def test_rounds_of_one_application_do_not_expire_links_of_another(sim, microsoft, user):
    _, mine = user.delta(INBOX)
    other = sim.post("applications", provider="outlook")["client_id"]
    busy = microsoft.sign_in(sim, user.address, client_id=other)
    _, theirs = busy.delta(INBOX)
    for _ in range(5):
        _, theirs = busy.delta(theirs)
    assert user.delta(mine)[0] == []


def test_links_never_expire_when_generations_are_switched_off(user, options):
    options(generations=0)
    _, first = user.delta(INBOX)
    for _ in range(6):
        assert user.delta(first)[0] == []


def test_cursors_can_be_expired(sim, user):
    _, inbox = user.delta(INBOX)
    _, folders = user.delta("mailFolders/delta")
    assert sim.post(f"mailboxes/{user.address}/expire-cursors")["count"] == 2
    assert user.expect_error(410, inbox)["code"] == "SyncStateNotFound"
    assert user.expect_error(410, folders)["code"] == "SyncStateNotFound"
    assert user.delta(INBOX)[0]


def test_faults_cause_empty_pages_repeats_and_expired_cursors(sim, user):
    sim.fault("delta_empty_page", mailbox=user.address, times=1)
    page = user.get(INBOX, IMMUTABLE)
    assert page["value"] == []
    reported, link = user.delta(page["@odata.nextLink"], IMMUTABLE)
    assert len(reported) == 30
    sim.fault("delta_repeat", mailbox=user.address, times=2)
    again = [one["id"] for one in user.delta(INBOX, IMMUTABLE)[0]]
    assert len(again) > len(set(again)) == 30
    sim.fault("cursor_expired", mailbox=user.address, times=1)
    assert user.expect_error(410, link)["code"] == "SyncStateNotFound"


def test_a_deleted_folder_is_not_found(sim, user):
    made = user.post("mailFolders", {"displayName": "Brief"})
    _, link = user.delta(f"mailFolders/{made['id']}/messages/delta")
    user.request("DELETE", f"mailFolders/{made['id']}")
    assert user.expect_error(404, link)["code"] == "ErrorItemNotFound"


def test_an_edited_draft_is_reported_completely(user):
    draft = user.post("messages", {"subject": "One"})
    _, link = user.delta("mailFolders/drafts/messages/delta")
    user.request("PATCH", f"messages/{draft['id']}", json={"subject": "Two"})
    (reported,) = user.delta(link)[0]
    assert (reported["subject"], reported["isDraft"]) == ("Two", True)


def test_a_page_of_a_huge_mailbox_is_as_fast_as_of_a_small_one(sim, microsoft, address):
    user = microsoft.connect(sim, address, messages=1_000_000)
    reported = user.get(INBOX, {"prefer": "odata.maxpagesize=50"}, **{"$orderby": "receivedDateTime desc"})
    assert len(reported["value"]) == 50
    (request,) = [one for one in sim.get("requests", mailbox=address) if one["endpoint"] == "messages.delta"]
    assert request["status"] == 200
    new = sim.deliver(address, kind="plain")
    page = user.get(INBOX, IMMUTABLE, **{"$orderby": "receivedDateTime desc", "$top": 1})
    assert page["value"][0]["id"] == new["id"]


def test_following_one_link_repeatedly_does_not_expire_it(user):
    """A client repeats a request whose response it did not receive.

    "Use delta query to track changes in Microsoft Graph data", https://learn.microsoft.com/graph/delta-query-overview
    """
    _, link = user.delta(INBOX)
    user.simulation.deliver(user.address)
    for _ in range(5):
        changed, _ = user.delta(link)
        assert len(changed) == 1
