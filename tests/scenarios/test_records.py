"""D8: which documents are of the same invoice or trade, and which are not, whatever their bytes."""

import pytest

from postroom.errors import PermanentError
from postroom.model import DocumentState
from postroom.store import reviews
from scenarios.office import bill, office


@pytest.fixture
async def desk(room, tmp_path):
    async with office(room, tmp_path) as made:
        yield made


async def test_what_has_a_records_number_but_another_amount_is_for_a_person(desk):
    first, other, third = await desk.read(
        bill("2024-1-12", "119.00"), bill("2024-11-2", "238.00"), bill("2024-1-12", "1190.00")
    )
    assert None is not first.record_id != other.record_id is not None
    assert third.state is DocumentState.NEEDS_REVIEW
    async with desk.transaction() as connection:
        [asked] = await reviews.of_document(connection, third.id)
    assert asked.reason == (
        "the same supplier and number as record Xenon_GmbH-2024_1_12, but gross 1190.00 instead of 119.00"
    )
    with pytest.raises(PermanentError, match="same as record Xenon_GmbH-2024_1_12, which says nothing for i"):
        await desk.confirm(third, gross="119.00", iban="DE02120300000000202051")
    # Who confirms it says that it is another thing; what agrees with that one is the same from then on.
    made = await desk.confirm(third)
    assert made not in (first.record_id, other.record_id)
    [copy] = await desk.read(bill("2024-1-12", "1190.00", remark="copy"))
    assert (copy.state, copy.record_id) == (DocumentState.COMPLETED, made)


async def test_one_suppliers_invoice_is_one_record_however_its_name_is_spelled(desk):
    known = {"tax_id": "DE136695976"}
    one, other = await desk.read(
        bill("R-1", "119.00", **known), bill("R-1", "119.00", supplier="XENON Chemie", **known)
    )
    assert one.record_id == other.record_id is not None


NOTE = """Northgate Brokers plc\n1 Market Square, London\n\nContract note\n
Account number: {account}\n\nWe have bought on your behalf:\n
Security: Apple Inc\nISIN: US0378331005\nTicker: AAPL\nTrade date: 04/02/2026
Settlement date: 06/02/2026\nQuantity: 100\nPrice: USD 180.00\nConsideration: USD 18,000.00
Commission: USD 10.00\nTotal amount payable: USD 18,010.00\n{remark}"""


async def test_the_same_trade_of_two_clients_is_two_records(desk):
    notes = [("11223344", ""), ("99887766", ""), ("11223344", "Copy")]
    contents = [NOTE.format(account=account, remark=remark).encode() for account, remark in notes]
    found = await desk.read(*contents, pipeline="contract-notes", suffix="txt")
    mine, others, copy = [
        each.record_id or await desk.confirm(each)  # whoever reads it, records are told apart alike
        for each in found
    ]
    assert mine == copy != others
