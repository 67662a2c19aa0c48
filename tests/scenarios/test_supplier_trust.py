"""What people confirmed unchanged twice needs no review for the same reason; nothing else is lifted."""

from datetime import timedelta

import pytest

from documents.files.sample_files import pdf
from postroom.flow.documents import record_changes, review, supplier_trust
from postroom.flow.documents.record_changes import RecordChange
from postroom.flow.documents.route import MACHINE
from postroom.model import DocumentState
from postroom.store import records, reviews
from scenarios.document_postroom import TODAY
from scenarios.invoice_writer import OTHER_IBAN, write_text

COMPLETED, NEEDS_REVIEW = DocumentState.COMPLETED, DocumentState.NEEDS_REVIEW
REASON = "number is uncertain (0.82)"


def weak_invoice(number, *, vat="19.00", **given):
    """An invoice whose number has a weak label; everything else is certain."""
    text = write_text("en", number, TODAY.date(), **given).replace("Invoice number:", "Reference")
    text = text.replace("VAT 19 % EUR 19.00", f"VAT 19 % EUR {vat}")
    return pdf([(60, 780 - 18 * row, line) for row, line in enumerate(text.splitlines())])


@pytest.fixture
def read(document_room):
    async def read(number, **given):
        [document] = await document_room.read(weak_invoice(number, **given), suffix="pdf")
        return document

    return read


@pytest.fixture
def confirm_two(document_room, read):
    """Documents that a person confirms unchanged, because they need review."""

    async def confirm_two(*numbers):
        found = []
        for number in numbers:
            document = await read(number)
            assert (document.state, await reason(document_room, document)) == (NEEDS_REVIEW, REASON)
            found.append(await document_room.confirm(document))
        return found

    return confirm_two


async def reason(document_room, document):
    async with document_room.transaction() as connection:
        *_, asked = await reviews.list_by_document(connection, document.id)
    return asked.reason


async def find_supplier(document_room):
    [(supplier,)] = await document_room.rows("SELECT DISTINCT supplier_id FROM records")
    return supplier


async def test_third_document_needs_no_review_for_the_same_reason(document_room, read, confirm_two):
    one, two = await confirm_two("R-1", "R-2")
    third = await read("R-3", gross="238.00")
    assert third.state is COMPLETED, await reason(document_room, third)
    record = await document_room.record(third)
    assert (record.confirmed_by, record.fields["number"]) == (MACHINE, "R-3")
    query = "SELECT payload->'trusted' FROM ledger WHERE entity_id = %s AND event_type = 'DOCUMENT_COMPLETED'"
    [(trusted,)] = await document_room.rows(query, str(third.id))
    assert {name: set(found) for name, found in trusted.items()} == {"number": {str(one), str(two)}}
    # Two people's decisions are needed, not two documents: what the machine confirmed teaches nothing.
    assert (await read("R-4")).state is COMPLETED
    supplier = await find_supplier(document_room)
    async with document_room.transaction() as connection:
        kind = document_room.reviewing.routing.kinds["invoice"]
        pipelines = document_room.reviewing.pipelines
        trust = await supplier_trust.load_trust(connection, supplier, kind, pipelines)
    assert [(each.confirmed, each.fields) for each in trust.layouts] == [(2, ["number"])]


@pytest.mark.parametrize(
    "given, doubt",
    [
        pytest.param({"iban": OTHER_IBAN}, "known iban", id="changed IBAN"),
        pytest.param(
            {"due": TODAY.date() + timedelta(days=900)},
            "plausible due_on",
            id="date years away",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            {"number": "R-1", "gross": "238.00"},
            "same supplier and number",
            id="conflict",
            marks=pytest.mark.soak,
        ),
        pytest.param({"number": "R-2", "after": "Thank you"}, REASON, id="copy of a record"),
        pytest.param({"vat": "17.00"}, "net + vat = gross", id="arithmetic"),
    ],
)
async def test_trust_lifts_nothing_else(document_room, read, confirm_two, given, doubt):
    await confirm_two("R-1", "R-2")
    other = await read(**{"number": "R-3", **given})
    assert other.state is NEEDS_REVIEW
    assert doubt in await reason(document_room, other)


async def test_another_layout_is_not_trusted(document_room, confirm_two):
    await confirm_two("R-1", "R-2")
    text = write_text("en", "R-3", TODAY.date()).replace("Invoice number:", "Reference")
    lines = text.replace("Long Street", "Lake Street").splitlines()
    content = pdf([(60, 780 - 18 * row, line) for row, line in enumerate(lines)])
    [other] = await document_room.read(content, suffix="pdf")
    assert (other.state, await reason(document_room, other)) == (NEEDS_REVIEW, REASON)


def change_of(document_room, record):
    organization = document_room.room.world.organization
    return RecordChange(organization, record, "Ann", "it was wrong")


async def correct(document_room, connection, record):
    change = change_of(document_room, record)
    await record_changes.correct(connection, document_room.reviewing, change, {"number": "R-77"})


async def void(document_room, connection, record):
    await record_changes.void(connection, document_room.reviewing, change_of(document_room, record))


async def reopen_and_confirm(document_room, connection, record):
    context, change = document_room.reviewing, change_of(document_room, record)
    await record_changes.reopen(connection, context, change)
    query = "SELECT id FROM documents WHERE record_id = %s"
    [(document,)] = await (await connection.execute(query, [record])).fetchall()
    await review.confirm(connection, context, change.organization, document, actor="Ann")


@pytest.mark.parametrize("change", [correct, void, reopen_and_confirm])
async def test_trust_starts_again_after_a_change_of_a_record(document_room, read, confirm_two, change):
    await confirm_two("R-1", "R-2")
    third = await read("R-3")
    async with document_room.transaction() as connection:
        await change(document_room, connection, third.record_id)
    fourth = await read("R-4")
    assert (fourth.state, await reason(document_room, fourth)) == (NEEDS_REVIEW, REASON)
    await document_room.confirm(fourth)
    fifth = await read("R-5")
    # The reopened document was confirmed after the doubt, too.
    assert fifth.state is (COMPLETED if change is reopen_and_confirm else NEEDS_REVIEW)
    if fifth.state is NEEDS_REVIEW:
        await document_room.confirm(fifth)
    assert (await read("R-6")).state is COMPLETED


async def test_a_correction_in_the_review_and_a_rejection_confirm_nothing(document_room, read, confirm_two):
    await confirm_two("R-1")
    corrected = await read("R-2")
    await document_room.confirm(corrected, number="R-22")
    await confirm_two("R-3")
    rejected = await read("R-4")
    assert rejected.state is NEEDS_REVIEW, "one document was confirmed since the correction"
    async with document_room.transaction() as connection:
        await review.reject(
            connection,
            document_room.reviewing,
            document_room.room.world.organization,
            rejected.id,
            actor="Ann",
            reason="not ours",
        )
    await confirm_two("R-5", "R-6")
    assert (await read("R-7")).state is COMPLETED


async def test_switch_turns_trust_off_and_on_and_is_recorded(document_room, read, confirm_two):
    await confirm_two("R-1", "R-2")
    supplier, organization = await find_supplier(document_room), document_room.room.world.organization

    async def switch(trusted):
        async with document_room.transaction() as connection:
            await supplier_trust.set_trust(connection, organization, supplier, trusted=trusted, actor="Ann")

    await switch(True)  # changes nothing, and is not recorded
    await switch(False)
    third = await read("R-3")
    assert (third.state, await reason(document_room, third)) == (NEEDS_REVIEW, REASON)
    await switch(True)
    assert (await read("R-4")).state is COMPLETED
    query = "SELECT entity_id, actor_id, payload FROM ledger WHERE event_type = %s ORDER BY id"
    assert await document_room.rows(query, "SUPPLIER_TRUST_CHANGED") == [
        (str(supplier), "Ann", {"trusted": False}),
        (str(supplier), "Ann", {"trusted": True}),
    ]


async def test_trust_stays_off_when_two_suppliers_turn_out_to_be_one(document_room):
    async with document_room.transaction() as connection:
        context = document_room.reviewing.routing.identities["invoice"]
        values = [
            {"supplier": "Xenon GmbH"},
            {"supplier": "Xenon Holding", "vat_id": "DE136695976"},
            {"supplier": "Xenon GmbH", "vat_id": "DE136695976"},
        ]
        made = []
        for number, each in enumerate(values):
            record, _ = await records.confirm(
                connection,
                kind="invoice",
                pipeline="invoices",
                fingerprint=bytes([number]) * 32,
                key=f"R-{number}",
                fields=each,
                order=None,
                confirmed_by="Ann",
            )
            digests = context.get_issuer_hashes("invoice", each)
            await records.assign_suppliers(connection, [(record, digests)])
            await records.add_identifiers(connection, "invoices", [(record, digest) for digest in digests])
            made.append(await records.get_supplier(connection, record))
            if number == 1:
                organization = document_room.room.world.organization
                for supplier in made[1:]:
                    await supplier_trust.set_trust(
                        connection, organization, supplier, trusted=False, actor="Ann"
                    )
        kind = document_room.reviewing.routing.kinds["invoice"]
        trust = await supplier_trust.load_trust(connection, made[-1], kind, document_room.reviewing.pipelines)
    assert (len(set(made)), made[2] == made[0], trust.trusted) == (2, True, False)
