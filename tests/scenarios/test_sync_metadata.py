"""K2, from the provider's side: under the policy `metadata` no answer holds a body, a preview or a file."""

import json

import pytest

from flow.simulated_world import TOPIC
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, ProviderName
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import postroom
from simulator.driver import running

MARK = "m4rk3d-inside"
MAIL = f"""From: Ann <ann@example.org>\r
To: bob@example.com\r
Subject: Plain subject\r
Message-ID: <one@example.org>\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=b\r
\r
--b\r
Content-Type: text/plain\r
\r
{MARK}\r
--b\r
Content-Type: text/plain; name={MARK}.txt\r
Content-Disposition: attachment; filename={MARK}.txt\r
\r
{MARK}\r
--b--\r
""".encode()


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        simulation.control.put("requests", json={"bodies": True})
        yield simulation


@pytest.mark.parametrize("provider", list(ProviderName))
async def test_nothing_inside_a_message_is_asked_for(
    sim, database_url, owner, organization, tmp_path, provider
):
    address = f"{provider}@example.com"
    sim.create(provider, address, messages=20, days=10)
    sim.deliver(address, MAIL)
    async with postroom(sim, database_url, owner, organization, tmp_path) as room:
        box = await room.connect(provider, address, ConnectRequest(policy=ContentPolicy.METADATA))
        await box.sync()
        sim.deliver(address, MAIL.replace(b"one@", b"two@"))
        await box.sync()
        assert await box.one("SELECT count(*) FROM messages") == 22
        assert await box.one("SELECT count(*) FROM messages WHERE subject = 'Plain subject'") == 2
        assert await box.one("SELECT count(*) FROM attachments") == 0
        assert await box.one("SELECT count(snippet) FROM messages") == 0
        MailboxUser(sim, address, seed=19).act(12)
        await box.sync()
        await box.check(whole=False)
    recorded = sim.get("requests", mailbox=address, limit=1000)
    answers = [each.get("response_body", "") for each in recorded]
    assert any("Plain subject" in answer for answer in answers)
    words = (
        "bodyPreview",
        '"snippet"',
        '"contentType":"html"',
        '"contentType":"text"',
        '"raw"',
        "contentBytes",
        MARK,
    )
    assert [word for answer in answers for word in words if word in answer] == []
    assert "attachments" not in json.dumps([each["endpoint"] for each in recorded])
