"""Microsoft's own msgraph-sdk works with the simulator: folders, delta, messages, attachments, subscriptions.

What it reads is compared with the truth.
"""

import datetime as dt
import hashlib
import ssl
from collections import Counter

import httpx
import pytest
from azure.identity.aio import ClientSecretCredential
from kiota_abstractions.base_request_configuration import RequestConfiguration
from kiota_abstractions.headers_collection import HeadersCollection
from kiota_authentication_azure.azure_identity_authentication_provider import (
    AzureIdentityAuthenticationProvider,
)
from msgraph import GraphRequestAdapter, GraphServiceClient
from msgraph.generated.models.file_attachment import FileAttachment
from msgraph.generated.models.item_attachment import ItemAttachment
from msgraph.generated.models.o_data_errors.o_data_error import ODataError
from msgraph.generated.models.subscription import Subscription
from msgraph.generated.users.item.mail_folders.item.messages.delta.delta_request_builder import (
    DeltaRequestBuilder,
)
from msgraph.generated.users.item.messages.item.message_item_request_builder import MessageItemRequestBuilder
from msgraph.generated.users.item.messages.item.move.move_post_request_body import MovePostRequestBody
from msgraph.graph_request_adapter import options
from msgraph_core import GraphClientFactory
from msgraph_core.requests.batch_request_content import BatchRequestContent
from msgraph_core.requests.batch_request_item import BatchRequestItem

from simulator.driver import running
from simulator.graph_push_receiver import receive_pushes


@pytest.fixture(scope="module")
def shared():
    with running() as simulation:
        yield simulation


@pytest.fixture
async def graph(sim):
    """Return an SDK client of an application that can access every mailbox of its tenant."""
    application = sim.post("applications", provider="outlook", name="Referee")
    context = ssl.create_default_context(cafile=sim.ca)
    credential = ClientSecretCredential(
        application["tenant"],
        application["client_id"],
        application["client_secret"],
        authority=sim.https,
        disable_instance_discovery=True,
        connection_verify=sim.ca,
    )
    scopes = ["https://graph.microsoft.com/.default"]
    provider = AzureIdentityAuthenticationProvider(credential, scopes=scopes, allowed_hosts=["127.0.0.1"])
    plain = httpx.AsyncClient(verify=context, trust_env=False, timeout=30)
    transport = plain._transport  # the SDK wraps it and forgets to close it
    http = GraphClientFactory.create_with_default_middleware(client=plain, options=options)
    adapter = GraphRequestAdapter(provider, client=http)
    adapter.base_url = f"{sim.https}/v1.0"
    async with credential, http, transport:
        yield GraphServiceClient(request_adapter=adapter)


def immutable(**more):
    headers = HeadersCollection()
    headers.add("Prefer", 'IdType="ImmutableId"')
    for name, value in more.items():
        headers.add(name, value)
    return headers


async def delta(graph, address, folder, link=None, size=25):
    """Follow a complete round; return its entries and the deltaLink."""
    builder = graph.users.by_user_id(address).mail_folders.by_mail_folder_id(folder).messages.delta
    headers = immutable()
    headers.add("Prefer", f"odata.maxpagesize={size}")
    configuration = RequestConfiguration[DeltaRequestBuilder.DeltaRequestBuilderGetQueryParameters](
        headers=headers
    )
    page = await (builder.with_url(link) if link else builder).get(configuration)
    found = list(page.value)
    while page.odata_next_link:
        page = await builder.with_url(page.odata_next_link).get(configuration)
        found += page.value
    return found, page.odata_delta_link


async def test_the_sdk_finds_every_folder_and_true_counts(sim, graph, address):
    sim.create("outlook", address, messages=300, kinds=["plain"])
    projects = sim.post(f"mailboxes/{address}/folders", name="Projects")
    inner = sim.post(f"mailboxes/{address}/folders", name="Paris", parent=projects["key"])
    deepest = sim.post(f"mailboxes/{address}/folders", name="2026", parent=inner["key"])
    user = graph.users.by_user_id(address)

    async def below(page, builder):
        folders = list(page.value)
        while page.odata_next_link:
            page = await builder.with_url(page.odata_next_link).get()
            folders += page.value
        for folder in list(folders):
            if folder.child_folder_count:
                nested = user.mail_folders.by_mail_folder_id(folder.id).child_folders
                folders += await below(await nested.get(), nested)
        return folders

    folders = {folder.id: folder for folder in await below(await user.mail_folders.get(), user.mail_folders)}
    assert {projects["id"], inner["id"], deepest["id"]} <= set(folders)
    truth = Counter(entry["folders"][0] for entry in sim.truth(address))
    assert {
        key: folder.total_item_count for key, folder in folders.items() if folder.total_item_count
    } == truth
    unread = Counter(entry["folders"][0] for entry in sim.truth(address) if not entry["read"])
    assert {
        key: folder.unread_item_count for key, folder in folders.items() if folder.unread_item_count
    } == unread


async def test_the_first_delta_round_has_each_message_once_and_the_next_only_changes(sim, graph, address):
    sim.create("outlook", address, messages=120)
    truth = [entry for entry in sim.truth(address) if entry["keys"] == ["inbox"]]
    first, link = await delta(graph, address, "inbox")
    assert Counter(message.id for message in first) == Counter(entry["id"] for entry in truth)
    assert {message.id: message.subject for message in first} == {
        entry["id"]: " ".join(entry["subject"].split()) for entry in truth
    }
    assert (await delta(graph, address, "inbox", link))[0] == []

    new = sim.deliver(address, subject="Fresh", kind="plain")
    sim.act(address, truth[0]["id"], "mark", read=not truth[0]["read"])
    sim.act(address, truth[1]["id"], "move", folder="archive")
    changed, _ = await delta(graph, address, "inbox", link)
    reported = {message.id: message for message in changed}
    assert set(reported) == {new["id"], truth[0]["id"], truth[1]["id"]}
    assert reported[new["id"]].subject == "Fresh"
    assert reported[truth[0]["id"]].is_read is not truth[0]["read"]
    assert reported[truth[1]["id"]].additional_data["@removed"] == {"reason": "deleted"}


async def test_the_mime_of_every_message_equals_the_truth(sim, graph, address):
    sim.create("outlook", address, messages=25)
    messages = graph.users.by_user_id(address).messages
    for entry in sim.truth(address):
        raw = await messages.by_message_id(entry["id"]).content.get()
        assert hashlib.sha256(raw).hexdigest() == entry["sha256"]


async def test_attachments_have_the_true_bytes(sim, graph, address):
    sim.create("outlook", address)
    wanted = [sim.deliver(address, kind=kind) for kind in ("invoice", "inline-image", "nested", "attachment")]
    truth = {entry["id"]: entry for entry in sim.truth(address)}
    seen = Counter()
    for message in wanted:
        attachments = graph.users.by_user_id(address).messages.by_message_id(message["id"]).attachments
        listed = (await attachments.get()).value
        expected = [one for one in truth[message["id"]]["attachments"] if not one.get("nested")]
        assert len(listed) == len(expected)
        for shown, true in zip(listed, expected, strict=True):
            seen[type(shown).__name__] += 1
            if isinstance(shown, FileAttachment):
                assert hashlib.sha256(shown.content_bytes).hexdigest() == true["sha256"]
                assert shown.name == true["name"] or (not true["name"] and shown.name.startswith("ATT"))
            else:
                assert isinstance(shown, ItemAttachment)
    assert seen["FileAttachment"] >= 3
    assert seen["ItemAttachment"] >= 1


async def test_moving_keeps_the_immutable_id_and_changes_the_folder(sim, graph, address):
    sim.create("outlook", address, messages=10, spread=False)
    user = graph.users.by_user_id(address)
    message = (await user.messages.get()).value[0]
    archive = await user.mail_folders.by_mail_folder_id("archive").get()
    moved = await user.messages.by_message_id(message.id).move.post(
        MovePostRequestBody(destination_id="archive")
    )
    assert moved.id != message.id
    assert moved.parent_folder_id == archive.id
    with pytest.raises(ODataError) as gone:
        await user.messages.by_message_id(message.id).get()
    assert gone.value.error.code == "ErrorItemNotFound"
    truth = next(entry for entry in sim.truth(address) if entry["keys"] == ["archive"])
    parameters = MessageItemRequestBuilder.MessageItemRequestBuilderGetQueryParameters(select=["subject"])
    configuration = RequestConfiguration(query_parameters=parameters, headers=immutable())
    shown = await user.messages.by_message_id(truth["id"]).get(configuration)
    assert shown.id == truth["id"]


async def test_a_subscription_is_created_notified_renewed_and_deleted(sim, graph, address):
    sim.create("outlook", address)
    user = await graph.users.by_user_id(address).get()
    with receive_pushes() as receiver:
        asked = Subscription(
            change_type="created,updated,deleted",
            notification_url=f"{receiver.url}?mailbox=42",
            lifecycle_notification_url=receiver.url,
            resource=f"users/{user.id}/messages",
            expiration_date_time=dt.datetime.now(dt.UTC) + dt.timedelta(days=2),
            client_state="a secret of ours",
        )
        made = await graph.subscriptions.post(asked, RequestConfiguration(headers=immutable()))
        assert len(receiver.handshakes) == 2
        assert made.client_state == "a secret of ours"
        delivered = sim.deliver(address, subject="Told", kind="plain")
        item = receiver.next().value[0]
        assert item["resourceData"]["id"] == delivered["id"]
        assert (item["clientState"], item["changeType"]) == ("a secret of ours", "created")

        later = dt.datetime.now(dt.UTC) + dt.timedelta(days=3)
        renewed = await graph.subscriptions.by_subscription_id(made.id).patch(
            Subscription(expiration_date_time=later)
        )
        assert abs(renewed.expiration_date_time - later) < dt.timedelta(seconds=1)
        await graph.subscriptions.by_subscription_id(made.id).reauthorize.post()
        listed = (await graph.subscriptions.get()).value
        assert [(one.id, one.client_state) for one in listed] == [(made.id, None)]
        await graph.subscriptions.by_subscription_id(made.id).delete()
        with pytest.raises(ODataError) as gone:
            await graph.subscriptions.by_subscription_id(made.id).get()
        assert gone.value.response_status_code == 404


async def test_an_sdk_batch_answers_every_part_by_its_id(sim, graph, address):
    sim.create("outlook", address, messages=20)
    truth = sim.truth(address)
    messages = graph.users.by_user_id(address).messages
    content = BatchRequestContent()
    for place, entry in enumerate(truth[:18]):
        wanted = messages.by_message_id(entry["id"]).content.to_get_request_information()
        content.add_request(str(place), BatchRequestItem(wanted, id=str(place)))
    nothing = messages.by_message_id("nothing").to_get_request_information()
    content.add_request("wrong", BatchRequestItem(nothing, id="wrong"))
    answer = await graph.batch.post(content)
    assert {name: part.status for name, part in answer.responses.items()} == {
        **{str(place): 200 for place in range(18)},
        "wrong": 400,
    }
    for place, entry in enumerate(truth[:18]):
        assert hashlib.sha256(answer.responses[str(place)].body).hexdigest() == entry["sha256"]
