"""history.list: records, filters, expiry and paging."""

from itertools import pairwise

import pytest

from simulator.google_user import make_message


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, messages=30)


def kinds(records):
    return [next(key for key in record if key not in {"id", "messages"}) for record in records]


def test_history_ids_have_gaps_and_the_response_has_the_newest(user):
    start = user.history_id()
    for number in range(5):
        user.simulation.deliver(user.address, make_message(f"number {number}"))
    answer = user.get("history", startHistoryId=start)
    ids = [int(record["id"]) for record in answer["history"]]
    assert len(ids) == 5
    assert all(later - earlier > 1 for earlier, later in pairwise(ids))
    assert len({later - earlier for earlier, later in pairwise(ids)}) > 1
    assert answer["historyId"] == str(ids[-1]) == user.history_id()


def test_the_history_id_of_the_newest_message_is_a_valid_start(user):
    """Clients store the historyId of the first message in the list.

    "Synchronize clients with Gmail", https://developers.google.com/workspace/gmail/api/guides/sync
    """
    newest = user.get("messages")["messages"][0]["id"]
    start = user.get(f"messages/{newest}", format="minimal")["historyId"]
    known = {message["id"] for message in user.pages("messages", "messages", includeSpamTrash=True)}
    later = user.get("history", startHistoryId=start)
    assert {record["messages"][0]["id"] for record in later.get("history", [])} <= known
    arrived = user.simulation.deliver(user.address, make_message())["id"]
    records = user.get("history", startHistoryId=start)["history"]
    assert records[-1]["messagesAdded"][0]["message"]["id"] == arrived
    assert records[:-1] == later.get("history", [])


def test_initial_messages_are_history_while_it_is_retained(sim, google, address):
    user = google.connect(sim, address, messages=60, days=30, spread=False)
    newest_first = [message["id"] for message in user.pages("messages", "messages")]
    starts = {
        message_id: user.get(f"messages/{message_id}", format="minimal")["historyId"]
        for message_id in (newest_first[12], newest_first[-1])
    }
    arrived = sim.deliver(address, make_message())["id"]
    records = user.pages("history", "history", startHistoryId=starts[newest_first[12]], maxResults=5)
    assert [record["messages"][0]["id"] for record in records] == [*newest_first[:12][::-1], arrived]
    assert [int(record["id"]) for record in records] == sorted(int(record["id"]) for record in records)
    assert all(
        record["messagesAdded"][0]["message"]["labelIds"] == ["CATEGORY_PERSONAL", "INBOX", "UNREAD"]
        for record in records
    )
    user.expect_error(404, "history", params={"startHistoryId": starts[newest_first[-1]]})


def test_no_changes_give_a_response_without_history(user):
    assert user.get("history", startHistoryId=user.history_id()) == {"historyId": user.history_id()}


def test_a_message_added_and_deleted_has_two_records_and_is_not_found(user):
    start = user.history_id()
    gone = user.simulation.deliver(user.address, make_message())["id"]
    user.simulation.control.delete(f"mailboxes/{user.address}/messages/{gone}")
    assert kinds(user.get("history", startHistoryId=start)["history"]) == ["messagesAdded", "messagesDeleted"]
    user.expect_error(404, f"messages/{gone}")


def test_filters_apply_after_paging_so_pages_can_be_empty(user):
    sim, start = user.simulation, user.history_id()
    first = sim.deliver(user.address, make_message())["id"]
    for read in (True, False, True, False):
        sim.act(user.address, first, "mark", read=read)
    second = sim.deliver(user.address, make_message())["id"]
    filtered = {"startHistoryId": start, "historyTypes": "messageAdded", "maxResults": 2}
    page = user.get("history", **filtered)
    empty = user.get("history", **filtered, pageToken=page["nextPageToken"])
    assert set(empty) == {"nextPageToken", "historyId"}
    last = user.get("history", **filtered, pageToken=empty["nextPageToken"])
    assert [record["messages"][0]["id"] for record in page["history"] + last["history"]] == [first, second]
    assert "nextPageToken" not in last
    both = user.get("history", startHistoryId=start, historyTypes=["labelAdded", "labelRemoved"])
    assert kinds(both["history"]) == ["labelsRemoved", "labelsAdded", "labelsRemoved", "labelsAdded"]
    assert "history" not in user.get("history", startHistoryId=start, labelId="SPAM")
    assert len(user.get("history", startHistoryId=start, labelId="UNREAD")["history"]) == 4


def test_the_label_filter_can_match_before_or_after_a_change(user):
    sim, start = user.simulation, user.history_id()
    sim.act(user.address, sim.deliver(user.address, make_message())["id"], "label", remove=["INBOX"])
    asked = {"startHistoryId": start, "labelId": "INBOX"}
    assert kinds(user.get("history", **asked)["history"]) == ["messagesAdded"]
    sim.control.patch("google/options", json={"history_label": "either"})
    assert kinds(user.get("history", **asked)["history"]) == ["messagesAdded", "labelsRemoved"]
    sim.control.patch("google/options", json={"history_label": "after"})


def test_history_expires_after_a_week(sim, google, user):
    start = user.history_id()
    sim.deliver(user.address, make_message())
    middle = user.history_id()
    sim.move_clock(6 * 86_400)
    user = google.sign_in(sim, user.address)
    sim.deliver(user.address, make_message())
    assert len(user.get("history", startHistoryId=start)["history"]) == 2
    sim.move_clock(2 * 86_400)
    user = google.sign_in(sim, user.address)
    error = user.expect_error(404, "history", params={"startHistoryId": start})
    assert error["errors"][0] == {
        "message": "Requested entity was not found.",
        "domain": "global",
        "reason": "notFound",
    }
    assert len(user.get("history", startHistoryId=middle)["history"]) == 1


def test_cursors_can_be_expired_even_without_changes(sim, user):
    start = user.history_id()
    sim.post(f"mailboxes/{user.address}/expire-cursors")
    user.expect_error(404, "history", params={"startHistoryId": start})
    assert user.get("history", startHistoryId=user.history_id()) == {"historyId": user.history_id()}
    sim.fault("cursor_expired", mailbox=user.address, times=1)
    user.expect_error(404, "history", params={"startHistoryId": user.history_id()})
    user.get("history", startHistoryId=user.history_id())


@pytest.mark.parametrize("start", ["1", "99999999999", "18446744073709551615"])
def test_history_ids_outside_the_log_are_not_found(user, start):
    user.expect_error(404, "history", params={"startHistoryId": start})


@pytest.mark.parametrize("start", ["abc", "-1", "18446744073709551616", "1.5", "0", ""])
def test_malformed_history_ids_are_rejected(user, start):
    assert user.expect_error(400, "history", params={"startHistoryId": start})["status"] == "INVALID_ARGUMENT"


def test_a_missing_start_history_id_is_named_in_the_error(user):
    assert user.expect_error(400, "history")["message"] == "Missing/invalid parameter: startHistoryId"


def test_faults_give_an_empty_page_and_a_repeated_record(user):
    sim, start = user.simulation, user.history_id()
    for _ in range(4):
        sim.deliver(user.address, make_message())
    sim.fault("delta_empty_page", mailbox=user.address, times=1)
    page = user.get("history", startHistoryId=start, maxResults=2)
    assert "history" not in page
    first = user.get("history", startHistoryId=start, maxResults=2, pageToken=page["nextPageToken"])
    sim.fault("delta_repeat", mailbox=user.address, times=1)
    second = user.get("history", startHistoryId=start, maxResults=2, pageToken=first["nextPageToken"])
    assert second["history"][0] == first["history"][1]


def test_foreign_page_tokens_are_rejected(user):
    user.expect_error(400, "history", params={"startHistoryId": user.history_id(), "pageToken": "12345"})
