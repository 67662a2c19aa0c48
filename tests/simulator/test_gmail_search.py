"""Gmail's search operators over HTTP.

"Refine searches in Gmail", https://support.google.com/mail/answer/7190
"Search for messages", https://developers.google.com/workspace/gmail/api/guides/filtering
"""

from contextlib import ExitStack

import pytest

from simulator.google_user import GoogleUsers, make_message

WITH_FILE = (
    b"From: Amy <amy@example.org>\r\nSubject: Lunch\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n\r\nSee the menu\r\n'
    b'--b\r\nContent-Type: application/pdf; name="menu.pdf"\r\nContent-Disposition: attachment\r\n'
    b"Content-Transfer-Encoding: base64\r\n\r\nJVBERi0=\r\n--b--\r\n"
)


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("subject:invoice", {"a"}),
        ("from:amy", {"a", "c"}),
        ("from:amy -subject:invoice", {"c"}),
        ("to:board@example.net", {"b"}),
        ("breakfast", {"b"}),
        ("{invoice breakfast}", {"a", "b"}),
        ("has:attachment", {"c"}),
        ("filename:pdf", {"c"}),
        ("rfc822msgid:<b@example.org>", {"b"}),
        ("is:unread", {"a", "b", "c"}),
        ("is:read", set()),
        ("label:clients-acme", {"a"}),
        ("has:userlabels", {"a"}),
        ("in:inbox from:ben", {"b"}),
        ("after:2026/03/02", {"a", "b", "c"}),
        ("before:2026/03/02", set()),
        ("newer_than:1d subject:lunch", {"c"}),
        ("older_than:1d", set()),
        ("larger:1M", set()),
        ('"full english"', {"b"}),
        ('"english full"', set()),
        ("subject: invoice", {"a"}),
        ("from: amy subject: lunch", {"c"}),
    ],
)
def test_search(sim, searchable, query, wanted):
    user, names = searchable
    assert {names[message["id"]] for message in user.pages("messages", "messages", q=query)} == wanted
    threads = user.pages("threads", "threads", q=query)
    assert {names[thread["id"]] for thread in threads} == wanted


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("to:me", {"received"}),
        ("from:me", {"sent"}),
        ("-from:me -to:me", {"other"}),
        ("{to:me from:ME}", {"received", "sent"}),
    ],
)
def test_me_is_the_address_of_the_mailbox(sim, google, address, query, wanted):
    """Follows "Refine searches in Gmail", https://support.google.com/mail/answer/7190"""
    user = google.connect(sim, address)
    messages = {
        "received": make_message(To=f"Me <{address}>"),
        "sent": make_message(From=address, To="x@example.org"),
        "other": make_message("me", "me", To="x@example.org"),
    }
    names = {sim.deliver(address, raw)["id"]: name for name, raw in messages.items()}
    assert {names[found["id"]] for found in user.pages("messages", "messages", q=query)} == wanted


@pytest.fixture(scope="module")
def searchable(shared):
    with ExitStack() as stack:
        address = "searched@example.com"
        user = GoogleUsers(stack).connect(shared, address)
        first = shared.deliver(address, make_message("Your invoice", "Please pay", From="amy@example.org"))
        second = shared.deliver(
            address,
            make_message(
                "Monday",
                "A full English breakfast",
                From="Ben <ben@example.org>",
                To="board@example.net",
                Message_ID="<b@example.org>",
            ),
        )
        third = shared.deliver(address, WITH_FILE)
        label = shared.post(f"mailboxes/{address}/folders", name="Clients/Acme")
        shared.act(address, first["id"], "label", add=[label["key"]])
        yield user, {first["id"]: "a", second["id"]: "b", third["id"]: "c"}


def test_archived_messages_are_in_no_other_place(sim, google, address):
    """Follows "Refine searches in Gmail", https://support.google.com/mail/answer/7190"""
    user = google.connect(sim, address)
    kept, archived, trashed = (sim.deliver(address, make_message())["id"] for _ in range(3))
    sim.act(address, archived, "label", remove=["INBOX"])
    sim.act(address, trashed, "trash")
    assert [found["id"] for found in user.pages("messages", "messages", q="in:archive")] == [archived]
    assert [found["id"] for found in user.pages("messages", "messages", q="-in:archive")] == [kept]


@pytest.mark.parametrize(
    "query, names",
    [
        ("label:all", "inbox archived"),
        ("in:all", "inbox archived"),
        ("is:all", "inbox archived"),
        ("-in:all in:anywhere", "spam trash"),
        ("label:anywhere", "inbox archived spam trash"),
        ("label:archive", "archived"),
        ("label:all in:inbox", "inbox"),
    ],
)
def test_all_mail_is_everything_but_spam_and_trash(sim, google, address, query, names):
    """Follows "Archive or mute Gmail messages", https://support.google.com/mail/answer/6576

    The help lists `in:archive` and `in:anywhere`; that `all` names All Mail, and that `label:` and `is:`
    take the same names, is known from programs that depend on it.
    """
    user = google.connect(sim, address)
    ids = {
        name: sim.deliver(address, make_message())["id"] for name in ("inbox", "archived", "trash", "spam")
    }
    sim.act(address, ids["archived"], "label", remove=["INBOX"])
    sim.act(address, ids["trash"], "trash")
    sim.act(address, ids["spam"], "label", add=["SPAM"], remove=["INBOX"])
    found = {message["id"] for message in user.pages("messages", "messages", q=query)}
    assert found == {ids[name] for name in names.split()}
    if "anywhere" not in query:
        everywhere = user.pages("messages", "messages", q=query, includeSpamTrash="true")
        assert {message["id"] for message in everywhere} == found


def test_a_label_named_all_is_found_by_its_name(sim, google, address):
    """Follows "Refine searches in Gmail", https://support.google.com/mail/answer/7190"""
    user = google.connect(sim, address)
    label = sim.post(f"mailboxes/{address}/folders", name="All")
    labelled, _ = (sim.deliver(address, make_message())["id"] for _ in range(2))
    sim.act(address, labelled, "label", add=[label["key"]])
    assert [found["id"] for found in user.pages("messages", "messages", q="label:all")] == [labelled]


def test_received_mail_names_the_mailbox_that_it_was_delivered_to(sim, google, address):
    """Gmail records the address in Delivered-To, which `deliveredto:` searches; own mail has none.

    "Refine searches in Gmail", https://support.google.com/mail/answer/7190
    """
    user = google.connect(sim, f"delivered-{address}", messages=40)
    own = sim.deliver(user.address, make_message("Own bytes"))["id"]
    generated = sim.deliver(user.address, kind="invoice")["id"]
    sent = sim.deliver(user.address, kind="plain", folder="SENT")["id"]
    listed = user.pages("messages", "messages", q=f"deliveredto:{user.address}", includeSpamTrash="true")
    found = {message["id"] for message in listed}
    is_own = {
        message["id"]: bool({"SENT", "DRAFT"} & set(message["folders"]))
        for message in sim.truth(user.address)
    }
    assert found == {name for name, by_owner in is_own.items() if not by_owner} - {own}
    assert generated in found
    assert sent not in found
    assert user.raw(generated).startswith(f"Delivered-To: {user.address}\r\n".encode())
    assert user.raw(own) == make_message("Own bytes")
