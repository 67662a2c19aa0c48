"""A request names the thread of its message in `threadId`.

Google's guide "Manage threads" lists the conditions: the thread is named, the subjects match, and References
and In-Reply-To are set. Users report that the sender's copy joins without these headers, only the recipient's
does not: https://github.com/googleapis/google-api-nodejs-client/issues/710
"""

import base64
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.google_user import FULL, GoogleUser, GoogleUsers, make_message


@pytest.fixture
def owner(sim: Simulation, google: GoogleUsers, address: str) -> GoogleUser:
    return google.connect(sim, address, FULL)


@pytest.fixture
def thread(sim: Simulation, owner: GoogleUser) -> str:
    return sim.deliver(owner.address, make_message("Lunch", Message_ID="<lunch@example.org>"))["thread"]


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


def make_body(path: str, subject: str, thread: object) -> dict[str, Any]:
    message = {"raw": encode(make_message(subject)), "threadId": thread}
    return {"message": message} if path == "drafts" else message


METHODS = ["messages", "messages/send", "messages/import", "drafts"]


@pytest.mark.parametrize("path", METHODS)
@pytest.mark.parametrize("subject", ["Lunch", "Re: Lunch", "RE: Fwd: Lunch", "=?utf-8?q?Re=3A_Lunch?="])
def test_a_message_joins_the_named_thread(owner: GoogleUser, thread: str, path: str, subject: str):
    answer = owner.post(path, make_body(path, subject, thread))
    made = answer.get("message", answer)
    assert made["threadId"] == thread
    assert made["id"] in {message["id"] for message in owner.get(f"threads/{thread}")["messages"]}


@pytest.mark.parametrize("path", METHODS)
def test_a_message_with_another_subject_starts_a_thread(owner: GoogleUser, thread: str, path: str):
    answer = owner.post(path, make_body(path, "Dinner", thread))
    made = answer.get("message", answer)
    assert made["threadId"] == made["id"] != thread


def test_a_draft_is_sent_in_the_named_thread(owner: GoogleUser, thread: str):
    draft = owner.post("drafts", make_body("drafts", "Re: Lunch", thread))
    assert owner.post("drafts/send", {"id": draft["id"]})["threadId"] == thread


@pytest.mark.parametrize("path", METHODS)
def test_an_unknown_thread_is_refused(owner: GoogleUser, path: str):
    unknown = owner.expect_error(404, path, "POST", json=make_body(path, "Lunch", "18c2ab34cd56ef78"))
    assert unknown["message"] == "Requested entity was not found."
    invalid = owner.expect_error(400, path, "POST", json=make_body(path, "Lunch", "lunch"))
    assert invalid["message"] == "Invalid thread_id value"
    for wrong in (5, ["x"], True):
        body = make_body(path, "Lunch", wrong)
        assert "TYPE_STRING" in owner.expect_error(400, path, "POST", json=body)["message"]


def test_the_recipient_of_a_message_without_references_gets_a_new_thread(
    sim: Simulation, google: GoogleUsers, owner: GoogleUser, thread: str
):
    friend = google.connect(sim, f"friend.{owner.address}", FULL)
    raw = make_message("Re: Lunch", To=friend.address)
    assert owner.post("messages/send", {"raw": encode(raw), "threadId": thread})["threadId"] == thread
    [arrived] = sim.truth(friend.address)
    assert arrived["thread"] == arrived["id"]
