"""D8: the checks of a review are those of the values as they are entered, and a failed one stops it."""

import re
from hashlib import sha256

import pytest
from psycopg.types.json import Jsonb

from postroom.api_types import FailedCheck
from postroom.client import ApiError, Postroom
from web.api_client import build_client, create_key_header
from web.push_server import serve
from web.test_table_fields import form_of

READ = {
    "number": "R-1", "issued_on": "2026-02-04", "currency": "EUR", "supplier": "Acme",
    "net": "100.00", "vat": "19.00", "gross": "119.00", "iban": "DE02120300000000202051",
}  # fmt: skip
SUM, DIGITS = "net + vat = gross", "check digits of iban"
PASSED = [
    {"words": "kind: certainty 0.99", "passed": True, "is_severe": True},
    {"words": f"{SUM}: net + vat = 119.00, gross is 119.00", "passed": True, "is_severe": True},
    {"words": f"{DIGITS}: {READ['iban']}", "passed": True, "is_severe": True},
]


@pytest.fixture
def ask(owner, organization):
    """Ask a person about an invoice with these values and checks; return the ids of review and document."""

    async def ask(checks=PASSED, **read):
        fields = {name: {"value": value, "confidence": 0.9} for name, value in {**READ, **read}.items()}
        digest = sha256(str(fields).encode()).digest()
        await owner.execute(
            "INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, 1)", [organization, digest]
        )
        cursor = await owner.execute(
            """
            WITH document AS (
                INSERT INTO documents (organization_id, pipeline, kind, state, media_type, sha256)
                VALUES (%s, 'invoices', 'invoice', 'needs_review', 'application/pdf', %s)
                RETURNING organization_id, id
            ), arrival AS (
                INSERT INTO arrivals
                    (organization_id, document_id, source, sender, file_name, received_at)
                SELECT organization_id, id, 'gmail_push', 'ann@example.org', 'bill.pdf', '2026-02-05'
                FROM document
            ), extraction AS (
                INSERT INTO extractions (organization_id, document_id, kind, reader, fields, checks)
                SELECT organization_id, id, 'invoice', 'offline', %s, %s FROM document
            )
            INSERT INTO reviews (organization_id, document_id, reason)
            SELECT organization_id, id, 'number is uncertain (0.90)' FROM document RETURNING id, document_id
            """,
            [organization, digest, Jsonb(fields), Jsonb(checks)],
        )
        return await cursor.fetchone()

    return ask


@pytest.fixture
async def api(site, database, organization):
    async with build_client(site, await create_key_header(database, organization)) as client:
        yield client


@pytest.fixture
def overridden(owner):
    async def overridden():
        cursor = await owner.execute(
            "SELECT payload->'overridden_checks' FROM ledger WHERE event_type LIKE 'REVIEW_%%' ORDER BY id"
        )
        return [names for (names,) in await cursor.fetchall()]

    return overridden


def shown_checks(text):
    return re.findall(r'<li class="(?:good|bad|quiet)">(.*?)</li>', text)


async def test_wrong_sum_is_rejected_with_the_failed_check_until_it_is_overridden(api, ask, overridden):
    review, document = await ask()
    wrong = {"corrections": {"gross": "991.00"}}
    refused = await api.post(f"/reviews/{review}/confirm", json=wrong)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:postroom:problem:checks-failed")
    failed = [{"name": SUM, "words": "net + vat = 119.00, gross is 991.00"}]
    assert refused.json()["checks"] == failed
    assert "override" in refused.json()["detail"]
    assert (await api.get(f"/reviews/{review}")).json()["decision"] is None
    assert (await api.get(f"/documents/{document}")).json()["document"]["state"] == "needs_review"
    other = await api.post(f"/reviews/{review}/confirm", json={**wrong, "override": [DIGITS]})
    assert other.json()["checks"] == failed
    made = await api.post(f"/reviews/{review}/confirm", json={**wrong, "override": [SUM, DIGITS]})
    assert (made.status_code, made.json()["fields"]["gross"]) == (200, "991.00")
    assert await overridden() == [[SUM]]


async def test_document_has_the_checks_of_its_corrected_values(api, ask):
    review, document = await ask()
    address = f"/documents/{document}"
    as_read = (await api.get(address)).json()["extraction"]["checks"]
    assert [(check["name"], check["passed"]) for check in as_read] == [
        ("kind", True), (SUM, True), (DIGITS, True), ("plausible issued_on", True)
    ]  # fmt: skip
    wrong = {"corrections": {"gross": "991.00"}, "override": [SUM]}
    assert (await api.post(f"/reviews/{review}/confirm", json=wrong)).status_code == 200
    corrected = (await api.get(address)).json()["extraction"]["checks"]
    words = [(check["words"], check["passed"]) for check in corrected if check["name"] == SUM]
    assert words == [(f"{SUM}: net + vat = 119.00, gross is 991.00", False)]


async def test_page_shows_the_checks_of_the_entered_values_before_it_confirms(
    visitor, ask, owner, overridden
):
    _, document = await ask()
    page = (await visitor.get(f"/documents/{document}")).text
    assert 'name="override"' not in page
    form = {**form_of(page), "field-gross": "991.00", "field-iban": "DE02120300000000202052"}
    answer = await visitor.post(f"/documents/{document}/confirm", data=form)
    assert answer.status_code == 409
    checks = shown_checks(answer.text)
    assert "Failed: net + VAT = gross: net + VAT = 119.00, gross is 991.00" in checks
    assert "Failed: Check digits of “IBAN” DE02120300000000202052 are wrong" in checks
    assert "Passed: Document kind: invoice (99%)" in checks
    assert "Passed: “Issued”: 2026-02-04, received on 2026-02-05" in checks
    assert len(checks) == 4
    [beside] = re.findall(r'data-field="iban">(.*?)</div>', answer.text, re.DOTALL)
    assert '<p class="warn wrong">Check digits of “IBAN” DE02120300000000202052 are wrong</p>' in beside
    # Only one of them is corrected: what the box accepts are the checks that were shown.
    form = {**form_of(answer.text), "field-iban": READ["iban"]}
    assert form["field-gross"] == "991.00"
    assert form["override"].splitlines() == [SUM, DIGITS]
    assert await overridden() == []
    unticked = {name: value for name, value in form.items() if name != "override"}
    assert (await visitor.post(f"/documents/{document}/confirm", data=unticked)).status_code == 409
    assert (await visitor.post(f"/documents/{document}/confirm", data=form)).status_code == 303
    assert await overridden() == [[SUM]]
    [(fields,)] = await (await owner.execute("SELECT fields FROM records")).fetchall()
    assert (fields["gross"], fields["iban"]) == ("991.00", READ["iban"])
    ended = shown_checks((await visitor.get(f"/documents/{document}")).text)
    assert "Failed: net + VAT = gross: net + VAT = 119.00, gross is 991.00" in ended
    assert not [check for check in ended if check.startswith("Passed: net")]


async def test_ticked_box_does_not_cover_a_check_that_fails_only_now(visitor, ask, overridden):
    failed = [{"words": "title: “Quotation” looks like its title", "passed": False, "is_severe": True}]
    _, document = await ask([*PASSED, *failed])
    form = {**form_of((await visitor.get(f"/documents/{document}")).text), "field-gross": "991.00"}
    assert form["override"] == "title"
    answer = await visitor.post(f"/documents/{document}/confirm", data=form)
    assert (answer.status_code, await overridden()) == (409, [])
    assert form_of(answer.text)["override"].splitlines() == ["title", SUM]


async def test_a_credit_note_needs_negative_amounts_and_then_no_override(api, ask, overridden):
    words = "title: the title “Credit note” suggests another kind of document: amounts must be negative"
    title = {"name": "title", "words": words, "passed": False, "is_severe": True, "fields": ["gross"]}
    review, _ = await ask([*PASSED, {**title, "is_doubt": False}])
    positive = {"net": "101.00", "gross": "120.00"}
    refused = await api.post(f"/reviews/{review}/confirm", json={"corrections": positive})
    assert [check["name"] for check in refused.json()["checks"]] == ["title"]
    negative = {"net": "-100.00", "vat": "-19.00", "gross": "-119.00"}
    made = await api.post(f"/reviews/{review}/confirm", json={"corrections": negative})
    assert (made.status_code, await overridden()) == (200, [None])


async def test_correction_repairs_the_check_that_failed_as_read(api, ask, overridden):
    wrong = f"{SUM}: net + vat = 119.00, gross is 191.00"
    doubts = [
        "one reading of gross: it may also be 119",
        "both readers agree on gross: 191.00 is also read as 1",
    ]
    checks = [{"words": words, "passed": False, "is_severe": True} for words in (wrong, *doubts)]
    review, _ = await ask(checks, gross="191.00")
    refused = await api.post(f"/reviews/{review}/confirm", json={})
    assert [check["name"] for check in refused.json()["checks"]] == [SUM]
    right = await api.post(f"/reviews/{review}/confirm", json={"corrections": {"gross": "119.00"}})
    assert (right.status_code, await overridden()) == (200, [None])


async def test_doubts_about_the_reading_need_no_override(api, visitor, ask, overridden):
    doubts = ["kind: certainty 0.41", "one reading of number: it may also be only “1”"]
    checks = [{"words": words, "passed": False, "is_severe": True} for words in doubts]
    review, document = await ask(checks)
    assert 'name="override"' not in (await visitor.get(f"/documents/{document}")).text
    confirmed = await api.post(f"/reviews/{review}/confirm", json={})
    assert (confirmed.status_code, await overridden()) == (200, [None])


async def test_dates_in_the_wrong_order_and_an_emptied_field_are_checked(api, ask):
    review, _ = await ask()
    late = await api.post(f"/reviews/{review}/confirm", json={"corrections": {"due_on": "2026-01-31"}})
    assert late.json()["checks"] == [
        {"name": "issued_on before due_on", "words": "2026-02-04 and 2026-01-31"}
    ]
    emptied = await api.post(
        f"/reviews/{review}/confirm", json={"corrections": {"vat": None, "gross": "1.00"}}
    )
    assert emptied.status_code == 200, "without the tax there is no sum to check"


async def test_client_overrides_a_failed_check(site, database, organization, ask):
    review, _ = await ask()
    key = (await create_key_header(database, organization))["authorization"].removeprefix("Bearer ")
    async with serve(site) as url:
        import asyncio

        postroom = Postroom(url, key)

        def act():
            with pytest.raises(ApiError, match="net \\+ vat = gross") as refusal:
                postroom.confirm(review, {"gross": "1.00"})
            failed = refusal.value.checks
            assert refusal.value.kind == "checks-failed"
            assert failed == (FailedCheck(SUM, "net + vat = 119.00, gross is 1.00"),)
            override = [check.name for check in failed]
            assert postroom.confirm(review, {"gross": "1.00"}, override=override).fields["gross"] == "1.00"

        await asyncio.to_thread(act)


async def test_page_shows_a_failed_check_of_no_field(visitor, ask):
    several = {"words": "one invoice: 2 invoices? Pages 1-2,3 have the numbers R-1, R-2", "passed": False}
    _, document = await ask([*PASSED, several])
    shown = await visitor.get(f"/documents/{document}")
    assert shown.status_code == 200
    assert "2 invoices? Pages 1-2,3" in shown.text
