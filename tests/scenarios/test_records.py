"""D8: which documents are of the same invoice or trade, and which are not, whatever their bytes."""

from datetime import timedelta

import pytest

from postroom.errors import PermanentError
from postroom.model import DocumentState
from postroom.store import reviews
from scenarios.document_postroom import TODAY, bill


async def test_what_has_a_records_number_but_another_amount_is_for_a_person(document_room):
    first, other, third = await document_room.read(
        bill("2024-1-12", "119.00"), bill("2024-11-2", "238.00"), bill("2024-1-12", "1190.00")
    )
    assert None is not first.record_id != other.record_id is not None
    assert third.state is DocumentState.NEEDS_REVIEW
    async with document_room.transaction() as connection:
        [asked] = await reviews.list_by_document(connection, third.id)
    assert asked.reason == (
        "the same supplier and number as record Xenon_GmbH-2024_1_12, but gross 1190.00 instead of 119.00"
    )
    with pytest.raises(
        PermanentError, match="duplicates record Xenon_GmbH-2024_1_12, which has no value for i"
    ):
        await document_room.confirm(third, gross="119.00", iban="DE02120300000000202051")
    # Who confirms it says that it is another thing; what agrees with that one is the same from then on.
    made = await document_room.confirm(third)
    assert made not in (first.record_id, other.record_id)
    [copy] = await document_room.read(bill("2024-1-12", "1190.00", remark="copy"))
    assert (copy.state, copy.record_id) == (DocumentState.COMPLETED, made)


async def test_one_suppliers_invoice_is_one_record_however_its_name_is_spelled(document_room):
    known = {"tax_id": "DE136695976"}
    one, other = await document_room.read(
        bill("R-1", "119.00", **known), bill("R-1", "119.00", supplier="XENON Chemie", **known)
    )
    assert one.record_id == other.record_id is not None


NOTE = f"""Northgate Brokers plc\n1 Market Square, London\n\nContract note\n
Account number: {{account}}\n\nWe have bought on your behalf:\n
Security: Apple Inc\nISIN: US0378331005\nTicker: AAPL\nTrade date: {TODAY:%d %B %Y}
Settlement date: {TODAY + timedelta(days=2):%d %B %Y}
Quantity: 100
Price: USD 180.00
Consideration: USD 18,000.00
Commission: USD 10.00\nTotal amount payable: USD 18,010.00\n{{remark}}"""


def note(line="", *, account="11223344", remark=""):
    """A contract note with this line at its head."""
    return NOTE.format(account=f"{account}\n{line}", remark=remark).encode()


async def trades(document_room, *notes):
    """The records of contract notes that come one after the other, confirmed by a person or not."""
    found = await document_room.read(*notes, pipeline="contract-notes", suffix="txt")
    return [each.record_id or await document_room.confirm(each) for each in found]


async def test_the_same_trade_of_two_clients_is_two_records(document_room):
    mine, others, copy = await trades(document_room, note(), note(account="99887766"), note(remark="Copy"))
    assert mine == copy != others


async def test_two_fills_that_differ_in_the_notes_number_only_are_two_trades(document_room):
    numbered = [f"Contract note number: CN100{number}" for number in (1, 2)]
    contents = [note(numbered[0]), note(numbered[1]), note(remark="Copy"), note(numbered[1], remark="Copy")]
    found = await document_room.read(*contents, pipeline="contract-notes", suffix="txt")
    assert [each.state for each in found] == [DocumentState.COMPLETED] * 4
    first, second, unread, copy = [each.record_id for each in found]
    assert unread == first != second == copy
    kept = await document_room.rows("SELECT key, fields->>'number' FROM records ORDER BY fields->>'number'")
    # The seed's key names both, and the archive has room for both.
    assert kept == [(f"upload-{TODAY:%Y%m%d}-AAPL-BUY-100", f"CN100{number}") for number in (1, 2)]
    assert len({each.archive_path for each in found}) == 4


async def test_a_record_whose_number_was_not_read_learns_it_from_the_next_document(document_room):
    contents = [note(), note("Contract note number: CN1001"), note("Contract note number: CN1002")]
    first, same, other = await trades(document_room, *contents)
    assert first == same != other


@pytest.mark.parametrize("unsure", ["by its label", "by recognition"])
async def test_a_number_that_was_not_surely_read_makes_no_second_trade_by_itself(document_room, unsure):
    """A person says whether it is the same note, read wrongly, or another one."""
    label = "Reference" if unsure == "by its label" else "Contract note number"
    [first] = await document_room.read(note(f"{label}: CN1001"), pipeline="contract-notes", suffix="txt")
    if unsure == "by recognition":
        await document_room.rows("UPDATE transcripts SET method = 'ocr' RETURNING 1")
    contents = [note(f"{label}: CN100{number}") for number in ("I", "2")]
    found = await document_room.read(*contents, pipeline="contract-notes", suffix="txt")
    assert [each.state for each in found] == [DocumentState.NEEDS_REVIEW] * 2
    async with document_room.transaction() as connection:
        [asked] = await reviews.list_by_document(connection, found[0].id)
    assert asked.reason == (
        "the same isin and trade_date and direction and quantity and net as record "
        f"upload-{TODAY:%Y%m%d}-AAPL-BUY-100, but number CN100I instead of CN1001"
    )
    assert await document_room.confirm(found[0], number="CN1001") == first.record_id
    assert await document_room.confirm(found[1]) != first.record_id


NUMBER = "Contract note number: CN1001"


def change(content, **values):
    """The contract note with other values, each of which fits the others."""
    text = content.decode()
    for was, becomes in values.items():
        assert PRINTED[was] in text
        text = text.replace(PRINTED[was], becomes)
    return text.encode()


PRINTED = {
    "quantity": "Quantity: 100", "price": "USD 180.00", "gross": "USD 18,000.00", "fees": "USD 10.00",
    "net": "USD 18,010.00",
}  # fmt: skip
AMENDED = {
    "price": {"price": "USD 181.00", "gross": "USD 18,100.00", "net": "USD 18,110.00"},
    "quantity": {"quantity": "Quantity: 90", "gross": "USD 16,200.00", "net": "USD 16,210.00"},
    "net": {"fees": "USD 20.00", "net": "USD 18,020.00"},
    "price alone": {"price": "USD 179.00", "gross": "USD 17,900.00", "fees": "USD 110.00"},
}


@pytest.mark.parametrize("changed", AMENDED)
async def test_an_amended_contract_note_is_for_a_person(document_room, changed):
    amended = change(note(NUMBER), **AMENDED[changed])
    first, other = await document_room.read(note(NUMBER), amended, pipeline="contract-notes", suffix="txt")
    assert (first.state, other.state) == (DocumentState.COMPLETED, DocumentState.NEEDS_REVIEW)
    async with document_room.transaction() as connection:
        [asked] = await reviews.list_by_document(connection, other.id)
    assert "-AAPL-BUY-100, but " in asked.reason
    made = await document_room.confirm(other)
    assert made != first.record_id
    copies = [note(NUMBER, remark="Copy"), amended + b"Copy"]
    found = await document_room.read(*copies, pipeline="contract-notes", suffix="txt")
    assert [each.record_id for each in found] == [first.record_id, made]


async def test_the_same_note_number_of_two_accounts_is_two_trades(document_room):
    other = change(note(NUMBER, account="99887766"), **AMENDED["quantity"])
    found = await document_room.read(note(NUMBER), other, pipeline="contract-notes", suffix="txt")
    assert [each.state for each in found] == [DocumentState.COMPLETED] * 2


async def test_partial_fills_with_numbers_of_their_own_are_two_trades(document_room):
    other = change(note("Contract note number: CN1002"), **AMENDED["quantity"])
    found = await document_room.read(note(NUMBER), other, pipeline="contract-notes", suffix="txt")
    assert [each.state for each in found] == [DocumentState.COMPLETED] * 2


async def test_a_note_that_says_that_it_is_changed_is_for_a_person(document_room):
    titles = [b"Cancelled contract note\n", b"Contract note (amended)\n", b"CONTRACT NOTE - CANCELLATION\n"]
    changed = [note(NUMBER).replace(b"Contract note\n", title, 1) for title in titles]
    first, *others = await document_room.read(note(NUMBER), *changed, pipeline="contract-notes", suffix="txt")
    assert first.state is DocumentState.COMPLETED
    assert [each.state for each in others] == [DocumentState.NEEDS_REVIEW] * len(titles)


async def test_a_record_confirmed_by_the_machine_has_no_uncertain_values(document_room):
    """The reference may be another number, and the fee does not explain the payment."""
    contents = note("Reference: CN1001", remark="Fees: USD 99.00").replace(b"Commission", b"Dispatch")
    [found] = await document_room.read(contents, pipeline="contract-notes", suffix="txt")
    assert found.state is DocumentState.COMPLETED
    record = await document_room.record(found)
    assert record.fields["net"] == "18010.00"
    assert record.fields.keys().isdisjoint({"number", "fees"})
    read = await document_room.rows(
        "SELECT fields->'number'->>'value', fields->'fees'->>'value' FROM extractions"
    )
    assert read == [("CN1001", "99.00")]
