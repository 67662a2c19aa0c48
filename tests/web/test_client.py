"""W3: the typed client against a running API."""

import asyncio
import socket
from itertools import islice

import pytest

from postroom.client import ApiError, Postroom
from postroom.store import feed
from postroom.store.feed import NewEvent
from web.api_client import create_key_header, open_api_application
from web.push_server import serve


@pytest.fixture
async def postroom(database, organization, tmp_path):
    key = (await create_key_header(database, organization))["authorization"].removeprefix("Bearer ")
    async with open_api_application(database, organization, tmp_path) as (made, blobs), serve(made) as url:
        client = Postroom(url, key)
        client.blobs = blobs
        yield client


async def test_client_decodes_every_response_type(postroom, filling):
    def read():
        [mailbox] = postroom.mailboxes()
        assert postroom.mailbox(mailbox.id) == mailbox
        [message] = postroom.messages(mailbox.id)
        assert postroom.message(message.id).message == message
        assert [each.id for each in postroom.messages_of_thread(message.thread_id)] == [message.id]
        assert list(postroom.search("nothing has these words")) == []
        [document] = postroom.documents()
        assert postroom.document(document.id).document == document
        lists = [
            postroom.folders(mailbox.id),
            postroom.threads(mailbox.id),
            postroom.mail_events(mailbox.id),
            postroom.attachments(message.id),
            postroom.reviews(),
            postroom.records(),
            postroom.orders(),
            postroom.ledger(),
            postroom.subscriptions(mailbox=mailbox.id),
            postroom.failures(unresolved=True),
            postroom.webhooks(),
        ]
        assert all(len(list(each)) >= 1 for each in lists)

    await asyncio.to_thread(read)


async def test_client_writes_and_reports_errors(postroom, filling):
    def write():
        [mailbox] = postroom.mailboxes()
        assert postroom.pause(mailbox.id).paused_at is not None
        assert postroom.resume(mailbox.id).paused_at is None
        postroom.sync(mailbox.id)
        made = postroom.add_webhook("https://app.example.org/hook", ["document.*"], style="cloudevents")
        assert made.webhook.format == "cloudevents"
        assert made.secret.startswith("whsec_")
        postroom.remove_webhook(made.webhook.id)
        with pytest.raises(ApiError, match="Mailbox not found") as refused:
            postroom.mailbox(made.webhook.id)
        assert (refused.value.status, refused.value.kind) == (404, "not-found")
        with pytest.raises(ApiError, match="401"):
            list(Postroom(postroom._url.removesuffix("/api/v1"), "pr_wrong").mailboxes())

    await asyncio.to_thread(write)


async def test_client_follows_the_feed(postroom, database, organization):
    following = asyncio.create_task(asyncio.to_thread(lambda: list(islice(postroom.follow(0, wait=20), 3))))
    for name in "abc":
        async with database.transaction(organization) as connection:
            await feed.append_events(connection, [NewEvent("document.changed", "document", name)])
    assert [event.entity_id for event in await following] == ["a", "b", "c"]


async def test_client_downloads_bytes_unchanged(postroom, owner, organization, filling):
    content = b"%PDF-1.7 example"
    blob = await postroom.blobs.put(organization, content)
    await owner.execute(
        "INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, %s)",
        [organization, blob.sha256, blob.size],
    )
    await owner.execute("UPDATE documents SET sha256 = %s", [blob.sha256])
    await owner.execute("UPDATE attachments SET sha256 = %s, part = '1/2 ü'", [blob.sha256])

    def read():
        [document] = postroom.documents()
        assert postroom.document_content(document.id) == content
        message = filling.whole["messages"]["id"]
        with pytest.raises(ApiError, match="404"):
            postroom.attachment(message, "9")

    await asyncio.to_thread(read)


async def test_unreachable_server_is_retried_and_then_raised_as_an_error(monkeypatch):
    waited = []
    monkeypatch.setattr("postroom.client.time.sleep", waited.append)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(ApiError) as away:
        await asyncio.to_thread(list, Postroom(url, "key").mailboxes())
    assert (away.value.status, away.value.kind, len(waited)) == (0, "unreachable", 4)
