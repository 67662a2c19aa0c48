"""The search functions match only the organization's own rows, using the index."""

import pytest

from databases import session
from postroom.store.roles import APPLICATION
from store.table_filler import TableFiller


@pytest.fixture
async def found(database_url):
    async def search(organization, function, words):
        async with session(database_url, APPLICATION, organization) as connection:
            cursor = await connection.execute(
                f"SELECT * FROM {function}(websearch_to_tsquery('simple', %s), 100)", [words]
            )
            return [row[0] for row in await cursor.fetchall()]

    return search


async def test_messages_are_found_by_subject_people_and_body(owner, organization, found):
    ours = TableFiller(owner, organization)
    await ours.fill()
    await owner.execute(
        """
        UPDATE message_contents
        SET search = message_search('Rechnung für März', 'Ada Byron <ada@example.org>', 'total due: 12.50')
        """
    )
    message = ours.whole["messages"]["id"]
    for words in ("rechnung märz", "byron", "ada@example.org", '"total due"', "rechnung ada total"):
        assert await found(organization, "some_matching_messages", words) == [message], words
    assert await found(organization, "some_matching_messages", "rechnung -märz") == []


async def test_documents_are_found_by_their_text(owner, organization, found):
    ours = TableFiller(owner, organization)
    await ours.fill()
    await owner.execute("UPDATE transcripts SET text = 'Contract note, ISIN US0378331005'")
    document = ours.whole["documents"]["id"]
    assert await found(organization, "some_matching_documents", "us0378331005") == [document]


async def test_nothing_of_another_organization_is_found(owner, organization, other_organization, found):
    for each in (organization, other_organization):
        await TableFiller(owner, each).fill()
    await owner.execute("UPDATE message_contents SET search = message_search('same', '', '')")
    await owner.execute("UPDATE transcripts SET text = 'same'")
    for function in ("some_matching_messages", "some_matching_documents"):
        ours = await found(organization, function, "same")
        theirs = await found(other_organization, function, "same")
        assert len(ours) == len(theirs) == 1
        assert ours != theirs
        assert await found(None, function, "same") == []


async def test_a_message_of_any_length_can_be_indexed(owner):
    """A search vector over 1 MB is an error; a long message must not be one."""
    words = " ".join(f"{number:x}" * 3 for number in range(500_000))
    cursor = await owner.execute("SELECT length(message_search(%s, %s, %s)) > 1000", [words, words, words])
    assert await cursor.fetchone() == (True,)


async def test_search_uses_its_index_under_row_level_security(database_url, owner, organization):
    await TableFiller(owner, organization).fill()
    await owner.execute(
        """
        WITH made AS (
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id)
            SELECT organization_id, mailbox_id, thread_id, number
            FROM messages, generate_series(1, 5000) AS number RETURNING organization_id, id
        )
        INSERT INTO message_contents (organization_id, message_id, search)
        SELECT organization_id, id, message_search('number ' || id, '', '') FROM made
        """
    )
    await owner.execute("VACUUM ANALYZE message_contents")
    async with session(database_url, APPLICATION, organization) as us:
        cursor = await us.execute("SELECT * FROM some_matching_messages('number & 2500'::tsquery, 100)")
        assert len(await cursor.fetchall()) == 1
        await us.execute("SELECT pg_stat_force_next_flush()")
    cursor = await owner.execute(
        "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'message_contents_search'"
    )
    assert await cursor.fetchone() == (1,)
