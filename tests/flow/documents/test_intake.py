"""D3: the same bytes become one document, and every arrival and verdict is recorded."""

import asyncio
from hashlib import sha256

import pytest

from postroom.documents import pipelines
from postroom.flow.documents import intake
from postroom.model import DocumentState
from postroom.store import documents, verdicts

PIPELINES = pipelines.parse(
    '[invoices]\nkind = "invoice"\n[notes]\nkind = "contract-note"\nsenders = ["*@broker.example"]',
    place="test",
    kinds={"invoice", "contract-note"},
)
CONTENT = sha256(b"%PDF-1.7 one").digest()


@pytest.fixture
async def store_message(owner, organization, make_mailbox):
    """A message's row with an invoice and a signature, and the blob that the invoice is."""
    mailbox = await make_mailbox(organization)
    await owner.execute(
        "INSERT INTO folders (organization_id, mailbox_id, provider_folder_id, name, role)"
        " VALUES (%s, %s, 'INBOX', 'Inbox', 'inbox')",
        [organization, mailbox],
    )
    await owner.execute(
        "INSERT INTO blobs (organization_id, sha256, size, detected) VALUES (%s, %s, 12, 'pdf')",
        [organization, CONTENT],
    )

    async def store(name: str, file_name: str = "invoice.pdf", content: bytes | None = CONTENT) -> int:
        cursor = await owner.execute(
            """
            WITH thread AS (
                INSERT INTO threads (organization_id, mailbox_id, provider_thread_id) VALUES (%s, %s, %s)
                RETURNING *
            )
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, subject,
                from_address, labels)
            SELECT organization_id, mailbox_id, id, provider_thread_id, 'Invoice 7',
                'billing@supplier.example', '{INBOX}'
            FROM thread RETURNING id
            """,
            [organization, mailbox, name],
        )
        [(message,)] = await cursor.fetchall()
        for part, named, digest in (("1", file_name, content), ("2", "smime.p7s", None)):
            await owner.execute(
                "INSERT INTO attachments (organization_id, message_id, part, file_name, media_type, size,"
                " sha256) VALUES (%s, %s, %s, %s, 'application/octet-stream', 12, %s)",
                [organization, message, part, named, digest],
            )
        return message

    return store


async def take_in(database, organization, *messages):
    async with database.transaction(organization) as connection:
        await intake.take_in(PIPELINES, connection, organization, messages)


async def rows(owner, query):
    return await (await owner.execute(query)).fetchall()


async def list_all(connection):
    cursor = await connection.execute("SELECT id FROM documents ORDER BY created_at")
    return await documents.list_summaries(connection, [id_ for (id_,) in await cursor.fetchall()])


async def test_the_same_bytes_in_two_messages_are_one_document_with_two_arrivals(
    database, organization, owner, store_message
):
    first, second = await store_message("m1"), await store_message("m2")
    await take_in(database, organization, first)
    await take_in(database, organization, second)
    await take_in(database, organization, second)
    assert await rows(owner, "SELECT count(*) FROM documents") == [(1,)]
    assert await rows(owner, "SELECT provider_message_id, part, source FROM arrivals ORDER BY id") == [
        ("m1", "1", "gmail_push"),
        ("m2", "1", "gmail_push"),
    ]
    assert await rows(owner, "SELECT count(*) FROM work WHERE kind = 'process_document'") == [(1,)]
    assert await rows(owner, "SELECT event_type FROM ledger") == [("DOCUMENT_TAKEN_IN",)]


async def test_two_messages_at_the_same_time_make_one_document(database, organization, owner, store_message):
    messages = [await store_message(f"m{number}") for number in range(4)]
    await asyncio.gather(*(take_in(database, organization, each) for each in messages))
    assert await rows(owner, "SELECT count(*) FROM documents") == [(1,)]
    assert await rows(owner, "SELECT count(*) FROM arrivals") == [(4,)]


async def accept_from_brokers(owner, message):
    await owner.execute("UPDATE messages SET from_address = 'notes@broker.example' WHERE id = %s", [message])


async def test_a_file_that_two_pipelines_accept_is_one_document(database, organization, owner, store_message):
    message = await store_message("m1")
    await accept_from_brokers(owner, message)
    await asyncio.gather(*(take_in(database, organization, message) for _ in range(3)))
    assert await rows(owner, "SELECT pipeline, pipelines FROM documents") == [
        ("invoices", ["invoices", "notes"])
    ]
    assert await rows(owner, "SELECT count(*) FROM arrivals") == [(1,)]
    assert await rows(owner, "SELECT event_type FROM ledger") == [("DOCUMENT_TAKEN_IN",)]


@pytest.mark.parametrize(
    "state, after",
    [
        ("queued", ("queued", "invoices", ["invoices", "notes"])),
        ("needs_review", ("needs_review", "invoices", ["invoices", "notes"])),
        ("skipped", ("queued", "notes", ["notes"])),
        ("failed", ("queued", "invoices", ["invoices", "notes"])),
    ],
)
async def test_a_document_is_retried_only_for_a_pipeline_that_has_not_seen_it(
    database, organization, owner, store_message, state, after
):
    first, second = await store_message("m1"), await store_message("m2")
    await take_in(database, organization, first)
    await owner.execute("UPDATE documents SET state = %s", [state])
    await take_in(database, organization, second)
    assert await rows(owner, "SELECT state, pipeline, pipelines FROM documents") == [
        (state, "invoices", ["invoices"])
    ]
    await accept_from_brokers(owner, second)
    await take_in(database, organization, second)
    assert await rows(owner, "SELECT state, pipeline, pipelines FROM documents") == [after]
    queued_again = "SELECT count(*) FROM ledger WHERE event_type = 'DOCUMENT_QUEUED_AGAIN'"
    assert await rows(owner, queued_again) == [(int(state != after[0]),)]


async def test_every_verdict_is_kept_with_its_reason(database, organization, store_message):
    message = await store_message("m1")
    await take_in(database, organization, message)
    async with database.transaction(organization) as connection:
        found = await verdicts.list_verdicts(connection, message)
    assert [(each.part, each.pipeline, each.accepted) for each in found] == [
        ("", "invoices", True),
        ("", "notes", False),
        ("1", "invoices", True),
        ("2", "invoices", False),
    ]
    assert all(each.reason for each in found)


async def test_a_container_is_opened_as_work_of_its_own(database, organization, owner, store_message):
    message = await store_message("m1")
    await owner.execute("UPDATE blobs SET detected = 'zip'")
    await take_in(database, organization, message)
    assert await rows(owner, "SELECT count(*) FROM documents") == [(0,)]
    [(subject,)] = await rows(owner, "SELECT subject FROM work WHERE kind = 'unpack'")
    assert subject == f"{message}/1"


async def test_bytes_that_the_policy_did_not_store_get_a_verdict(database, organization, store_message):
    message = await store_message("m1", content=None)
    await take_in(database, organization, message)
    async with database.transaction(organization) as connection:
        found = await verdicts.list_verdicts(connection, message)
    [verdict] = [each for each in found if each.part == "1"]
    assert not verdict.accepted
    assert "content policy" in verdict.reason


async def test_a_message_that_leaves_the_spam_folder_is_taken_then(
    database, organization, owner, store_message
):
    message = await store_message("m1")
    await owner.execute("UPDATE folders SET role = 'spam'")
    await take_in(database, organization, message)
    assert await rows(owner, "SELECT count(*) FROM documents") == [(0,)]
    await owner.execute("UPDATE folders SET role = 'inbox'")
    await take_in(database, organization, message)
    assert await rows(owner, "SELECT count(*) FROM documents") == [(1,)]


async def test_documents_are_listed_newest_first_page_by_page(database, organization, owner, store_message):
    message = await store_message("m1")
    await take_in(database, organization, message)
    async with database.transaction(organization) as connection:
        [listed] = await list_all(connection)
        assert (listed.file_name, listed.sender) == ("invoice.pdf", "billing@supplier.example")
        [arrival] = await documents.list_arrivals(connection, listed.id)
    assert arrival.subject == "Invoice 7"


async def test_a_state_changes_only_from_the_expected_state(database, organization, store_message):
    await take_in(database, organization, await store_message("m1"))
    state = DocumentState
    async with database.transaction(organization) as connection:
        [listed] = await list_all(connection)
        begun = await documents.change_state(connection, listed.id, among=[state.QUEUED], to=state.PROCESSING)
        assert begun is not None
        assert begun.state is state.PROCESSING
        assert (
            await documents.change_state(connection, listed.id, among=[state.QUEUED], to=state.PROCESSING)
            is None
        )
