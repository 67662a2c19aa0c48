"""D8: what an accountant would notice needs a review: a new IBAN, a date years away, an unusual amount."""

from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256

import pytest

from postroom.errors import ChecksFailed, InvalidField
from postroom.flow.access import organization_names
from postroom.flow.documents import value_checks
from postroom.model import DocumentState
from postroom.store import records, reviews
from scenarios.document_postroom import bill
from scenarios.invoice_writer import (
    IBAN,
    OTHER_IBAN,
    attach,
    format_amount,
    format_date,
    write_invoice,
)

# The controls compare values, whatever the language of the document that they were read from.
LANGUAGES = pytest.mark.parametrize("language", ["de", pytest.param("en", marks=pytest.mark.soak)])


@pytest.fixture
def today(room):
    return datetime.fromisoformat(room.world.sim.get("clock")["now"]).date()


@pytest.fixture
def mail(document_room, box):
    """What becomes of invoices that arrive by mail."""

    async def mail(*contents):
        found = []
        for content in contents:
            await document_room.deliver(box, attach(content))
            query = "SELECT id FROM documents WHERE sha256 = %s AND pipeline = 'invoices'"
            [(document,)] = await document_room.rows(query, sha256(content).digest())
            found.append(await document_room.by_id(document))
        return found

    return mail


async def reason(document_room, document):
    assert document.state is DocumentState.NEEDS_REVIEW, document
    async with document_room.transaction() as connection:
        [asked] = await reviews.list_by_document(connection, document.id)
    return asked.reason


async def overridden(document_room, document):
    query = (
        "SELECT payload->'overridden_checks' FROM ledger WHERE entity_id = %s AND event_type LIKE 'REVIEW%%'"
    )
    [(names,)] = await document_room.rows(query, str(document.id))
    return names


async def failed_checks(document_room, document, **corrections):
    """The checks that fail in the review of a document, with these corrections."""
    async with document_room.transaction() as connection:
        extraction = await records.get_newest_extraction(connection, document.id)
        found = await value_checks.check_values(
            connection, document_room.reviewing, document, extraction, corrections
        )
    return [check.name for check in found if check.is_failed]


@LANGUAGES
async def test_changed_iban_of_a_known_supplier_needs_review_until_it_was_confirmed_once(
    document_room, mail, today, language
):
    first, changed = await mail(
        write_invoice(language, "R-1", today), write_invoice(language, "R-2", today, iban=OTHER_IBAN)
    )
    assert first.state is DocumentState.COMPLETED, "the first IBAN of a supplier is no doubt"
    assert await reason(document_room, changed) == (
        f"known iban: {OTHER_IBAN} is new for this issuer, whose records have {IBAN}."
        " Verify it with the issuer"
    )
    with pytest.raises(ChecksFailed, match="known iban"):
        await document_room.confirm(changed)
    assert await failed_checks(document_room, changed, iban=IBAN) == []
    [waiting] = await mail(write_invoice(language, "R-3", today, iban=OTHER_IBAN))
    await document_room.confirm(changed, override=["known iban"])
    assert await overridden(document_room, changed) == ["known iban"]
    # What was confirmed meanwhile counts, for a document that waits and for the next one.
    await document_room.confirm(waiting)
    assert await overridden(document_room, waiting) is None
    again, old = await mail(
        write_invoice(language, "R-4", today, iban=OTHER_IBAN), write_invoice(language, "R-5", today)
    )
    assert (again.state, old.state) == (DocumentState.COMPLETED, DocumentState.COMPLETED)


async def test_supplier_with_another_name_is_known_by_its_vat_id(document_room):
    known = {"tax_id": "DE136695976"}
    _, changed = await document_room.read(
        bill("R-1", "119.00", iban=IBAN, **known),
        bill("R-2", "119.00", iban=OTHER_IBAN, supplier="Xenon Chemie", **known),
    )
    assert "known iban" in await reason(document_room, changed)


@LANGUAGES
@pytest.mark.parametrize("field, days", [("issued_on", -800), ("due_on", 400)])
async def test_date_years_away_from_the_receipt_needs_review(
    document_room, mail, today, language, field, days
):
    far = today + timedelta(days=days)
    dates = {"issued": far} if field == "issued_on" else {"issued": today, "due": far}
    [odd] = await mail(write_invoice(language, "R-1", **dates))
    assert f"plausible {field}: {far} is years away from the receipt on {today}" in (
        await reason(document_room, odd)
    )
    assert await failed_checks(document_room, odd, issued_on=str(today), due_on=str(today)) == []
    await document_room.confirm(odd, override=await failed_checks(document_room, odd))
    assert f"plausible {field}" in await overridden(document_room, odd)


@LANGUAGES
async def test_amount_far_from_the_suppliers_usual_amounts_needs_review(document_room, mail, today, language):
    usual = ["100.00", "119.00", "140.00", "95.00"]
    earlier = await mail(
        *(write_invoice(language, f"R-{number}", today, gross=gross) for number, gross in enumerate(usual))
    )
    assert {document.state for document in earlier} == {DocumentState.COMPLETED}
    # Four amounts have no usual range yet; with five, this one is the outlier, and the median stays.
    [early] = await mail(write_invoice(language, "R-10", today, gross="1190.00"))
    assert early.state is DocumentState.COMPLETED
    large, higher = await mail(
        write_invoice(language, "R-11", today, gross="1200.00"),
        write_invoice(language, "R-12", today, gross="480.00"),
    )
    assert await reason(document_room, large) == (
        "usual gross: 1200.00 is far from the usual 119.00, the median of 5 records"
    )
    assert higher.state is DocumentState.COMPLETED
    await document_room.confirm(large, override=["usual gross"])
    assert await overridden(document_room, large) == ["usual gross"]


async def test_amounts_in_another_currency_are_not_compared(document_room):
    euros = [bill(f"R-{number}", "119.00") for number in range(5)]
    yen = bill("R-9", "19000.00").replace(b">EUR<", b">JPY<")
    found = await document_room.read(*euros, yen)
    assert {document.state for document in found} == {DocumentState.COMPLETED}


@LANGUAGES
async def test_amount_due_that_differs_from_the_total_needs_review(document_room, mail, today, language):
    due, paid = {"de": ("Restbetrag", "Anzahlung"), "en": ("Balance due", "Deposit")}[language]
    (full, half, more) = (format_amount(language, Decimal(each)) for each in ("119.00", "59.50", "169.00"))
    same, rest, other = await mail(
        write_invoice(language, "R-1", today, after=f"{due} {full} EUR"),
        write_invoice(language, "R-2", today, after=f"{paid} {half} EUR\n{due} {half} EUR"),
        write_invoice(language, "R-3", today, after=f"{due} {more} EUR"),
    )
    assert (same.state, rest.state) == (DocumentState.COMPLETED, DocumentState.COMPLETED)
    assert (await document_room.record(rest)).fields["payable"] == "59.50"
    balance = "gross - prepaid = payable"
    assert await reason(document_room, other) == (
        f"{balance}: gross 119.00 - prepaid 0 = 119.00, payable is 169.00"
    )
    assert await failed_checks(document_room, other, payable="119.00") == []
    with pytest.raises(ChecksFailed, match=balance):
        await document_room.confirm(other)
    await document_room.confirm(other, override=[balance])
    assert await overridden(document_room, other) == [balance]


@LANGUAGES
async def test_invoice_to_another_addressee_needs_review_once_our_names_are_set(
    document_room, mail, today, language
):
    label = {"de": "Rechnung an", "en": "Bill to"}[language]
    contents = [
        write_invoice(language, f"R-{number}", today, extra=f"{label}: {buyer}")
        for number, buyer in enumerate(["Südwind GmbH", "Nordwind AG", "Nordwind AG Einkauf", "Südwind AG"])
    ]
    [unchecked] = await mail(contents[0])
    assert unchecked.state is DocumentState.COMPLETED, "without names, addressees are not checked"
    async with document_room.transaction() as connection:
        organization = document_room.room.world.organization
        await organization_names.set_names(
            connection, organization, [" Nordwind  AG", "Westwind GmbH"], actor="Ann"
        )
    ours, department, other = await mail(*contents[1:])
    assert (ours.state, department.state) == (DocumentState.COMPLETED, DocumentState.COMPLETED)
    assert await reason(document_room, other) == (
        "known buyer: Südwind AG is not one of your organization's names"
    )
    assert await failed_checks(document_room, other, buyer="NORDWIND AG") == []
    assert await failed_checks(document_room, other, buyer="Nordwind GmbH") == ["known buyer"]
    await document_room.confirm(other, override=["known buyer"])
    assert await overridden(document_room, other) == ["known buyer"]
    query = "SELECT actor_id, payload FROM ledger WHERE event_type = 'ORGANIZATION_NAMES_CHANGED'"
    assert await document_room.rows(query) == [("Ann", {"count": 2})]


async def test_amount_due_of_an_e_invoice_is_compared_with_its_total(document_room):
    paid = b"</TaxInclusiveAmount><PrepaidAmount>19.00</PrepaidAmount><PayableAmount>%s</PayableAmount>"
    right, wrong = (
        bill(number, "119.00").replace(b"</TaxInclusiveAmount>", paid % due)
        for number, due in (("R-1", b"100.00"), ("R-2", b"119.00"))
    )
    [first, second] = await document_room.read(right, wrong)
    assert first.state is DocumentState.COMPLETED
    assert "gross 119.00 - prepaid 19.00 = 100.00, payable is 119.00" in await reason(document_room, second)


async def test_records_of_an_earlier_version_are_compared_with(document_room, mail, today):
    await mail(write_invoice("en", "R-1", today))
    await document_room.rows("UPDATE records SET supplier_pending = true RETURNING 1")
    await document_room.rows("DELETE FROM record_identifiers RETURNING 1")
    copy, changed = await mail(
        write_invoice("en", "R-1", today, after="Copy"), write_invoice("en", "R-2", today, iban=OTHER_IBAN)
    )
    assert copy.state is DocumentState.COMPLETED
    assert await document_room.rows("SELECT count(*) FROM records") == [(1,)]
    assert "known iban" in await reason(document_room, changed)


@LANGUAGES
async def test_uncertain_due_date_needs_review(document_room, mail, today, language):
    later = format_date(language, today + timedelta(days=20))
    words = {"de": f"Zahlbar bis {later}", "en": f"Payable by {later}"}[language]
    [asked] = await mail(write_invoice(language, "R-1", today, after=words))
    assert (await reason(document_room, asked)).startswith("due_on is uncertain (0.")
    assert await document_room.confirm(asked)


async def test_required_field_cannot_be_emptied_in_a_review(document_room, mail, today):
    _, changed = await mail(
        write_invoice("en", "R-1", today), write_invoice("en", "R-2", today, iban=OTHER_IBAN)
    )
    with pytest.raises(InvalidField, match="gross is required"):
        await document_room.confirm(changed, gross="", iban="")
    assert await document_room.confirm(changed, iban="")
