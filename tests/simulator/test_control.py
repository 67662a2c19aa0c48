"""The control API: mailboxes, messages, clock, applications, logs, and invalid requests."""

import hashlib
import random
import re
import socket
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any

import jsonschema
import pytest

from mailsim.request_log import MAX_BODY_BYTES, MAX_BODY_SIZE, RequestLog
from simulator.driver import Simulation
from simulator.push_receiver import receiving

PROVIDERS = ["gmail", "outlook"]
PDF = b"%PDF-1.7\r\n" + bytes(range(256)) * 9


def message_bytes(subject: str = "Grüße", **headers: str) -> bytes:
    message = EmailMessage()
    message["From"] = "Ben <ben@example.org>"
    message["Subject"] = subject
    message["Message-ID"] = f"<{random.randbytes(8).hex()}@example.org>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Hello\n")
    message.add_attachment(PDF, maintype="application", subtype="pdf", filename="a b.pdf")
    return message.as_bytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_message_is_delivered_byte_for_byte(sim: Simulation, address: str, provider: str):
    sim.create(provider, address)
    raw = message_bytes() + b"\r\n\xff\x00 trailing bytes"
    made = sim.deliver(address, raw)
    (found,) = sim.truth(address)
    assert {name: found[name] for name in made} == made
    assert found["sha256"] == sha256(raw)
    assert found["size"] == len(raw)
    assert (found["read"], found["draft"], found["flag"]) == (False, False, "notFlagged")
    assert found["subject"] == "Grüße"
    for name in (made["number"], made["id"]):
        answer = sim.control.get(f"mailboxes/{address}/messages/{name}/raw")
        assert (answer.content, answer.headers["content-type"]) == (raw, "message/rfc822")
    (attached,) = found["attachments"]
    assert attached == {
        "part": "1",
        "name": "a b.pdf",
        "content_type": "application/pdf",
        "size": len(PDF),
        "sha256": sha256(PDF),
    }


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_truth_of_generated_mail_has_every_message_once_over_all_pages(
    sim: Simulation, address: str, provider: str
):
    sim.create(provider, address, 250)
    whole, paged = sim.truth(address), sim.truth(address, limit=37)
    assert whole == paged
    assert [message["number"] for message in whole] == list(range(250))
    assert len({message["id"] for message in whole}) == 250
    quick = sim.truth(address, digests=False)
    assert [message["id"] for message in quick] == [message["id"] for message in whole]
    assert all(message["sha256"] == "" for message in quick)
    details = sim.get(f"mailboxes/{address}")
    assert details["mailbox"]["messages"] == 250
    for folder in details["folders"]:
        assert folder["messages"] == sum(folder["key"] in message["keys"] for message in whole), folder["key"]
    assert {key for message in whole for key in message["folders"]} <= {f["id"] for f in details["folders"]}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_generated_mail_matches_the_request(sim: Simulation, address: str, provider: str):
    sim.create(provider, address)
    order = {"kind": "newsletter", "from": "News <news@example.net>", "subject": "Ordered", "read": True}
    sim.post(f"mailboxes/{address}/messages", count=3, **order)
    messages = sim.truth(address)
    assert [message["subject"] for message in messages] == ["Ordered"] * 3
    assert len({message["sha256"] for message in messages}) == 3
    assert all(message["read"] for message in messages)
    raw = sim.control.get(f"mailboxes/{address}/messages/0/raw").text
    assert "News <news@example.net>" in raw
    assert "List-Unsubscribe" in raw
    assert sha256(raw.encode()) == messages[0]["sha256"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_generated_reply_joins_the_thread_of_its_message(sim: Simulation, address: str, provider: str):
    sim.create(provider, address, 30)
    first = sim.truth(address)[10]
    made = sim.deliver(address, reply_to=first["id"])
    again = sim.deliver(address, reply_to=str(made["number"]))
    assert made["thread"] == again["thread"] == first["thread"]
    assert sim.truth(address)[-1]["subject"].startswith("Re: ")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_change_of_a_message_shows_in_the_truth(sim: Simulation, address: str, provider: str):
    trash, target = ("TRASH", "SPAM") if provider == "gmail" else ("deleteditems", "archive")
    sim.create(provider, address)
    ids = [sim.deliver(address, message_bytes(str(n)))["id"] for n in range(4)]
    marks = {"read": True, "flag": "flagged", "importance": "high", "categories": ["Red"]}
    assert sim.act(address, ids[0], "mark", **marks) == {"count": 1}
    assert sim.act(address, ids[0], "mark", **marks) == {"count": 0}
    sim.act(address, ids[1], "move", folder=target)
    sim.act(address, ids[2], "trash")
    sim.delete(f"mailboxes/{address}/messages/{ids[3]}")
    first, moved, trashed = sim.truth(address)
    assert {name: first[name] for name in marks} == marks
    assert target in moved["keys"]
    assert trash in trashed["keys"]
    answer = sim.control.post(f"mailboxes/{address}/messages/{ids[3]}/trash", json={})
    assert answer.status_code == 404


def test_gmail_labels_are_added_and_removed(sim: Simulation, address: str):
    sim.create("gmail", address)
    label = sim.post(f"mailboxes/{address}/folders", name="Clients/Acme")
    made = sim.deliver(address, message_bytes())
    sim.act(address, made["id"], "label", add=[label["key"], "STARRED"], remove=["INBOX", "UNREAD"])
    (found,) = sim.truth(address)
    assert set(found["keys"]) == {label["key"], "STARRED", "CATEGORY_PERSONAL"}
    assert set(found["folder_names"]) == {"Clients/Acme", "STARRED", "CATEGORY_PERSONAL"}
    assert (found["read"], found["flag"]) == (True, "flagged")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_folders_are_added_changed_and_deleted(sim: Simulation, address: str, provider: str):
    sim.create(provider, address)
    made = sim.post(f"mailboxes/{address}/folders", name="One")
    changed = sim.control.patch(f"mailboxes/{address}/folders/{made['key']}", json={"name": "Two"}).json()
    assert (changed["key"], changed["id"], changed["name"]) == (made["key"], made["id"], "Two")
    again = sim.control.post(f"mailboxes/{address}/folders", json={"name": "two"})
    assert again.status_code == 409
    sim.delete(f"mailboxes/{address}/folders/{made['key']}")
    assert made["key"] not in {folder["key"] for folder in sim.get(f"mailboxes/{address}")["folders"]}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_drafts_are_saved_edited_and_sent(sim: Simulation, address: str, provider: str):
    sim.create(provider, address)
    mail: dict[str, Any] = {"headers": {"content-type": "message/rfc822"}}
    path = f"mailboxes/{address}"
    (first,) = sim.control.post(f"{path}/drafts", content=message_bytes("one"), **mail).json()["messages"]
    edited = sim.control.put(f"{path}/messages/{first['id']}", content=message_bytes("two"), **mail)
    (second,) = edited.json()["messages"]
    assert (second["id"] == first["id"]) == (provider == "outlook")
    assert second["thread"] == first["thread"]
    (draft,) = sim.truth(address)
    assert (draft["draft"], draft["subject"]) == (True, "two")
    sim.act(address, second["id"], "send")
    (sent,) = sim.truth(address)
    assert (sent["draft"], sent["keys"]) == (False, ["SENT"] if provider == "gmail" else ["sentitems"])


def test_the_clock_moves_by_seconds_and_to_a_time(sim: Simulation, address: str):
    sim.create("gmail", address)
    before = sim.get("clock")
    assert before["manual"]
    sim.move_clock(90)
    number = sim.deliver(address, message_bytes())["number"]
    after = sim.get("clock")
    assert after["milliseconds"] - before["milliseconds"] == 90_000
    assert sim.truth(address)[number]["received"] == after["milliseconds"]
    sim.post("clock", to="2035-01-01T00:00:00+01:00")
    assert sim.get("clock")["now"] == "2034-12-31T23:00:00+00:00"
    back = sim.control.post("clock", json={"to": "2034-01-01T00:00:00Z"})
    assert back.status_code == 400
    assert "forward" in back.json()["error"]


def test_applications_are_registered(sim: Simulation):
    given = {"redirect_uris": ["https://app.example.com/cb"], "testing": True, "name": "mine"}
    made = sim.post("applications", provider="gmail", **given)
    assert {name: made[name] for name in given} == given
    assert made["client_id"]
    assert made["client_secret"]
    assert made in sim.get("applications")
    again = sim.control.post("applications", json={"provider": "gmail", "client_id": made["client_id"]})
    assert again.status_code == 409


def test_the_log_drops_its_oldest_requests_and_bodies():
    log = RequestLog(limit=2000)
    log.keep_bodies = True
    for number in range(3000):
        log.open(number, "GET", "/x").response_body = bytes(MAX_BODY_SIZE)
    kept = list(log.newest())
    assert [exchange.number for exchange in kept] == list(range(3000, 1000, -1))
    assert sum(len(exchange.response_body) for exchange in kept) <= MAX_BODY_BYTES + 64 * MAX_BODY_SIZE
    assert kept[0].response_body
    assert not kept[-1].response_body


def test_a_closed_mailbox_is_not_found(sim: Simulation, address: str):
    sim.create("outlook", address, 5)
    sim.delete(f"mailboxes/{address}")
    assert sim.control.get(f"mailboxes/{address}").status_code == 404
    assert address not in {box["address"] for box in sim.get("mailboxes")}


def test_pushes_to_subscribers_are_logged(sim: Simulation):
    topic, name = "projects/mailsim/topics/logged", "projects/mailsim/subscriptions/logged"
    sim.post("google/topics", name=topic)
    with receiving() as receiver, socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        silent = f"http://127.0.0.1:{unheard.getsockname()[1]}/"
        receiver.answer(204)
        sim.post("google/subscriptions", name=name, topic=topic, push_endpoint=f"{receiver.url}/hook?token=x")
        sim.post("google/subscriptions", name=f"{name}2", topic=topic, push_endpoint=silent)
        sim.post("google/publish", topic=topic, data="hello")
        sim.post("settle")
        delivery = receiver.next()
        pushes = {push["path"]: push for push in sim.get("pushes")}
        assert (pushes[silent]["status"], pushes[silent]["query"]) == (0, "")
        heard = pushes[f"{receiver.url}/hook"]
        assert (heard["status"], heard["query"]) == (204, "token=x")
        assert heard["request_body"].encode() == delivery.body
        assert (heard["provider"], heard["endpoint"], heard["subscription"]) == ("gmail", "push", name)
        for made in (name, f"{name}2"):
            sim.control.delete("google/subscriptions", params={"name": made})


WRONG: list[tuple[str, str, Any, int]] = [
    ("POST", "mailboxes", {"provider": "yahoo", "address": "x@example.com"}, 400),
    ("POST", "mailboxes", {"provider": "gmail", "address": "x"}, 400),
    ("POST", "mailboxes", {"provider": "gmail", "address": "x@example.com", "message": 5}, 400),
    ("POST", "mailboxes", {"provider": "gmail", "address": "x@example.com", "messages": "5"}, 400),
    ("POST", "mailboxes", {"provider": "gmail", "address": "x@example.com", "kinds": ["hate mail"]}, 400),
    ("POST", "mailboxes", [], 400),
    ("POST", "mailboxes", b"{", 400),
    ("POST", "mailboxes", b"\xff", 400),
    ("POST", "mailboxes", b"[" * 100_000, 400),
    ("POST", "mailboxes/nobody@example.com/messages", {}, 404),
    ("POST", "mailboxes/{box}/messages", {"kind": "hate mail"}, 400),
    ("POST", "mailboxes/{box}/messages", {"variant": "purple"}, 400),
    ("POST", "mailboxes/{box}/messages", {"language": "tlh"}, 400),
    ("POST", "mailboxes/{box}/messages", {"from": "nobody"}, 400),
    ("POST", "mailboxes/{box}/messages", {"to": ["a@example.com\r\nBcc: b@example.com"]}, 400),
    ("POST", "mailboxes/{box}/messages", {"subject": "a\r\nBcc: b@example.com"}, 400),
    ("POST", "mailboxes/{box}/messages", {"size": -1}, 400),
    ("POST", "mailboxes/{box}/messages", {"size": 10**12}, 400),
    ("POST", "mailboxes/{box}/messages", {"count": 0}, 400),
    ("POST", "mailboxes/{box}/messages", {"count": 10**9}, 400),
    ("POST", "mailboxes/{box}/messages", {"seed": -1}, 400),
    ("POST", "mailboxes/{box}/messages", {"seed": 2**70}, 400),
    ("POST", "mailboxes/{box}/messages", {"folder": "nowhere"}, 404),
    ("POST", "mailboxes/{box}/messages", {"reply_to": "nothing"}, 404),
    ("POST", "mailboxes/{box}/messages/99999/trash", {}, 404),
    ("POST", "mailboxes/{box}/messages/99999999999999999999/trash", {}, 404),
    ("POST", "mailboxes/{box}/messages/0/move", {}, 400),
    ("POST", "mailboxes/{box}/messages/0/move", {"folder": "nowhere"}, 404),
    ("POST", "mailboxes/{box}/messages/0/mark", {"flag": "purple"}, 400),
    ("POST", "mailboxes/{box}/messages/0/label", {"add": ["nowhere"]}, 404),
    ("POST", "mailboxes/{box}/messages/0/send", {}, 400),
    ("PUT", "mailboxes/{box}/messages/0", {"raw": ""}, 415),
    ("POST", "mailboxes/{box}/drafts", b"", 400),
    ("POST", "mailboxes/{box}/folders", {"name": ""}, 400),
    ("DELETE", "mailboxes/{box}/folders/INBOX", None, 400),
    ("GET", "mailboxes/{box}/truth?limit=0", None, 400),
    ("GET", "mailboxes/{box}/truth?limit=many", None, 400),
    ("GET", "mailboxes/{box}/truth?start=-1", None, 400),
    ("GET", "mailboxes/{box}/truth?begin=1", None, 400),
    ("POST", "clock", {}, 400),
    ("POST", "clock", {"seconds": 1, "to": "2040-01-01T00:00:00Z"}, 400),
    ("POST", "clock", {"seconds": -1}, 400),
    ("POST", "clock", {"to": "2040-01-01"}, 400),
    ("POST", "clock", {"to": "soon"}, 400),
    ("POST", "faults", {"kind": "flood"}, 400),
    ("POST", "faults", {"kind": "error", "probability": 2}, 400),
    ("POST", "faults", {"kind": "error", "status": 200}, 400),
    ("DELETE", "faults/77", None, 404),
    ("DELETE", "faults/x", None, 400),
    ("GET", "requests?limit=0", None, 400),
    ("PUT", "requests", {"bodies": "yes"}, 400),
    ("GET", "nothing", None, 404),
    ("PATCH", "clock", {}, 405),
]


@pytest.mark.parametrize("method, path, body, status", WRONG, ids=lambda value: str(value)[:60])
def test_invalid_requests_are_refused_with_one_clear_sentence(
    sim: Simulation, method: str, path: str, body: Any, status: int
):
    box = "wrong@example.com"
    if box not in {found["address"] for found in sim.get("mailboxes")}:
        sim.create("gmail", box, 3, spread=False)
    content: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = sim.control.request(method, path.format(box=box), **(content if body is not None else {}))
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    (words,) = answer.json().values()
    assert words
    assert "\n" not in words
    assert len(sim.truth(box, digests=False)) == 3


def test_an_oversized_body_is_refused_before_it_is_stored(sim: Simulation, address: str):
    sim.create("gmail", address)

    def flood():
        for _ in range(120):
            yield bytes(1 << 20)

    answer = sim.control.post(
        f"mailboxes/{address}/messages", content=flood(), headers={"content-type": "message/rfc822"}
    )
    assert answer.status_code == 413
    assert sim.truth(address) == []


def test_a_reset_starts_a_new_simulation_at_the_same_urls(start: Callable[..., Simulation], address: str):
    sim = start("--clock", "manual", "--start", "2026-03-02T09:00:00Z")
    before = sim.get("")
    sim.create("gmail", address, 5)
    sim.fault("push_lost")
    sim.move_clock(3600)
    assert sim.control.post("reset").status_code == 204
    assert sim.get("") == before
    assert sim.get("mailboxes") == sim.get("faults") == []
    assert sim.create("gmail", address)["messages"] == 0


def test_the_openapi_document_describes_every_response(sim: Simulation, address: str):
    document = sim.get("openapi.json")
    assert document["openapi"].startswith("3.1")
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert len({operation["operationId"] for _, _, operation in operations}) == len(operations)
    sim.create("gmail", address, 5)
    sim.fault("push_lost")
    checked = 0
    for method, path, operation in operations:
        known = path.replace("{address}", address).replace("{message}", "0")
        if method != "get" or "{" in known or path.endswith(("/raw", "/state")):
            continue
        if "/google/" in path or "/microsoft/" in path:
            continue
        answer = sim.control.get(f"{sim.http}{known}")
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
        checked += 1
    assert checked >= 9


def test_random_input_on_every_endpoint_never_causes_a_server_error(sim: Simulation, address: str):
    sim.create("outlook", address, 3)
    dice = random.Random(11)
    pieces = [
        "0",
        "1",
        "-1",
        "x",
        address,
        "%00",
        "ü",
        "1e9",
        "null",
        "{}",
        "[]",
        '"x"',
        '{"seconds":0}',
        "\ud800",
    ]
    bodies = [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"kind":{}}',
        b'{"add":[null]}',
        b'{"folder":"\\ud800"}',
    ]
    for path, methods in sim.get("openapi.json")["paths"].items():
        for method in methods:
            for _ in range(6):
                filled = re.sub(
                    r"\{\w+\}", lambda _: dice.choice([address, "0", "zzz", "%F0%9F%90%88", "0%00"]), path
                )
                answer = sim.control.request(
                    method.upper(),
                    f"{sim.http}{filled}",
                    params={dice.choice(["limit", "start", "read", "q"]): dice.choice(pieces[:-1])},
                    content=dice.choice(bodies),
                    headers={
                        "content-type": dice.choice(["application/json", "message/rfc822", "", "text/html"])
                    },
                )
                assert answer.status_code < 500, (method, filled, answer.request.content, answer.text)
                if address not in {box["address"] for box in sim.get("mailboxes")}:
                    sim.create("outlook", address, 3)


ORDERS: list[tuple[str, dict[str, Any]]] = [
    ("revoke", {"reson": "password"}), ("revoke", {"reason": "whim"}), ("revoke", {"reason": 5}),
    ("expire-tokens", {"seconds": 5}), ("expire-cursors", {"folder": "inbox"}), ("lifecycle", {}),
    ("lifecycle", {"event": "party"}), ("lifecycle", {"event": "missed", "shape": "round"}),
    ("lifecycle", {"event": "missed", "subscriptions": []}),
]  # fmt: skip


@pytest.mark.parametrize("provider", ["gmail", "outlook"])
@pytest.mark.parametrize("order, body", ORDERS)
def test_a_request_with_an_unknown_property_is_refused(
    sim: Simulation, address: str, provider: str, order: str, body: dict[str, Any]
):
    sim.create(provider, address)
    answer = sim.control.post(f"mailboxes/{address}/{order}", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_provider_requests_are_documented(sim: Simulation):
    described = sim.get("openapi.json")
    names = {"revoke": "RevocationRequest", "expire-tokens": "ExpiryRequest", "lifecycle": "LifecycleRequest"}
    for action, name in names.items():
        body = described["paths"][f"/_sim/mailboxes/{{address}}/{action}"]["post"]["requestBody"]
        assert body["content"]["application/json"]["schema"]["$ref"].endswith(f"/{name}")
        assert described["components"]["schemas"][name]["additionalProperties"] is False


@pytest.mark.parametrize("wrong", [{"watch_days": -1}, {"watch_days": 0}, {"user_units": -1}])
def test_invalid_google_options_are_refused(sim: Simulation, wrong: dict[str, Any]):
    assert sim.control.patch("google/options", json=wrong).status_code == 400


def test_an_invalid_topic_name_is_refused_with_the_rule(sim: Simulation):
    answer = sim.control.post("google/topics", json={"name": "projects/mailsim/topics/t1"})
    assert "2 to 254" in answer.json()["error"]
