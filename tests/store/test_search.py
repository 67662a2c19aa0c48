"""K8: search ranks messages and documents and highlights the matching words."""

import pytest

from postroom.store import search
from store.sample_rows import document, message


@pytest.fixture
def found(database, organization):
    async def found(words, what=search.search_messages, **options):
        async with database.transaction(organization) as connection:
            return await what(connection, words, **options)

    return found


async def test_a_word_in_the_subject_ranks_above_one_in_the_body(owner, organization, make_mailbox, found):
    mailbox = await make_mailbox(organization)
    body = await message(
        owner, organization, mailbox, subject="Hello", body="your invoice of March is attached"
    )
    subject = await message(owner, organization, mailbox, subject="Invoice 17", body="see there")
    await message(owner, organization, mailbox, subject="Lunch", body="at noon")
    assert [each.id for each in await found("invoice")] == [subject, body]
    [first] = await found("invoice march")
    assert first.headline == (
        ("your ", False),
        ("invoice", True),
        (" of ", False),
        ("March", True),
        (" is attached", False),
    )
    assert (first.subject, first.from_address) == ("Hello", "jane@example.org")
    assert await found("invoice -march -17") == []


async def test_deleted_or_foreign_messages_do_not_match(
    owner, organization, other_organization, make_mailbox, found
):
    ours, second = await make_mailbox(organization), await make_mailbox(organization)
    theirs = await make_mailbox(other_organization)
    kept = await message(owner, organization, ours, subject="secret")
    other = await message(owner, organization, second, subject="secret")
    await message(owner, organization, ours, subject="secret", deleted_days_ago=1)
    await message(owner, other_organization, theirs, subject="secret")
    assert {each.id for each in await found("secret")} == {kept, other}
    assert [each.id for each in await found("secret", mailbox=ours)] == [kept]
    assert len(await found("secret", limit=1)) == 1
    assert len(await found("secret", limit=5, offset=1)) == 1


async def test_documents_are_found_with_their_file_name(owner, organization, found):
    id_ = await document(owner, organization, "Contract note ISIN US0378331005, 12 shares")
    await document(owner, organization, "nothing of the kind")
    [one] = await found("us0378331005", search.search_documents)
    assert (one.id, one.file_name, one.state, one.sender) == (id_, "bill.pdf", "queued", "jane@example.org")
    assert ("US0378331005", True) in one.headline


async def test_marks_inside_a_message_cannot_forge_a_headline(owner, organization, make_mailbox, found):
    await message(owner, organization, await make_mailbox(organization), body="\ue000fake\ue001 invoice")
    [one] = await found("invoice")
    assert one.headline == (("fake ", False), ("invoice", True))


@pytest.mark.parametrize("words", ["-" * 40 + " invoice", "- " * 40 + "invoice", "-!" * 40 + " invoice"])
async def test_a_minus_without_a_word_behind_it_is_ignored(owner, organization, make_mailbox, found, words):
    id_ = await message(owner, organization, await make_mailbox(organization), subject="invoice")
    assert [each.id for each in await found(words)] == [id_]
    assert [each.id for each in await found(f"{words} -größe")] == [id_]
    assert await found("größe -é --invoice") == await found("--invoice größe") == []


@pytest.mark.parametrize(
    "words, has", [("invoice", True), ("", False), ("!!! ---", False), ("-draft", False), ('"a b"', True)]
)
async def test_query_needs_a_positive_term(database, organization, words, has):
    async with database.transaction(organization) as connection:
        assert await search.has_words(connection, words) is has
