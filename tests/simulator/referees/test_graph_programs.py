"""Programs and libraries for Microsoft Graph that other people wrote, unmodified, compared with the truth."""

import json
from collections import Counter
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.referees.mime_truth import digest
from simulator.referees.referee import Prepare, Referee

pytestmark = pytest.mark.soak

CONTENT = bytes(range(256)) * 40


def list_files(entry: dict[str, Any]) -> Counter[str]:
    """Count the true attachments by SHA-256."""
    return Counter(file["sha256"] for file in entry["attachments"] if not file.get("nested"))


def register_application(sim: Simulation) -> list[str]:
    """Register an application for all mailboxes; return its client ID, secret and tenant."""
    application = sim.post("applications", provider="outlook", name="Referee")
    return [application["client_id"], application["client_secret"], application["tenant"]]


O365 = """
import base64, hashlib, json, sys
from O365 import Account, FileSystemTokenBackend

client_id, secret, tenant, address, friend = sys.argv[1:]
account = Account(
    (client_id, secret), auth_flow_type="credentials", tenant_id=tenant, main_resource=address,
    token_backend=FileSystemTokenBackend(token_path="."),
)
assert account.authenticate()
mailbox = account.mailbox()
hashes, files = [], []
for message in mailbox.get_messages(limit=500, batch=40):
    hashes.append(hashlib.sha256(message.get_mime_content()).hexdigest())
    if message.has_attachments:
        message.attachments.download_attachments()
        files += [
            hashlib.sha256(base64.b64decode(one.content)).hexdigest()
            for one in message.attachments if one.attachment_type == "file"
        ]
with open("report.bin", "wb") as file:
    file.write(bytes(range(256)) * 40)

draft = mailbox.new_message()
draft.to.add(friend)
draft.bcc.add("hidden@example.net")
draft.subject, draft.body = "Report", "<p>Here it is.</p>"
draft.attachments.add("report.bin")
assert draft.save_draft()
draft.subject = "Report 2"
assert draft.save_draft()
assert draft.send()

inbox = mailbox.inbox_folder().get_messages(limit=500)
[asked] = [one for one in inbox if one.subject == "Quarterly figures"]
answer = asked.reply(to_all=False)
answer.body = "Thank you."
assert answer.send()
onward = asked.forward()
onward.to.add(friend)
onward.body = "For your information."
assert onward.send()
later = asked.reply(to_all=True)
assert later.save_draft()
asked.mark_as_read()
asked.flag.set_flagged()
assert asked.save_message()
folder = mailbox.create_child_folder("Checked")
assert asked.move(folder)
print(json.dumps({"hashes": hashes, "files": files}))
"""


def test_o365_reads_drafts_replies_and_forwards(sim: Simulation, python_referee: Prepare, address: str):
    friend = f"friend.{address}"
    sim.create("outlook", address, messages=120)
    sim.create("outlook", friend)
    sender: dict[str, Any] = {"from": f"Friend <{friend}>"}
    asked = sim.deliver(address, subject="Quarterly figures", kind="plain", **sender)
    before = sim.truth(address)
    o365 = python_referee(sim, "o365")
    seen = o365.python(O365, *register_application(sim), address, friend)

    assert Counter(seen["hashes"]) == Counter(entry["sha256"] for entry in before)
    files = Counter(file["sha256"] for entry in before for file in entry["attachments"])
    assert Counter(seen["files"]) <= files
    assert len(seen["files"]) > 10

    arrived = sim.truth(friend)
    assert [entry["subject"] for entry in arrived] == [
        "Report 2", "RE: Quarterly figures", "FW: Quarterly figures"
    ]  # fmt: skip
    # O365 uploads the attachments of a draft again when the draft is saved a second time.
    assert list_files(arrived[0]) == Counter([digest(CONTENT)] * 2)
    for entry, text in zip(arrived, (b"Here it is.", b"Thank you.", b"For your information."), strict=True):
        raw = sim.raw(friend, entry["id"])
        assert text in raw
        assert b"hidden@example.net" not in raw
    after = {entry["id"]: entry for entry in sim.truth(address)}
    [reply] = [
        entry
        for entry in after.values()
        if entry["subject"] == "RE: Quarterly figures" and not entry["draft"]
    ]
    assert (reply["thread"], reply["keys"]) == (asked["thread"], ["sentitems"])
    names = {folder["id"]: folder["name"] for folder in sim.get(f"mailboxes/{address}")["folders"]}
    moved = after[asked["id"]]
    assert (moved["read"], moved["flag"]) == (True, "flagged")
    assert [names[key] for key in moved["folders"]] == ["Checked"]
    assert [
        entry["subject"]
        for entry in after.values()
        if entry["draft"] and entry["id"] not in {one["id"] for one in before}
    ] == ["RE: Quarterly figures"]


OFFICE365 = """
import hashlib, io, json, sys
from office365.graph_client import GraphClient

client_id, secret, tenant, address, friend = sys.argv[1:]
client = GraphClient(tenant=tenant).with_client_secret(client_id, secret)
user = client.users[address]
messages = user.messages.get_all(page_size=35).execute_query()
hashes = []
for message in messages:
    content = io.BytesIO()
    message.download(content).execute_query()
    hashes.append(hashlib.sha256(content.getvalue()).hexdigest())
folders = user.mail_folders.get_all().execute_query()
counts = {folder.display_name: folder.total_item_count for folder in folders}
message = user.send_mail(subject="Report", body="Here it is.", to_recipients=[friend])
message.add_file_attachment("report.bin", bytes(range(256)) * 40).execute_query()
people = [person.user_principal_name for person in client.users.get_all().execute_query()]
print(json.dumps({"hashes": hashes, "folders": counts, "people": people}))
"""


def test_office365_rest_client_reads_and_sends(sim: Simulation, python_referee: Prepare, address: str):
    friend = f"friend.{address}"
    sim.create("outlook", address, messages=90)
    sim.create("outlook", friend)
    office365 = python_referee(sim, "office365")
    seen = office365.python(OFFICE365, *register_application(sim), address, friend)
    truth = [entry for entry in sim.truth(address) if entry["subject"] != "Report"]
    assert Counter(seen["hashes"]) == Counter(entry["sha256"] for entry in truth)
    names = {folder["id"]: folder["name"] for folder in sim.get(f"mailboxes/{address}")["folders"]}
    counts = Counter(names[entry["folders"][0]] for entry in truth)
    assert {name: count for name, count in seen["folders"].items() if count} == counts
    assert {address, friend} <= set(seen["people"])
    [arrived] = sim.truth(friend)
    assert arrived["subject"] == "Report"
    assert list_files(arrived) == Counter([digest(CONTENT)])


GRAPH_CLIENT = """
import {
  BatchRequestContent, BatchResponseContent, Client, FileUpload, LargeFileUploadTask, PageIterator,
  ResponseType,
} from "@microsoft/microsoft-graph-client";
import { createHash } from "node:crypto";

const [token, base, friend] = process.argv.slice(2);
const client = Client.init({
  authProvider: (done) => done(null, token), baseUrl: `${base}/`, customHosts: new Set(["127.0.0.1"]),
});
const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const ids = [];
const headers = { Prefer: 'IdType="ImmutableId"' };
const first = await client.api("/me/messages").headers(headers).top(10).select("id").get();
await new PageIterator(client, first, (message) => ids.push(message.id) > 0, { headers }).iterate();
const hashes = {};
for (const id of ids) {
  hashes[id] = sha256(Buffer.from(
    await client.api(`/me/messages/${id}/$value`).responseType(ResponseType.ARRAYBUFFER).get()));
}
const requests = ids.slice(0, 20).map((id, place) => (
  { id: String(place), request: new Request(`${base}/me/messages/${id}`) }));
const answer = await client.api("/$batch").post(await new BatchRequestContent(requests).getContent());
const statuses = [...new BatchResponseContent(answer).getResponses()].map(([, response]) => response.status);
let page = await client.api("/me/mailFolders/inbox/messages/delta").get();
let inbox = page.value.length;
while (page["@odata.nextLink"]) {
  page = await client.api(page["@odata.nextLink"]).get();
  inbox += page.value.length;
}
const draft = await client.api("/me/messages").post(
  { subject: "Large", toRecipients: [{ emailAddress: { address: friend } }] });
const content = Buffer.alloc(4 * 1024 * 1024 + 17, 7);
const session = await LargeFileUploadTask.createUploadSession(
  client, `/me/messages/${draft.id}/attachments/createUploadSession`,
  { AttachmentItem: { attachmentType: "file", name: "large.bin", size: content.length } });
await new LargeFileUploadTask(
  client, new FileUpload(content, "large.bin", content.length), session, { rangeSize: 4 * 327680 }).upload();
await client.api(`/me/messages/${draft.id}/send`).post({});
const refused = await client.api("/me/messages/nothing").get()
  .catch((error) => [error.statusCode, error.code]);
console.log(JSON.stringify({ hashes, statuses, inbox, refused, sent: sha256(content) }));
"""


def test_the_graph_client_for_node_pages_batches_and_uploads(
    sim: Simulation, node_referee: Prepare, address: str
):
    friend = f"friend.{address}"
    sim.create("outlook", address, messages=75)
    sim.create("outlook", friend)
    scopes = ["User.Read", "Mail.ReadWrite", "Mail.Send"]
    token = sim.post("microsoft/tokens", address=address, scopes=scopes)["access_token"]
    before = sim.truth(address)
    seen = node_referee(sim, "graph-client").node(GRAPH_CLIENT, token, sim.https, friend)
    assert seen["hashes"] == {entry["id"]: entry["sha256"] for entry in before}
    assert seen["statuses"] == [200] * 20
    assert seen["inbox"] == sum(entry["keys"] == ["inbox"] for entry in before)
    assert seen["refused"] == [400, "ErrorInvalidIdMalformed"]
    [arrived] = sim.truth(friend)
    assert list_files(arrived) == Counter([seen["sent"]])


@pytest.fixture
def m365(sim: Simulation, node_referee: Prepare) -> Referee:
    """Return Microsoft's community CLI, signed in as an application for all mailboxes."""
    cli = node_referee(sim, "cli-microsoft365")
    client_id, secret, tenant = register_application(sim)
    cli.run(
        "m365", "login", "--authType", "secret", "--appId", client_id, "--tenant", tenant, "--secret", secret
    )
    return cli


def ask(cli: Referee, *command: str) -> Any:
    return json.loads(cli.run("m365", *command, "--output", "json"))


def test_the_m365_cli_lists_reads_moves_and_sends_mail(sim: Simulation, m365: Referee, address: str):
    friend = f"friend.{address}"
    sim.create("outlook", address, messages=60)
    sim.create("outlook", friend)
    user = ("--userName", address)
    inbox = [entry for entry in sim.truth(address) if entry["keys"] == ["inbox"]]
    listed = ask(m365, "outlook", "message", "list", *user, "--folderName", "Inbox")
    assert Counter(message["internetMessageId"] for message in listed) == Counter(
        entry["message_id"] for entry in inbox
    )
    shown = ask(m365, "outlook", "message", "get", *user, "--id", listed[0]["id"])
    assert shown["subject"] == listed[0]["subject"]
    m365.run(
        "m365", "outlook", "mail", "send", "--sender", address, "--to", friend,
        "--subject", "Report", "--bodyContents", "Here it is.",
    )  # fmt: skip
    [arrived] = sim.truth(friend)
    assert arrived["subject"] == "Report"
    assert b"Here it is." in sim.raw(friend, arrived["id"])
    m365.run("m365", "outlook", "message", "remove", *user, "--id", listed[0]["id"], "--force")
    [removed] = [
        entry for entry in sim.truth(address) if entry["message_id"] == listed[0]["internetMessageId"]
    ]
    assert removed["keys"] != ["inbox"]
    m365.run("m365", "outlook", "mailbox", "settings", "set", *user, "--timeZone", "Romance Standard Time")
    settings = ask(m365, "outlook", "mailbox", "settings", "get", *user)
    assert settings["timeZone"] == "Romance Standard Time"


def test_the_m365_cli_lists_and_finds_users(sim: Simulation, m365: Referee, address: str):
    people = [f"{name}.{address}" for name in ("ada", "grace", "jean")]
    for person in people:
        sim.create("outlook", person)
    listed = {user["userPrincipalName"]: user["id"] for user in ask(m365, "entra", "user", "list")}
    assert set(people) <= set(listed)
    assert len(listed) == sum(mailbox["provider"] == "outlook" for mailbox in sim.get("mailboxes"))
    by_name = ask(m365, "entra", "user", "get", "--userName", people[0])
    by_email = ask(m365, "entra", "user", "get", "--email", people[1])
    assert (by_name["id"], by_email["id"]) == (listed[people[0]], listed[people[1]])
