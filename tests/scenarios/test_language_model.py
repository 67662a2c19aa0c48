"""Documents that both readers read: where they disagree, a person decides, and no sure value is lost."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from documents.fields.test_llm_reader import Vendor, served
from postroom.model import DocumentState
from postroom.store import records, reviews
from scenarios.document_postroom import TODAY, document_postroom

ISSUED, DUE = TODAY.date(), TODAY.date() + timedelta(days=14)
INVOICE = f"""Ballyfern Software Ltd\n1 Market Square, Dublin\nVAT number: IE6388047V\n\nInvoice\n
Invoice number: RE-100\nInvoice date: {ISSUED:%d %B %Y}\nDue date: {DUE:%d %B %Y}\n
Consulting                     EUR 100.00
Net total:                     EUR 100.00
VAT 19%:                       EUR 19.00
Total:                         EUR 119.00\n
Please pay to our bank account, IBAN: DE02 1203 0000 0000 2020 51
Received from GB33BUKB20201555555555 last month: nothing
"""
RIGHT = {
    "supplier": "Ballyfern Software Ltd",
    "vat_id": "IE6388047V",
    "number": "RE-100",
    "issued_on": str(ISSUED),
    "due_on": str(DUE),
    "currency": "EUR",
    "net": "100.00",
    "vat": "19.00",
    "gross": "119.00",
    "iban": "DE02120300000000202051",
}


async def read_with_model(room, tmp_path, answer, text=INVOICE):
    """The document, its fields and the reason of its review, if there is one."""
    async with served(Vendor(answer)) as url:
        model = {"llm": "openai:gpt-4o", "llm_base_url": f"{url}/v1", "llm_key": "sk-test"}
        async with document_postroom(room, tmp_path, **model) as document_room:
            [document] = await document_room.read(text.encode(), suffix="txt")
            async with document_room.transaction() as connection:
                extraction = await records.get_newest_extraction(connection, document.id)
                asked = await reviews.list_by_document(connection, document.id)
    assert extraction.reader == "openai:gpt-4o"
    values = {name: field["value"] for name, field in extraction.fields.items()}
    return document, values, "; ".join(review.reason for review in asked)


async def test_readers_that_agree_confirm_a_record(room, tmp_path):
    document, values, reason = await read_with_model(room, tmp_path, RIGHT)
    assert (document.state, reason) == (DocumentState.COMPLETED, "")
    assert values == {**values, **RIGHT}


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("iban", "GB33BUKB20201555555555"),  # written in the document, but not where to pay
        ("gross", "100.00"),
        ("due_on", str(DUE + timedelta(days=30))),  # not in the document
        ("number", "RE-1OO"),
    ],
)
async def test_a_sure_value_that_the_model_contradicts_stays_and_needs_a_review(room, tmp_path, name, wrong):
    document, values, reason = await read_with_model(room, tmp_path, {**RIGHT, name: wrong})
    assert document.state is DocumentState.NEEDS_REVIEW
    assert values[name] == RIGHT[name]
    assert f"the readers disagree on {name}: {RIGHT[name]} or {wrong}" in reason


async def test_a_value_that_the_model_does_not_return_stays(room, tmp_path):
    partial = {name: value for name, value in RIGHT.items() if name not in {"iban", "due_on"}}
    document, values, reason = await read_with_model(room, tmp_path, partial)
    assert (document.state, reason) == (DocumentState.COMPLETED, "")
    assert (values["iban"], values["due_on"]) == (RIGHT["iban"], RIGHT["due_on"])


async def test_the_model_replaces_a_value_that_the_offline_reader_doubts(room, tmp_path):
    vague = INVOICE.replace("Invoice number: RE-100", "Reference: RE-100\nBooking: RE-200")
    _, values, reason = await read_with_model(room, tmp_path, {**RIGHT, "number": "RE-200"}, vague)
    assert values["number"] == "RE-200"
    assert reason == "number is uncertain (0.92)"


async def test_a_language_model_is_shown_the_pages_and_paid_by_the_organization(room, tmp_path, box):
    vendor = Vendor({"isin": "US0378331005", "direction": "buy"})
    async with served(vendor) as url:
        model = {"llm": "openai:gpt-4o", "llm_base_url": f"{url}/v1", "llm_key": "sk-test"}
        async with document_postroom(room, tmp_path, **model, llm_usd_per_day=0.0001) as document_room:
            first, second, third = (
                document_room.order("contract-note", "statement", seed=seed) for seed in (1, 2, 3)
            )
            await document_room.deliver(box, first)
            await document_room.deliver(box, second)
            [(_, _, asked)] = vendor.asked  # the budget is used up, and another pipeline made no request
            await document_room.rows(
                "UPDATE extractions SET created_at = created_at - interval '1 day' RETURNING id"
            )
            await document_room.deliver(box, third)
            read = await document_room.rows(
                "SELECT reader, cost > 0, checks::text FROM extractions ORDER BY id"
            )
            async with document_room.transaction() as connection:
                assert await records.sum_cost_today(connection) > 0
            async with room.world.database.transaction(uuid4()) as connection:
                assert await records.sum_cost_today(connection) == 0
    assert "data:image/webp;base64," in json.dumps(asked)
    assert [(reader, paid) for reader, paid, _ in read] == [
        ("openai:gpt-4o", True),
        ("offline", False),
        ("openai:gpt-4o", True),
    ]
    assert "daily budget is used up" in read[1][2]
