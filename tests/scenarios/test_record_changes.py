"""D8: a person can correct every record, and everything learned from it follows."""

import asyncio
from functools import partial

import pytest

from postroom.errors import ChecksFailed, PermanentError
from postroom.flow.documents import orders as order_flow
from postroom.flow.documents import record_changes, review
from postroom.flow.documents.orders import OrderRequest
from postroom.flow.documents.record_changes import RecordChange
from postroom.model import DocumentState
from postroom.store import documents, record_versions, records, reviews, work
from scenarios.document_postroom import TODAY, bill
from scenarios.test_records import AMENDED, NUMBER, change, note

IBAN, OTHER_IBAN = "DE02120300000000202051", "DE02500105170137075030"
WAITS_FOR_LOCK = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def do(document_room):
    """Change a record as Ann does: the name of the change, the record, and what the change takes."""

    async def do(name, record, *given, version=None, **options):
        step = getattr(record_changes, name)
        room = document_room
        asked = RecordChange(room.room.world.organization, record, "Ann", f"to {name} it", version)
        async with room.transaction() as connection:
            return await step(connection, room.reviewing, asked, *given, **options)

    return do


async def read_notes(document_room, *contents):
    return await document_room.read(*contents, pipeline="contract-notes", suffix="txt")


async def get_record(document_room, record):
    async with document_room.transaction() as connection:
        return await records.get(connection, record)


async def get_open_review(document_room, document):
    async with document_room.transaction() as connection:
        found = await reviews.list_by_document(connection, document.id)
    return next((asked.reason for asked in found if asked.decision is None), None)


async def import_orders(document_room, kind, *requests):
    async with document_room.transaction() as connection:
        await order_flow.import_orders(
            connection, document_room.reviewing.routing, document_room.room.world.organization, kind, requests
        )


async def list_changes(document_room, record):
    """The changes in the versions, in the ledger, and the states in the feed."""
    async with document_room.transaction() as connection:
        versions = await record_versions.list_versions(connection, record)
    entries = await document_room.rows(
        "SELECT event_type, actor_id, payload->>'reason' FROM ledger WHERE entity_id = %s ORDER BY id",
        str(record),
    )
    events = await document_room.rows(
        "SELECT data->>'state', (data->>'version')::int FROM events WHERE entity_id = %s ORDER BY id",
        str(record),
    )
    return [version.change for version in versions], entries, events


async def test_a_reopened_record_is_reviewed_and_confirmed_again_in_place(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    await do("reopen", document.record_id)
    again = await document_room.by_id(document.id)
    assert (again.state, again.record_id) == (DocumentState.NEEDS_REVIEW, document.record_id)
    assert await get_open_review(document_room, document) == "reopened: to reopen it"
    assert await document_room.confirm(again, gross="191.00") == document.record_id
    record = await get_record(document_room, document.record_id)
    assert (record.state, record.version, record.fields["gross"]) == ("confirmed", 3, "191.00")
    assert record.confirmed_by == "Ann"
    assert (await document_room.by_id(document.id)).state is DocumentState.COMPLETED
    changes, entries, events = await list_changes(document_room, document.record_id)
    assert changes == ["confirmed", "reopened", "confirmed"]
    assert entries == [("RECORD_REOPENED", "Ann", "to reopen it"), ("RECORD_CONFIRMED", "Ann", "")]
    assert events == [("confirmed", 1), ("reopened", 2), ("confirmed", 3)]


async def test_a_machine_does_not_decide_about_a_reopened_record(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    await do("reopen", document.record_id)
    async with document_room.transaction() as connection:
        organization = document_room.room.world.organization
        await review.retry(connection, organization, document.id, actor="Ann")
    await document_room.work()
    assert (await document_room.by_id(document.id)).state is DocumentState.NEEDS_REVIEW
    # A copy that arrives meanwhile makes no second record, neither by itself nor by a person.
    [copy] = await document_room.read(bill("R-1", "119.00", remark="copy"))
    assert await get_open_review(document_room, copy) == "record Xenon_GmbH-R_1 is under review"
    with pytest.raises(PermanentError, match=r"is under review\. Decide that review first"):
        await document_room.confirm(copy)
    await document_room.confirm(document)
    assert await document_room.confirm(copy) == document.record_id


async def test_who_rejects_a_reopened_document_voids_its_record(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    await do("reopen", document.record_id)
    async with document_room.transaction() as connection:
        organization = document_room.room.world.organization
        await review.reject(
            connection, document_room.reviewing, organization, document.id, actor="Ann", reason="an offer"
        )
    assert (await get_record(document_room, document.record_id)).state == "voided"
    ended = await document_room.by_id(document.id)
    assert (ended.state, ended.skip_reason) == (DocumentState.SKIPPED, "record voided: rejected: an offer")


async def test_correcting_a_record_computes_its_checks_again(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00", iban=IBAN))
    with pytest.raises(ChecksFailed, match="check digits of iban"):
        await do("correct", document.record_id, {"iban": IBAN[:-1] + "2"})
    with pytest.raises(PermanentError, match="already has these values"):
        await do("correct", document.record_id, {"gross": "119.00"})
    record = await do("correct", document.record_id, {"gross": "191.00", "iban": OTHER_IBAN})
    assert (record.fields["gross"], record.fields["iban"], record.version) == ("191.00", OTHER_IBAN, 2)
    [(fields,)] = await document_room.rows(
        "SELECT payload->'fields' FROM ledger WHERE event_type = 'RECORD_CORRECTED'"
    )
    assert fields == ["gross", "iban"]
    # What it was before denies nothing: that invoice is another one, and the right one is known.
    same, wrong = await document_room.read(
        bill("R-1", "191.00", iban=OTHER_IBAN, remark="copy"), bill("R-1", "119.00", remark="copy")
    )
    assert (same.record_id, wrong.state) == (document.record_id, DocumentState.NEEDS_REVIEW)


async def test_a_corrected_number_frees_the_wrong_one(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    await do("correct", document.record_id, {"number": "R-7"})
    real, copy = await document_room.read(bill("R-1", "238.00"), bill("R-7", "119.00"))
    assert (real.state, copy.record_id) == (DocumentState.COMPLETED, document.record_id)
    with pytest.raises(PermanentError, match=r"Record Xenon_GmbH-R_7 .* has the same values. Merge the two"):
        await do("correct", real.record_id, {"number": "R-7", "gross": "119.00"})


async def test_a_corrected_record_is_archived_beside_its_earlier_copy(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    first = (await document_room.by_id(document.id)).archive_path
    await do("correct", document.record_id, {"number": "R-7"})
    await document_room.work()
    revised = await document_room.by_id(document.id)
    assert revised.archive_path != first
    assert "R_7" in revised.archive_path
    home = document_room.settings.home
    assert (home / first).read_bytes() == (home / revised.archive_path).read_bytes()
    assert await document_room.rows("SELECT path FROM archive_copies") == [(first,)]
    # A purge of the sender takes the name out of every copy.
    await document_room.rows("UPDATE arrivals SET sender = NULL RETURNING 1")
    await document_room.rows("UPDATE documents SET archive_outdated_at = postroom_now() RETURNING 1")
    async with document_room.transaction() as connection:
        request = work.WorkRequest(document_room.room.world.organization, "archive", str(document.id))
        await work.enqueue(connection, [request])
    await document_room.work()
    kept = [str(file.relative_to(home)) for file in home.glob("archive/**/*.xml")]
    assert kept == [(await document_room.by_id(document.id)).archive_path]
    assert await document_room.rows("SELECT path FROM archive_copies") == []


async def test_another_file_in_the_archive_is_not_taken_for_the_copy(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    home, first = document_room.settings.home, (await document_room.by_id(document.id)).archive_path
    taken = home / first.replace("R_1", "R_7")
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"another file")
    await do("correct", document.record_id, {"number": "R-7"})
    await document_room.work()
    copy = home / (await document_room.by_id(document.id)).archive_path
    assert (copy.parent, copy.name) == (taken.parent, f"{taken.stem}-2{taken.suffix}")
    assert (copy.read_bytes(), taken.read_bytes()) == ((home / first).read_bytes(), b"another file")


async def test_a_voided_record_teaches_and_denies_nothing(document_room, do):
    bills = [bill(f"R-{number}", "100.00", iban=IBAN) for number in range(5)]
    found = await document_room.read(*bills)
    # Both its IBAN and its amount are known, until the records are voided.
    [strange] = await document_room.read(bill("R-9", "9000.00", iban=OTHER_IBAN))
    assert "usual gross" in await get_open_review(document_room, strange)
    for document in found:
        await do("void", document.record_id)
    ended = await document_room.by_id(found[0].id)
    assert (ended.state, ended.skip_reason) == (DocumentState.SKIPPED, "record voided: to void it")
    [usual] = await document_room.read(bill("R-10", "9000.00", iban=OTHER_IBAN))
    assert usual.state is DocumentState.COMPLETED
    [copy] = await document_room.read(bill("R-0", "100.00", iban=OTHER_IBAN, remark="copy"))
    assert copy.record_id not in {None, found[0].record_id}
    with pytest.raises(PermanentError, match="has the same values"):
        await do("reopen", found[0].record_id)
    await do("reopen", found[1].record_id)
    assert (await document_room.by_id(found[1].id)).state is DocumentState.NEEDS_REVIEW


async def test_a_correction_teaches_only_while_its_record_has_that_value(document_room, do, owner):
    """What a correction teaches follows the record: a voided or corrected one teaches nothing."""
    document, other = await read_notes(document_room, note(NUMBER), note("Contract note number: CN1002"))

    async def learned():
        async with document_room.transaction() as connection:
            extraction = await records.get_newest_extraction(connection, document.id)
            found = await reviews.find_corrections(connection, parties=[], layout=extraction.layout)
        return {name: [each.right_value for each in corrections] for name, corrections in found.items()}

    await do("correct", document.record_id, {"broker": "Northgate"})
    assert await learned() == {"broker": ["Northgate"]}
    await do("correct", document.record_id, {"broker": "Northgate Ltd"})
    assert await learned() == {"broker": ["Northgate Ltd"]}
    await do("correct", document.record_id, {"broker": "Northgate Brokers plc"})
    assert await learned() == {}
    await do("correct", other.record_id, {"broker": "Southgate"})
    assert await learned() == {"broker": ["Southgate"]}
    await do("void", other.record_id)
    assert await learned() == {}


async def test_merging_two_records_can_be_undone(document_room, do):
    one, other = await document_room.read(bill("R-1", "119.00"), bill("R-l", "119.00", remark="scan"))
    left = await do("merge", other.record_id, into=one.record_id)
    await document_room.work()
    assert left.id == one.record_id
    merged = await get_record(document_room, other.record_id)
    assert (merged.state, merged.merged_into) == ("merged", one.record_id)
    moved = await document_room.by_id(other.id)
    assert (moved.state, moved.record_id) == (DocumentState.COMPLETED, one.record_id)
    # Another copy of either leads to the one that is left.
    copies = await document_room.read(
        bill("R-l", "119.00", remark="again"), bill("R-1", "119.00", remark="again")
    )
    assert {copy.record_id for copy in copies} == {one.record_id}
    with pytest.raises(PermanentError, match=r"is merged\. Undo the merge first"):
        await do("void", other.record_id)
    await do("split", other.record_id)
    assert (await document_room.by_id(other.id)).record_id == other.record_id
    assert (await get_record(document_room, other.record_id)).state == "confirmed"
    changes, _, _ = await list_changes(document_room, other.record_id)
    assert changes == ["confirmed", "merged", "split"]
    changes, _, _ = await list_changes(document_room, one.record_id)
    assert changes == ["confirmed", "merged", "split"]


async def test_a_document_that_was_taken_for_a_copy_gets_its_own_record(document_room, do):
    one, copy = await read_notes(document_room, note(), note(remark="Second fill"))
    assert one.record_id == copy.record_id
    made = await do("split", one.record_id, document=copy.id)
    assert made.id != one.record_id
    assert (await document_room.by_id(copy.id)).record_id == made.id
    with pytest.raises(PermanentError, match="only document of record"):
        await do("split", made.id, document=copy.id)
    # It can be corrected, although both have the same values.
    assert (await do("correct", made.id, {"number": "CN1002"})).fields["number"] == "CN1002"


async def test_an_amendment_replaces_the_earlier_trade(document_room):
    amended = change(note(NUMBER), **AMENDED["quantity"])
    first, other = await read_notes(document_room, note(NUMBER), amended)
    async with document_room.transaction() as connection:
        made = await review.confirm(
            connection,
            document_room.reviewing,
            document_room.room.world.organization,
            other.id,
            actor="Ann",
            replaces=first.record_id,
        )
    live = await document_room.rows("SELECT id, fields->>'quantity' FROM records WHERE state = 'confirmed'")
    assert live == [(made, "90")]
    assert (await get_record(document_room, first.record_id)).merged_into == made
    copies = await read_notes(document_room, note(NUMBER, remark="Copy"), amended + b"Copy")
    assert [copy.record_id for copy in copies] == [made, made]


FITTING = {"isin": "US0378331005", "direction": "buy", "quantity": "100"}


async def test_a_person_chooses_the_order_if_several_fit(document_room, do):
    placed = [OrderRequest(reference, "ldeburna", FITTING) for reference in ("O-1", "O-2")]
    await import_orders(document_room, "contract-note", *placed)
    [document] = await read_notes(document_room, note(NUMBER))
    assert await get_open_review(document_room, document) == "several open orders fit: O-1, O-2"

    async def confirm(order):
        async with document_room.transaction() as connection:
            return await review.confirm(
                connection,
                document_room.reviewing,
                document_room.room.world.organization,
                document.id,
                actor="Ann",
                order=order,
            )

    with pytest.raises(PermanentError, match="There is no open order O-3"):
        await confirm("O-3")
    record = await get_record(document_room, await confirm("O-2"))
    assert record.key.startswith("ldeburna-")
    states = partial(document_room.rows, "SELECT reference, state FROM orders ORDER BY reference")
    assert await states() == [("O-1", "open"), ("O-2", "matched")]
    await do("correct", record.id, {}, order="O-1")
    assert await states() == [("O-1", "matched"), ("O-2", "open")]
    await do("void", record.id)
    assert await states() == [("O-1", "open"), ("O-2", "open")]


async def test_an_order_that_is_imported_later_finds_its_record(document_room, do):
    one, other = await read_notes(document_room, note(NUMBER), note(account="99887766"))
    other_day = {**FITTING, "trade_date": f"{TODAY:%Y}-01-01" if TODAY.month > 1 else f"{TODAY:%Y}-12-01"}
    await import_orders(
        document_room,
        "contract-note",
        OrderRequest("O-1", "ldeburna", {**FITTING, "account": "11223344"}),
        OrderRequest("O-2", "ldeburna", {**other_day, "account": "99887766"}),
    )
    linked = await get_record(document_room, one.record_id)
    assert linked.key == f"ldeburna-{TODAY:%Y%m%d}-AAPL-BUY-100"
    assert (await get_record(document_room, other.record_id)).order_id is None
    assert await document_room.rows("SELECT reference, state FROM orders ORDER BY reference") == [
        ("O-1", "matched"),
        ("O-2", "open"),
    ]
    changes, entries, _ = await list_changes(document_room, one.record_id)
    assert changes == ["confirmed", "linked"]
    assert entries[-1][:2] == ("RECORD_LINKED", "postroom")
    await document_room.work()
    assert "ldeburna" in (await document_room.by_id(one.id)).archive_path


async def test_an_order_that_is_imported_later_prefers_the_record_with_its_number(document_room):
    reference = b"<OrderReference><ID>PO-7781</ID></OrderReference><AccountingSupplierParty>"
    numbered = bill("R-26-400", "158.27").replace(b"<AccountingSupplierParty>", reference)
    earlier, exact = await document_room.read(bill("R-26-102", "159.46"), numbered)
    fields = {"supplier": "Xenon GmbH", "gross": "158.27"}
    placed = OrderRequest("O-1", None, {**fields, "purchase_order": "PO-7781"})
    await import_orders(document_room, "invoice", placed)
    assert (await get_record(document_room, earlier.record_id)).order_id is None
    assert (await get_record(document_room, exact.record_id)).order_id is not None


async def test_an_order_without_a_number_that_two_records_fit_waits_for_a_person(document_room):
    one, other = await document_room.read(bill("R-26-102", "159.46"), bill("R-26-400", "158.27"))
    fields = {"supplier": "Xenon GmbH", "gross": "158.27"}
    await import_orders(document_room, "invoice", OrderRequest("O-1", None, fields))
    found = [await get_record(document_room, each.record_id) for each in (one, other)]
    assert [record.order_id for record in found] == [None, None]


@pytest.mark.parametrize("limit, most, linked", [("MAX_CANDIDATES", 1, 0), ("MAX_PAIRS", 2, 1)])
async def test_comparisons_of_waiting_records_with_orders_are_limited(
    document_room, monkeypatch, limit, most, linked
):
    monkeypatch.setattr(f"postroom.store.orders.{limit}", most)
    documents = await read_notes(document_room, note(NUMBER), note(account="99887766"))
    accounts = "11223344", "99887766"
    placed = [OrderRequest(each, "ldeburna", {**FITTING, "account": each}) for each in accounts]
    await import_orders(document_room, "contract-note", *placed)
    found = [await get_record(document_room, each.record_id) for each in documents]
    assert sum(record.order_id is not None for record in found) == linked


async def test_of_two_people_who_change_a_record_at_once_one_gets_a_conflict(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    async with document_room.transaction() as connection:
        await records.lock(connection)
        first = asyncio.create_task(do("correct", document.record_id, {"number": "R-7"}, version=1))
        await wait_for_lock(document_room, 1)
        second = asyncio.create_task(do("void", document.record_id, version=1))
        await wait_for_lock(document_room, 2)
    results = await asyncio.gather(first, second, return_exceptions=True)
    [problem] = [each for each in results if isinstance(each, PermanentError)]
    assert "has changed" in str(problem)
    assert "version 2. Reload it and try again." in str(problem)
    changes, _, _ = await list_changes(document_room, document.record_id)
    assert len(changes) == 2


async def test_what_a_machine_reads_meanwhile_does_not_undo_a_persons_decision(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    await do("reopen", document.record_id)
    async with document_room.transaction() as connection:
        organization = document_room.room.world.organization
        await review.retry(connection, organization, document.id, actor="Ann")
    async with document_room.transaction() as connection:
        # A worker has read the document, and waits to commit what it read.
        await records.lock(connection)
        reading = asyncio.create_task(document_room.work())
        await wait_for_lock(document_room, 1)
        assert (await document_room.by_id(document.id)).state is DocumentState.PROCESSING
        asked = RecordChange(organization, document.record_id, "Ann", "not ours")
        await record_changes.void(connection, document_room.reviewing, asked)
    await reading
    ended = await document_room.by_id(document.id)
    assert (ended.state, ended.skip_reason) == (DocumentState.SKIPPED, "record voided: not ours")
    assert await document_room.rows("SELECT count(*) FROM records WHERE state <> 'voided'") == [(0,)]


async def wait_for_lock(document_room, count):
    while await document_room.rows(WAITS_FOR_LOCK) != [(count,)]:  # noqa: ASYNC110  a session of the server waits
        await asyncio.sleep(0.01)


async def test_a_change_needs_a_reason(document_room, do):
    [document] = await document_room.read(bill("R-1", "119.00"))
    asked = RecordChange(document_room.room.world.organization, document.record_id, "Ann", "  ")
    async with document_room.transaction() as connection:
        with pytest.raises(PermanentError, match="Give a reason"):
            await record_changes.void(connection, document_room.reviewing, asked)
        assert len(await documents.list_by_record(connection, document.record_id)) == 1
