"""K2: with the policy `metadata`, no body is requested, and none is received."""

import json
from datetime import datetime, timedelta

import pytest

from postroom.model import ContentPolicy, FetchedMessage
from providers.reader import fetched, is_gmail, listed, truth, wanted

MARK = "Quetzalcoatlus"  # occurs only in bodies, attachments and previews
MAIL = (
    "From: Ada <ada@example.org>\r\nTo: me@example.com\r\nSubject: Figures\r\n"
    "Message-ID: <{number}@example.org>\r\nDate: Mon, 05 Jan 2026 10:00:00 +0000\r\n"
    "List-Unsubscribe: <https://example.org/u>\r\nMIME-Version: 1.0\r\n"
    'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
    "--b\r\nContent-Type: text/plain\r\n\r\n" + MARK + " text\r\n"
    "--b\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename=figures.csv\r\n\r\n"
    + MARK
    + ",1\r\n--b--\r\n"
)


@pytest.fixture
def bodies(contract):
    """Requests and answers as they went over the wire."""
    for number in range(8):
        contract.sim.deliver(contract.address, MAIL.format(number=number).encode())
    last = max((each["number"] for each in contract.sim.get("requests", limit=1)), default=0)

    def since() -> list[dict]:
        return contract.sim.get("requests", after=last, limit=10_000)

    return since


def words(exchanges: list[dict]) -> str:
    return json.dumps([[each["query"], each.get("response_body", "")] for each in exchanges])


@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
async def test_no_body_snippet_or_attachment_is_requested_or_received(contract, bodies, few):
    _, _, mailbox = await contract.connect(policy=ContentPolicy.METADATA)
    found, live = await listed(mailbox)
    chosen = list(found.values())[:2] if few else list(found.values())
    messages = await fetched(mailbox, chosen, ContentPolicy.METADATA)
    await mailbox.look_up(list(found))
    for scope, cursor in live.items():
        await mailbox.list_changes(scope, cursor)
    exchanges = bodies()
    assert exchanges
    over_the_wire = words(exchanges)
    for word in (
        MARK,
        "snippet",
        "bodyPreview",
        "attachments",
        "contentBytes",
        '"body"',
        "format=raw",
        "full",
    ):
        assert word not in over_the_wire
    real = truth(contract)
    for message in messages:
        assert isinstance(message, FetchedMessage)
        assert message.content.subject == real[message.key]["subject"]
        assert message.content.internet_message_id == real[message.key]["message_id"]
        assert message.content.snippet is None
        assert message.content.body_plain is None
        assert message.content.body_html is None
        assert message.content.raw is None
        assert message.content.attachments == ()
    ours = [message.content for message in messages if message.content.subject == "Figures"]
    assert all(content.is_newsletter and content.has_attachments for content in ours)
    assert few or len(ours) == 8


async def test_the_full_policy_fetches_the_same_mail_completely(contract, bodies):
    _, _, mailbox = await contract.connect()
    key = contract.sim.deliver(contract.address, MAIL.format(number=99).encode())["id"]
    [message] = await fetched(mailbox, wanted(key))
    assert MARK in (message.content.body_plain or message.content.body_html)
    assert MARK in message.content.snippet
    assert [each.file_name for each in message.content.attachments] == ["figures.csv"]
    assert message.content.has_attachments
    assert bodies()


async def test_with_the_metadata_scope_a_listing_ends_without_a_search(contract):
    if not is_gmail(contract):
        pytest.skip("Graph's listings are not limited in time")
    contract.sim.deliver(contract.address, kind="plain", count=120)
    await contract.wait(days=40)
    late = {contract.sim.deliver(contract.address, kind="plain")["id"] for _ in range(120)}
    _, _, mailbox = await contract.connect(policy=ContentPolicy.METADATA)
    now = datetime.fromisoformat(contract.sim.get("clock")["now"])
    found, _ = await listed(mailbox, since=now - timedelta(days=30))
    assert late <= set(found)
    assert len(found) == 200  # the page on which the older mail begins is the last
