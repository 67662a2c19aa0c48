"""Programs and libraries for Gmail that other people wrote, unmodified, compared with the truth."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.google_user import FULL, MODIFY, SCOPE
from simulator.referees.google_files import (
    make_authorized_user,
    make_client_secret,
    make_oauth2client_credentials,
)
from simulator.referees.mime_truth import digest, read_texts
from simulator.referees.referee import Prepare, Referee

pytestmark = pytest.mark.soak

FRIEND = "friend@example.org"


def visible(truth: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the messages outside of spam and trash, by ID."""
    return {entry["id"]: entry for entry in truth if not {"SPAM", "TRASH"} & set(entry["folders"])}


def in_visible_threads(truth: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return all messages of the threads with a visible one, as `threads.get` does, by ID."""
    threads = {entry["thread"] for entry in visible(truth).values()}
    return {entry["id"]: entry for entry in truth if entry["thread"] in threads}


def list_files(entry: dict[str, Any], *, nested: bool = True) -> Counter[tuple[str, str]]:
    """Count the true attachments with a name by name and SHA-256."""
    return Counter(
        (file["name"], file["sha256"])
        for file in entry["attachments"]
        if file["name"] and (nested or "." not in file["part"])
    )


EZGMAIL = """
import hashlib, json, os, sys, tempfile
import ezgmail

def hash_attachments(message):
    found = []
    for index, name in enumerate(message.attachments):
        with tempfile.TemporaryDirectory() as folder:
            message.downloadAttachment(name, folder, message.attachments[:index].count(name))
            found.append([name, hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest()])
    return found

address = ezgmail.init()
threads = ezgmail.search("", maxResults=500)
read = {
    message.id: [thread.id, getattr(message, "originalBody", None), hash_attachments(message)]
    for thread in threads for message in thread.messages
}
[unread] = ezgmail.search("subject:Quarterly")
unread.markAsRead()
unread.addLabel("STARRED")
with open("report.bin", "wb") as file:
    file.write(bytes(range(256)) * 40)
ezgmail.send(sys.argv[1], "Report", "Here it is.", ["report.bin"], bcc="hidden@example.net")
unread.messages[0].reply("Thank you.")
print(json.dumps({"address": address, "read": read}))
"""


def test_ezgmail_reads_every_thread_and_sends(sim: Simulation, python_referee: Prepare, address: str):
    sim.create("gmail", address, messages=125)
    sim.create("gmail", FRIEND)
    sender: dict[str, Any] = {"from": f"Friend <{FRIEND}>"}
    asked = sim.deliver(address, subject="Quarterly figures", kind="plain", **sender)
    known = {entry["id"] for entry in sim.truth(address)}
    before = in_visible_threads(sim.truth(address))
    ezgmail = python_referee(sim, "ezgmail")
    ezgmail.write_json("credentials.json", make_client_secret(sim))
    ezgmail.write_json("token.json", make_oauth2client_credentials(sim, address, FULL))
    seen = ezgmail.python(EZGMAIL, FRIEND)

    assert seen["address"] == address
    assert {key: thread for key, (thread, _, _) in seen["read"].items()} == {
        key: entry["thread"] for key, entry in before.items()
    }
    texts = {key: text for key, (_, text, _) in seen["read"].items() if text}
    assert len(texts) > 90
    for key, text in texts.items():
        assert text in read_texts(sim.raw(address, key)), key
    for key, (_, _, files) in seen["read"].items():
        assert Counter((name, sha256) for name, sha256 in files) <= list_files(before[key]), key
    assert sum(len(files) for _, _, files in seen["read"].values()) > 10

    after = {entry["id"]: entry for entry in sim.truth(address)}
    assert after[asked["id"]]["read"]
    assert "STARRED" in after[asked["id"]]["folders"]
    arrived = sim.truth(FRIEND)
    assert [entry["subject"] for entry in arrived] == ["Report", "Quarterly figures"]
    assert list_files(arrived[0]) == Counter([("report.bin", digest(bytes(range(256)) * 40))])
    assert b"hidden@example.net" not in sim.raw(FRIEND, arrived[0]["id"])
    sent = {entry["subject"]: entry for key, entry in after.items() if key not in known}
    reply = sent["Quarterly figures"]
    assert (reply["thread"], reply["folders"]) == (asked["thread"], ["SENT"])


SIMPLEGMAIL = """
import hashlib, json, sys
from simplegmail import Gmail

gmail = Gmail()
read = {}
for message in gmail.get_messages(attachments="download"):
    files = [[file.filename, hashlib.sha256(file.data).hexdigest()] for file in message.attachments]
    read[message.id] = [message.thread_id, message.subject, message.plain, message.label_ids, files]
unread = [message.id for message in gmail.get_unread_inbox()]
label = gmail.create_label("Checked")
[asked] = gmail.get_messages(query="subject:Quarterly")
asked.add_label(label)
asked.mark_as_read()
asked.star()
sent = gmail.send_message(
    sys.argv[1], sys.argv[2], "Report", msg_html="<p>Here it is.</p>", msg_plain="Here it is.", signature=True
)
draft = gmail.create_draft(sys.argv[1], sys.argv[2], "Later", msg_plain="Not yet.")
print(json.dumps({"read": read, "unread": unread, "label": label.id, "sent": sent.id}))
"""


def test_simplegmail_reads_every_message_and_writes(sim: Simulation, python_referee: Prepare, address: str):
    sim.create("gmail", address, messages=150)
    friend = f"simple.{FRIEND}"
    sim.create("gmail", friend)
    asked = sim.deliver(address, subject="Quarterly figures", kind="plain")
    known = {entry["id"] for entry in sim.truth(address)}
    before = visible(sim.truth(address))
    simplegmail = python_referee(sim, "simplegmail")
    simplegmail.write_json("client_secret.json", make_client_secret(sim))
    scopes = (MODIFY, SCOPE + "settings.basic")
    simplegmail.write_json("gmail_token.json", make_authorized_user(sim, address, *scopes))
    seen = simplegmail.python(SIMPLEGMAIL, address, friend)

    assert set(seen["read"]) == set(before)
    for key, (thread, _, text, labels, files) in seen["read"].items():
        assert thread == before[key]["thread"]
        assert sorted(labels) == sorted(before[key]["folders"])
        assert Counter((name, sha256) for name, sha256 in files) <= list_files(before[key]), key
        assert not text or text.split("\n")[0].strip() in "\n".join(read_texts(sim.raw(address, key))), key
    assert sum(len(files) for *_, files in seen["read"].values()) > 15
    assert set(seen["unread"]) == {
        key for key, entry in before.items() if not entry["read"] and "INBOX" in entry["folders"]
    }

    after = {entry["id"]: entry for entry in sim.truth(address)}
    assert {"STARRED", seen["label"]} <= set(after[asked["id"]]["folders"])
    assert after[asked["id"]]["read"]
    assert after[seen["sent"]]["folders"] == ["SENT"]
    [arrived] = sim.truth(friend)
    assert read_texts(sim.raw(friend, arrived["id"]))[0].strip() == "Here it is."
    drafts = {key: entry["subject"] for key, entry in after.items() if entry["draft"] and key not in known}
    assert list(drafts.values()) == ["Later"]


GOOGLEAPIS = """
import { auth, gmail } from "@googleapis/gmail";
import { createHash } from "node:crypto";

const [clientId, secret, refreshToken, friend] = process.argv.slice(2);
const client = new auth.OAuth2(clientId, secret);
client.setCredentials({ refresh_token: refreshToken });
const { users } = gmail({ version: "v1", auth: client });
const userId = "me";
const sha256 = (data) => createHash("sha256").update(Buffer.from(data, "base64url")).digest("hex");
const start = (await users.getProfile({ userId })).data.historyId;
const hashes = {};
let pageToken;
do {
  const { data } = await users.messages.list({ userId, includeSpamTrash: true, maxResults: 40, pageToken });
  for (const { id } of data.messages) {
    hashes[id] = sha256((await users.messages.get({ userId, id, format: "raw" })).data.raw);
  }
  pageToken = data.nextPageToken;
} while (pageToken);
const files = [];
const walk = async (id, part) => {
  if (part.filename && part.body.attachmentId) {
    const { data } = await users.messages.attachments.get(
      { userId, messageId: id, id: part.body.attachmentId });
    files.push([id, part.filename, sha256(data.data)]);
  }
  for (const inner of part.parts ?? []) await walk(id, inner);
};
for (const id of Object.keys(hashes)) {
  await walk(id, (await users.messages.get({ userId, id })).data.payload);
}
const sent = await users.messages.send({
  userId,
  requestBody: {},
  media: {
    mimeType: "message/rfc822",
    body: `To: ${friend}\\r\\nSubject: Report\\r\\n\\r\\nHere it is.\\r\\n`,
  },
});
const history = await users.history.list({ userId, startHistoryId: start, historyTypes: ["messageAdded"] });
const refused = await users.messages.get({ userId, id: "1234567890abcdef" }).catch((error) => error.status);
console.log(JSON.stringify({
  hashes, files, refused, sent: sent.data.id,
  added: history.data.history.flatMap((change) => change.messagesAdded.map((one) => one.message.id)),
}));
"""


def test_googleapis_for_node_reads_and_uploads(sim: Simulation, node_referee: Prepare, address: str):
    sim.create("gmail", address, messages=130)
    friend = f"node.{FRIEND}"
    sim.create("gmail", friend)
    before = {entry["id"]: entry for entry in sim.truth(address)}
    user = make_authorized_user(sim, address, FULL)
    arguments = [user["client_id"], user["client_secret"], user["refresh_token"], friend]
    seen = node_referee(sim, "googleapis-gmail").node(GOOGLEAPIS, *arguments)
    assert seen["hashes"] == {key: entry["sha256"] for key, entry in before.items()}
    assert len(seen["files"]) > 10
    for key, name, sha256 in seen["files"]:
        assert (name, sha256) in list_files(before[key]), key
    assert seen["added"] == [seen["sent"]]
    assert seen["refused"] == 404
    [arrived] = sim.truth(friend)
    assert (arrived["subject"], b"Here it is." in sim.raw(friend, arrived["id"])) == ("Report", True)


def call_tools(server: Referee, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Call tools of an MCP server over its standard input; return the text of each answer."""
    greeting = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    requests = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting}] + [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": given}}
        for number, (name, given) in enumerate(calls, 1)
    ]
    lines = server.converse(["gmail-mcp"], [json.dumps(request) for request in requests])
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, lines)}
    return [answers[number]["content"][0]["text"] for number in range(1, len(requests))]


def test_the_gmail_mcp_server_searches_reads_and_sends(sim: Simulation, node_referee: Prepare, address: str):
    sim.create("gmail", address, messages=40)
    friend = f"agent.{FRIEND}"
    sim.create("gmail", friend)
    asked = sim.deliver(address, subject="Quarterly figures", kind="invoice", language="en")
    [truth] = [entry for entry in sim.truth(address) if entry["id"] == asked["id"]]
    server = node_referee(sim, "gmail-mcp")
    (server.home / ".gmail-mcp").mkdir()
    server.write_json(".gmail-mcp/gcp-oauth.keys.json", make_client_secret(sim))
    scopes = (MODIFY, SCOPE + "settings.basic")
    refresh = make_authorized_user(sim, address, *scopes)["refresh_token"]
    server.write_json(".gmail-mcp/credentials.json", {"refresh_token": refresh})
    found, read, _, _, _ = call_tools(
        server,
        ("search_emails", {"query": "in:anywhere", "maxResults": 100}),
        ("read_email", {"messageId": asked["id"]}),
        ("send_email", {"to": [friend], "subject": "Report", "body": "Here it is."}),
        ("modify_email", {"messageId": asked["id"], "addLabelIds": ["STARRED"]}),
        ("list_email_labels", {}),
    )
    assert found.count("ID: ") == len(sim.truth(address)) - 1  # everything but the sent message
    assert "Subject: Quarterly figures" in read
    assert next(name for name, _ in list_files(truth)) in read
    [arrived] = sim.truth(friend)
    assert (arrived["subject"], b"Here it is." in sim.raw(friend, arrived["id"])) == ("Report", True)
    assert "STARRED" in {entry["id"]: entry for entry in sim.truth(address)}[asked["id"]]["folders"]
