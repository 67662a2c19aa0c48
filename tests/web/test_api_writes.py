"""W3, D8, D11: documents taken in and decided about, and orders, through the API and its client."""

import asyncio
import random
from hashlib import sha256

import pytest
from psycopg.types.json import Jsonb

import databases
from postroom.client import ApiError, NewOrder, Postroom
from postroom.documents.record_matching import MAX_ISSUER_KEY
from postroom.model import Scope
from postroom.store.connection import TransactionLimits
from web.api_client import build_client, create_key_header, open_api_application
from web.push_server import serve

WAITS_FOR_THIS = """
    SELECT pid FROM pg_locks
    WHERE locktype = 'transactionid' AND NOT granted AND transactionid = pg_current_xact_id()::xid
"""
READ = {"number": "R-1", "issued_on": "2026-02-04", "gross": "119.00", "currency": "EUR"}


@pytest.fixture
async def served(database, organization, tmp_path):
    async with open_api_application(database, organization, tmp_path) as (made, _):
        yield made


@pytest.fixture
async def api(served, database, organization):
    async with build_client(served, await create_key_header(database, organization)) as client:
        yield client


@pytest.fixture
def asked(owner, organization):
    """A document that waits for a person; the ids of review and document."""

    async def ask(name="a", **changed):
        digest = sha256(name.encode()).digest()
        await owner.execute(
            "INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, 1)", [organization, digest]
        )
        cursor = await owner.execute(
            """
            WITH document AS (
                INSERT INTO documents (organization_id, pipeline, kind, state, media_type, sha256)
                SELECT %(organization)s, 'invoices', 'invoice', 'needs_review', 'application/pdf', %(digest)s
                RETURNING organization_id, id
            ), arrival AS (
                INSERT INTO arrivals
                    (organization_id, document_id, source, sender, file_name, received_at)
                SELECT organization_id, id, 'gmail_push', 'ann@example.org', 'bill.pdf', '2026-02-05'
                FROM document
            ), extraction AS (
                INSERT INTO extractions (organization_id, document_id, kind, reader, fields, layout)
                SELECT organization_id, id, 'invoice', 'offline', %(fields)s, 'x' FROM document
            )
            INSERT INTO reviews (organization_id, document_id, reason)
            SELECT organization_id, id, 'the gross amount is not sure' FROM document RETURNING id, document_id
            """,
            {
                "organization": organization,
                "digest": digest,
                "fields": Jsonb(
                    {key: {"value": value, "confidence": 0.5} for key, value in (READ | changed).items()}
                ),
            },
        )
        return await cursor.fetchone()

    return ask


async def test_a_change_that_waits_too_long_for_a_lock_is_answered_with_try_again(
    database_url, owner, organization, tmp_path, make_mailbox
):
    """The process that holds it may be frozen. The client may retry with the same key: nothing changed."""
    mailbox = await make_mailbox(organization)
    brief = TransactionLimits(lock_seconds=0.1, idle_seconds=60)
    async with (
        databases.open_pools(database_url, limits=brief) as database,
        open_api_application(database, organization, tmp_path) as (made, _),
        build_client(made, await create_key_header(database, organization)) as api,
    ):

        async def change():
            key = {"idempotency-key": "once"}
            return await api.patch(f"/mailboxes/{mailbox}", json={"paused": True}, headers=key)

        async with owner.transaction():
            await owner.execute("SELECT FROM mailboxes FOR UPDATE")
            answer = await change()
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:postroom:problem:try-again")
            assert int(answer.headers["retry-after"]) >= 1
        answer = await change()
        assert (answer.status_code, answer.json()["paused_at"] is not None) == (200, True)


async def test_endless_name_of_a_supplier_hinders_no_correction(api, asked, owner):
    dice = random.Random(1)
    name = "".join(dice.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(9000))
    review, _ = await asked(supplier=name, iban=None, supplier_vat_id=None)
    body = {"corrections": {"gross": "119.00", "number": "R-77"}}
    done = await api.post(f"/reviews/{review}/confirm", json=body)
    assert done.status_code == 200, done.text[:300]
    cursor = await owner.execute("SELECT DISTINCT length(party) FROM corrections")
    assert await cursor.fetchall() == [(MAX_ISSUER_KEY,)]


async def test_review_is_confirmed_with_corrections_and_recorded_in_the_ledger(api, asked, owner):
    review, document = await asked()
    tag = (await api.get(f"/reviews/{review}")).headers["etag"]
    wrong = {"if-match": '"another"'}
    assert (await api.post(f"/reviews/{review}/confirm", json={}, headers=wrong)).status_code == 412
    body = {"corrections": {"gross": "120.00", "issued_on": "2026-02-03"}}
    refused = await api.post(f"/reviews/{review}/confirm", json={"corrections": {"gross": "many"}})
    assert (refused.status_code, "must be a number" in refused.json()["detail"]) == (409, True)
    refused = await api.post(f"/reviews/{review}/confirm", json={"corrections": {"currency": "EURO"}})
    assert (refused.status_code, "ISO 4217" in refused.json()["detail"]) == (409, True)
    refused = await api.post(f"/reviews/{review}/confirm", json={"corrections": {"currency": None}})
    assert (refused.status_code, "currency is required" in refused.json()["detail"]) == (409, True)
    once = {"if-match": tag, "idempotency-key": "k"}
    made = await api.post(f"/reviews/{review}/confirm", json=body, headers=once)
    assert made.status_code == 200, made.text
    assert made.json()["fields"] == {**READ, **body["corrections"]}
    again = await api.post(f"/reviews/{review}/confirm", json=body, headers=once)
    assert (again.json(), again.headers["idempotent-replay"]) == (made.json(), "true")
    late = await api.post(f"/reviews/{review}/reject", json={"reason": "late"})
    assert (late.status_code, late.json()["type"]) == (409, "urn:postroom:problem:decided")
    decided = (await api.get(f"/reviews/{review}")).json()
    assert decided["decision"] == "corrected"
    assert (await api.get(f"/documents/{document}")).json()["document"]["record_id"] == made.json()["id"]
    cursor = await owner.execute(
        "SELECT DISTINCT actor_id = (SELECT 'key:' || id FROM api_keys) FROM ledger WHERE entity_type = %s",
        ["document"],
    )
    assert await cursor.fetchall() == [(True,)]
    assert decided["actor_id"] == made.json()["confirmed_by"]


async def test_review_is_rejected_and_document_retried(api, asked):
    review, document = await asked()
    rejected = await api.post(f"/reviews/{review}/reject", json={"reason": "a reminder"})
    assert (rejected.status_code, rejected.json()["decision"]) == (200, "rejected")
    shown = (await api.get(f"/documents/{document}")).json()["document"]
    assert (shown["state"], shown["skip_reason"]) == ("skipped", "rejected: a reminder")
    assert (await api.post(f"/documents/{document}/retry")).json()["state"] == "queued"
    again = await api.post(f"/documents/{document}/retry")
    assert (again.status_code, again.json()["detail"]) == (
        409,
        "The document is already queued. Wait until it has been processed.",
    )


async def test_failed_document_is_dismissed(api, asked, owner):
    _, document = await asked()
    await owner.execute("DELETE FROM reviews")
    await owner.execute("UPDATE documents SET state = 'failed', last_error = 'damaged'")
    dismissed = (await api.post(f"/documents/{document}/reject", json={"reason": "a report"})).json()
    assert (dismissed["state"], dismissed["skip_reason"]) == ("skipped", "rejected: a report")
    assert (await api.post(f"/documents/{document}/reject", json={})).status_code == 409


async def test_failed_document_that_is_queued_meanwhile_is_not_dismissed(api, asked, owner):
    _, document = await asked()
    await owner.execute("UPDATE documents SET state = 'failed', last_error = 'damaged'")
    async with owner.transaction(), asyncio.timeout(30):
        await owner.execute("UPDATE documents SET state = 'queued'")
        dismissal = asyncio.create_task(api.post(f"/documents/{document}/reject", json={}))
        while not await (await owner.execute(WAITS_FOR_THIS)).fetchone():  # noqa: ASYNC110  a session of the server waits
            await asyncio.sleep(0.01)
    refused = await dismissal
    assert refused.status_code == 409
    assert refused.json()["detail"] == "The document is queued; it does not need review."
    assert (await api.get(f"/documents/{document}")).json()["document"]["state"] == "queued"


async def test_first_decision_wins(api, asked):
    review, _ = await asked()
    answers = await asyncio.gather(
        *(api.post(f"/reviews/{review}/{what}", json={}) for what in ["confirm", "reject"] * 3)
    )
    assert sorted(each.status_code for each in answers) == [200, 409, 409, 409, 409, 409]


async def test_writes_need_the_documents_scope(served, database, organization, asked):
    review, document = await asked()
    headers = await create_key_header(database, organization, Scope.READ)
    async with build_client(served, headers) as reader:
        for path in (
            f"/reviews/{review}/confirm",
            f"/reviews/{review}/reject",
            f"/documents/{document}/retry",
            "/documents?pipeline=invoices&file_name=x",
            "/orders",
        ):
            assert (await reader.post(path, json={})).status_code == 403, path


async def test_orders_are_imported_and_closed_orders_stay_closed(api):
    wanted = {"kind": "contract-note", "orders": [{"reference": "O-1", "fields": {"quantity": "100"}}]}
    assert (await api.post("/orders", json=wanted)).json() == {"new": 1, "changed": 0, "unchanged": 0}
    assert (await api.post("/orders", json=wanted)).json() == {"new": 0, "changed": 0, "unchanged": 1}
    [order] = (await api.get("/orders", params={"state": "open"})).json()["data"]
    stale = await api.post(f"/orders/{order['id']}/close", headers={"if-match": '"x"'})
    assert stale.status_code == 412
    assert (await api.post(f"/orders/{order['id']}/close")).json()["state"] == "closed"
    assert (await api.post(f"/orders/{order['id']}/close")).status_code == 409
    wanted["orders"][0]["fields"] = {"quantity": "200"}
    assert (await api.post("/orders", json=wanted)).json() == {"new": 0, "changed": 0, "unchanged": 1}
    reported = (await api.get("/ledger", params={"entity_type": "order"})).json()["data"]
    assert [each["event_type"] for each in reported] == ["ORDER_CLOSED"]


@pytest.mark.parametrize(
    "wanted, words",
    [
        ({"kind": "nothing", "orders": []}, "There is no document kind nothing"),
        (
            {"kind": "invoice", "orders": [{"reference": "O-1", "fields": {"colour": "red"}}]},
            "colour is not a field",
        ),
        ({"kind": "invoice", "orders": [{"reference": ""}]}, "Invalid request"),
        ({"kind": "invoice", "orders": [{"reference": "\0"}]}, "Invalid request"),
    ],
)
async def test_invalid_orders_are_rejected_with_a_message(api, wanted, words):
    refused = await api.post("/orders", json=wanted)
    assert refused.status_code in {400, 409}
    assert words in refused.json()["detail"]


async def test_client_decides_reviews_uploads_files_and_imports_orders(served, database, organization, asked):
    review, other, third = [(await asked(name))[0] for name in "abc"]
    key = (await create_key_header(database, organization))["authorization"].removeprefix("Bearer ")
    async with serve(served) as url:
        postroom = Postroom(url, key)

        def act():
            record = postroom.confirm(review, {"gross": "1.00"})
            assert record.fields["gross"] == "1.00"
            assert postroom.reject(other, "no").decision == "rejected"
            with pytest.raises(ApiError, match="decided"):
                postroom.confirm(other)
            document = postroom.review(other).document_id
            assert postroom.retry_document(document).state == "queued"
            with pytest.raises(ApiError, match="The document is queued"):
                postroom.reject_document(document, "no")
            document = postroom.review(third).document_id
            assert postroom.reject_document(document, "no").skip_reason == "rejected: no"
            orders = [NewOrder("O-1", "ann", {"quantity": "1"}), NewOrder("O-2")]
            assert postroom.import_orders("contract-note", orders).new == 2
            first = next(postroom.orders(state="open"))
            assert postroom.close_order(first.id) == postroom.order(first.id)
            [document] = postroom.upload("invoices", "bill.pdf", b"%PDF-1.7 example")
            assert postroom.upload("invoices", "again.pdf", b"%PDF-1.7 example")[0].id == document.id
            assert postroom.document_content(document.id) == b"%PDF-1.7 example"
            with pytest.raises(ApiError, match="was not accepted"):
                postroom.upload("invoices", "card.vcf", b"BEGIN:VCARD")
            with pytest.raises(ApiError, match="Pipeline not found"):
                postroom.upload("nothing", "bill.pdf", b"")

        await asyncio.to_thread(act)
