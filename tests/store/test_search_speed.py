"""No text makes PostgreSQL take more than linear time to index or search it."""

import inspect
import os
from pathlib import Path

import pytest

from postroom.store import search
from store.sample_rows import document, message

TICKS = os.sysconf("SC_CLK_TCK")
SMALL, STEPS = 1000, 10
MOST = 4  # times the CPU of the same work in small pieces; quadratic work needs 10 times that
MEASURABLE = 0.06  # CPU seconds; less than this is noise
# Runs that look like addresses, paths, words with digits, or tags, but never end.
SLOW = ["1a@", "a1@", "<!--", "/~", "./", "1_", "x_"]
INDEX = "SELECT length(message_search('', %s, %s, %s)), querytree(prefix_query(left(%s, 500)))"


def read_cpu(connection):
    """The CPU seconds that the server has spent on a connection."""
    used = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / TICKS


@pytest.fixture
def spend(owner):
    """The CPU seconds that the server spends on some statements."""

    async def spend(statement, texts):
        before = read_cpu(owner)
        for text in texts:
            await owner.execute(statement, [text] * statement.count("%s"))
        return read_cpu(owner) - before

    return spend


@pytest.mark.parametrize("pump", SLOW)
async def test_no_text_takes_longer_to_index_than_its_size_explains(spend, pump):
    text = (pump * SMALL * STEPS)[: SMALL * STEPS]
    small = await spend(INDEX, [text[:SMALL]] * STEPS)
    assert await spend(INDEX, [text]) < MOST * max(small, MEASURABLE)


@pytest.mark.parametrize(
    "pump, words",
    [("aaa ", '"' + "aaa " * 100 + '"'), ("aaa bbb ", "aaa bbb " * 60), ("aaa bbb ", '"aaa bbb" ' * 45)],
)
async def test_no_query_takes_longer_than_its_words_explain(
    database, owner, organization, make_mailbox, pump, words
):
    """Each place of the text matches each word of the query."""
    text = (pump * 5000)[:20_000]
    await message(owner, organization, await make_mailbox(organization), body=text)
    await document(owner, organization, text)
    async with database.transaction(organization) as connection:

        async def spend_on(query):
            before = read_cpu(connection)
            found = await search.search_messages(connection, query)
            found += await search.search_documents(connection, query)
            return read_cpu(connection) - before, found

        usual, found = await spend_on("aaa")
        assert [("aaa", True) in each.headline for each in found] == [True, True]
        spent, _ = await spend_on(words)
    assert spent < MOST * max(usual, MEASURABLE)


async def test_every_text_is_made_fit_for_the_parser_of_words(owner):
    cursor = await owner.execute(
        """
        SELECT pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'postroom'::regnamespace AND prokind = 'f'
        UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
        """
    )
    parsing = [text for (text,) in await cursor.fetchall() if "to_ts" in text]
    assert len(parsing) >= 4
    for text in parsing:
        assert text.count("to_ts") <= text.count("searchable_text("), text
    source = inspect.getsource(search)
    assert "to_ts" not in source
    assert source.count("ts_headline(") == source.count("searchable_text(") > 1


async def test_long_words_and_words_in_tags_are_found(database, owner, organization, make_mailbox):
    long_word = "x1" * 200
    body = f"see <b>bold</b> {long_word} jane@example.com"
    id_ = await message(owner, organization, await make_mailbox(organization), body=body)
    stored = await document(owner, organization, body)
    async with database.transaction(organization) as connection:
        for words in ("bold", long_word, "jane@example.com"):
            assert [each.id for each in await search.search_messages(connection, words)] == [id_]
            assert [each.id for each in await search.search_documents(connection, words)] == [stored]
