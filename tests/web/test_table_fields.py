"""D8: tables that were read wrongly can be corrected, on the page and by the API."""

import re
from hashlib import sha256

import pytest
from psycopg.types.json import Jsonb

from web.api_client import build_client, create_key_header

LINES = [
    {"description": "Bolts\nM8", "quantity": "10", "unit_price": "5.00", "amount": "50.00"},
    {"description": "Nuts", "quantity": None, "unit_price": None, "amount": "50.00"},
]
READ = {
    "number": "R-1", "issued_on": "2026-02-04", "gross": "119.00", "currency": "EUR", "supplier": "Acme",
    "vat_rates": [{"rate": "19", "net": "100.00", "vat": "19.00"}], "lines": LINES,
}  # fmt: skip


@pytest.fixture
async def asked(owner, organization):
    """The review and the document of an invoice that waits for a person."""
    digest = sha256(b"bill").digest()
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
            INSERT INTO extractions (organization_id, document_id, kind, reader, fields, layout)
            SELECT organization_id, id, 'invoice', 'offline', %s, 'x' FROM document
        )
        INSERT INTO reviews (organization_id, document_id, reason)
        SELECT organization_id, id, 'the lines are not sure' FROM document RETURNING id, document_id
        """,
        [
            organization,
            digest,
            Jsonb({name: {"value": value, "confidence": 0.9} for name, value in READ.items()}),
        ],
    )
    return await cursor.fetchone()


@pytest.fixture
def kept(owner):
    async def kept():
        cursor = await owner.execute("SELECT fields FROM records")
        rows = await cursor.fetchall()
        return rows[0][0] if rows else None

    return kept


def form_of(text):
    """What a browser would send for the form as it is shown."""
    start = text.index('id="fields"')
    form = text[start : text.index("</form>", start)]
    given = {}
    for each in re.findall(r"<input [^>]+>", form):
        name, value = re.search(r'name="([^"]+)"', each)[1], re.search(r'value="([^"]*)"', each)
        given[name] = value[1] if value else ""
    return given


async def test_untouched_table_is_confirmed_as_extracted(visitor, asked, kept):
    _, document = asked
    form = form_of((await visitor.get(f"/documents/{document}")).text)
    assert form["cell-lines-0-description"] == "Bolts M8"
    answer = await visitor.post(f"/documents/{document}/confirm", data=form)
    assert answer.status_code == 303, answer.text
    assert (await kept())["lines"] == LINES
    assert "Confirmed by" in (await visitor.get(f"/documents/{document}")).text


async def test_table_rows_are_changed_added_and_removed(visitor, asked, kept, owner):
    _, document = asked
    form = form_of((await visitor.get(f"/documents/{document}")).text)
    form |= {"cell-lines-0-amount": "40.00", "cell-lines-0-unit_price": "4.00"}
    form = {name: value for name, value in form.items() if not name.startswith("cell-lines-1-")}
    form |= {"cell-lines-7-description": " Washers ", "cell-lines-7-amount": "60.00"}
    form["cell-vat_rates-0-rate"] = form["cell-vat_rates-0-net"] = form["cell-vat_rates-0-vat"] = ""
    answer = await visitor.post(f"/documents/{document}/confirm", data=form)
    assert answer.status_code == 303, answer.text
    fields = await kept()
    assert fields["lines"] == [
        {"description": "Bolts\nM8", "quantity": "10", "unit_price": "4.00", "amount": "40.00"},
        {"description": "Washers", "quantity": None, "unit_price": None, "amount": "60.00"},
    ]
    shown = (await visitor.get(f"/documents/{document}")).text
    assert ">Washers</td>" in shown
    assert ">40.00</td>" in shown
    assert shown.count(">Corrected</span>") == 2
    assert "vat_rates" not in fields, "an emptied table says that the document tells none"
    cursor = await owner.execute("SELECT field, read_value, right_value FROM corrections ORDER BY field")
    assert [row[:2] for row in await cursor.fetchall()] == [
        ("lines", LINES),
        ("vat_rates", READ["vat_rates"]),
    ]


async def test_correction_shows_actor_time_and_extracted_value(visitor, asked, owner):
    _, document = asked
    noted = {"words": "check digits of vat_id: CHE1", "passed": False, "is_severe": False}
    failed = {"words": "sum: 1 is not 2", "passed": False, "is_severe": True}
    await owner.execute("UPDATE extractions SET checks = %s", [Jsonb([noted, failed])])
    form = form_of((await visitor.get(f"/documents/{document}")).text)
    read = form["field-number"]
    form |= {"field-number": "R-<2>", "cell-lines-0-amount": "40.00"}
    answer = await visitor.post(f"/documents/{document}/confirm", data=form)
    assert answer.status_code == 303, answer.text
    shown = (await visitor.get(f"/documents/{document}")).text
    assert 'value="R-&lt;2&gt;"' in shown
    corrections = re.findall(
        r'was">Corrected by (\S+) <time datetime="([^"]+)".*?</time>. Originally: <bdi>(.*?)<', shown
    )
    assert sorted(former for *_, former in corrections) == sorted([read, f"{len(LINES)} rows"])
    [(actor, moment)] = await (await owner.execute("SELECT actor_id, decided_at FROM reviews")).fetchall()
    [(address,)] = await (await owner.execute("SELECT address FROM members")).fetchall()
    assert actor.startswith("member:")
    assert {(who, when) for who, when, _ in corrections} == {(address, moment.isoformat())}
    assert "Warning: Check digits of “VAT ID” CHE1 are wrong" in shown
    assert "Failed: sum" in shown


@pytest.mark.parametrize(
    "column, typed, start",
    [
        ("amount", "forty", "“Amount” in row 2 of “Line items” "),
        ("amount", "", "“Amount” in row 2 of “Line items” "),
        ("unit_price", "1,5", "“Unit price” in row 2 of “Line items” "),
    ],
)
async def test_invalid_cell_is_explained_and_input_is_kept(column, typed, start, visitor, asked, kept):
    _, document = asked
    form = form_of((await visitor.get(f"/documents/{document}")).text)
    form = {name: value for name, value in form.items() if not name.startswith("cell-lines-0-")}
    form |= {"cell-lines-5-description": "Washers", "cell-lines-5-amount": "60.00", "field-number": "R-2"}
    form |= {f"cell-lines-5-{column}": typed}
    answer = await visitor.post(f"/documents/{document}/confirm", data=form)
    assert answer.status_code == 409
    assert await kept() is None
    blamed = re.search(r"<input [^>]+aria-invalid[^>]+>", answer.text)[0]
    assert f'name="cell-lines-5-{column}"' in blamed
    assert "autofocus" in blamed
    problem = re.search(r'id="problem-lines">([^<]+)<', answer.text)[1]
    assert problem.startswith(start)
    assert typed in problem
    again = form_of(answer.text)
    assert {name: again.get(name, "") for name, value in form.items()} == form
    assert not any(name.startswith("cell-lines-0-") for name in again)
    mended = again | {f"cell-lines-5-{column}": "1.5"}
    assert (await visitor.post(f"/documents/{document}/confirm", data=mended)).status_code == 303
    assert (await kept())["lines"][1]["description"] == "Washers"


async def test_api_corrects_tables(site, database, organization, asked, kept):
    review, _ = asked
    headers = await create_key_header(database, organization)
    rates = [{"rate": "19", "net": "90.00", "vat": "17.10"}, {"rate": "7", "net": None, "vat": "0.70"}]
    async with build_client(site, headers) as program:
        for wrong, words in (
            ([{"rate": "a fifth", "vat": "1"}], "rate in row 1 of vat_rates must be a number"),
            ([{"rate": "19"}], "vat in row 1 of vat_rates is required"),
            ([{"colour": "red"}], "vat_rates has no column colour"),
            ("garbage", "vat_rates is a table"),
        ):
            refused = await program.post(
                f"/reviews/{review}/confirm", json={"corrections": {"vat_rates": wrong}}
            )
            assert (refused.status_code, words in refused.json()["detail"]) == (409, True), refused.text
        no_table = await program.post(f"/reviews/{review}/confirm", json={"corrections": {"gross": rates}})
        assert "gross is not a table" in no_table.json()["detail"]
        body = {"corrections": {"vat_rates": rates, "lines": []}}
        done = await program.post(f"/reviews/{review}/confirm", json=body)
        assert done.status_code == 200, done.text
    fields = await kept()
    assert (fields["vat_rates"], "lines" in fields) == (rates, False)
