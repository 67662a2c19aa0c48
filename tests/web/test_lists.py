"""Lists that answer questions: business columns, filters in the URL, saved views, bulk decisions, exports."""

import csv
import json
import random
import re
from html import unescape
from io import BytesIO, StringIO
from zipfile import ZipFile

import psycopg
import pytest

from web.sign_in_support import create_session
from web.test_page_isolation import COOKIE
from web.test_review_checks import PASSED, SUM, api, ask

__all__ = ["api", "ask"]

FAILED = [{**check, "passed": not check["words"].startswith(SUM)} for check in PASSED]
FORMULA = '=HYPERLINK("http://tracker.invalid")'


def read_cells(page, label):
    """The texts of a column, from the top."""
    cells = re.findall(rf'<td data-label="{label}"[^>]*>(.*?)</td>', page, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in cells]


def read_headings(page):
    return re.findall(r'<th scope="row"><a href="[^"]+" class="cut wide" title="([^"]*)"', page)


@pytest.fixture
def confirm(api, ask):
    """A confirmed invoice with these values."""

    async def confirm(*override, **read):
        review, document = await ask(**read)
        made = await api.post(f"/reviews/{review}/confirm", json={"override": override})
        assert made.status_code == 200, made.text
        return made.json(), document

    return confirm


async def test_documents_are_listed_by_what_they_say(visitor, ask, confirm):
    await ask(number="R-7", gross="1019.50", net="856.72", vat="162.78", due_on="2026-03-01")
    await confirm(number="R-8", supplier="Zebra GmbH")
    await ask(number="R-9", gross="50.00", net="40.00", vat="10.00", currency="CHF")
    page = (await visitor.get("/documents?sort=amount")).text
    assert read_cells(page, "Number") == ["R-9", "R-8", "R-7"]
    assert read_cells(page, "Amount") == ["50.00 CHF", "119.00 EUR", "1,019.50 EUR"]
    assert read_cells(page, "Due") == ["\N{EN DASH}", "\N{EN DASH}", "2026-03-01"]
    assert "<title>Documents (3) · Postroom</title>" in page
    assert 'aria-sort="ascending"' in page
    # Only documents that need review are added up, by currency.
    totals = " ".join(re.sub(r"<[^>]+>", "", page[page.index("list-foot") :]).split())
    assert "Needs review: 50.00 CHF, 1,019.50 EUR (of all rows)" in totals
    assert read_cells((await visitor.get("/documents?sort=-supplier")).text, "Supplier")[0] == "Zebra GmbH"
    found = (await visitor.get("/documents?state=needs_review&min=100&due=overdue")).text
    assert read_cells(found, "Number") == ["R-7"]
    assert "Filter ignored" not in found
    rejected = (await visitor.get("/documents?min=1.000,50")).text
    assert "“Amount from” does not accept “1.000,50”. Enter a number such as 1234.50." in rejected


async def test_tabs_have_counts_only_if_no_other_filter_is_set(visitor, ask, confirm):
    await ask(number="R-7")
    await confirm(number="R-8")
    tabs = {}
    for query in ("", "?state=completed", "?q=R-8", "?state=completed&min=100"):
        page = (await visitor.get(f"/documents{query}")).text
        shown = re.search(r'<nav class="tabs".*?</nav>', page, re.DOTALL)[0]
        assert 'href="/documents' in shown
        tabs[query] = re.findall(r'class="count">(\d+)', shown)
    assert tabs[""][0] == "2"
    assert tabs["?state=completed"] == tabs[""]
    assert tabs["?q=R-8"] == tabs["?state=completed&min=100"] == []


async def test_unfiltered_list_is_counted_once(visitor, ask, monkeypatch):
    await ask(number="R-7")
    statements = []
    execute = psycopg.AsyncCursor.execute

    async def record(cursor, statement, *values, **options):
        statements.append(str(statement))
        return await execute(cursor, statement, *values, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", record)
    counted = {}
    for query in ("", "?state=needs_review"):
        statements.clear()
        page = (await visitor.get(f"/documents{query}")).text
        assert re.findall(r'class="count">(\d+)', page)[0] == "1"
        counted[query] = sum(each.count(") AS counted") for each in statements)
    # The list itself and each of the other tabs; with a tab chosen, also the first one.
    assert counted == {"": 2, "?state=needs_review": 3}


async def test_unnamed_suppliers_are_listed_with_an_identifier(visitor, owner, confirm):
    await confirm(number="R-1", supplier="Zebra GmbH", vat_id="DE136695976")
    await confirm(number="R-2", supplier="Yak AG", iban="DE02120300000000202051")
    await confirm(number="R-3", supplier="Xerus Ltd")
    await visitor.get("/suppliers")  # finds the supplier of each record
    await owner.execute("UPDATE records SET fields = fields - 'supplier'")
    await owner.execute("UPDATE records SET fields = fields - 'iban' WHERE fields->>'number' <> 'R-2'")
    await owner.execute("UPDATE records SET fields = fields - 'vat_id' WHERE fields->>'number' <> 'R-1'")
    page = (await visitor.get("/suppliers")).text
    assert read_headings(page) == ["Unnamed supplier"] * 3
    assert sorted(re.findall(r'<span class="second cut wide"><bdi>(.*?)</bdi>', page)) == [
        "IBAN …2051",
        "VAT ID DE136695976",
        "from ann@example.org",
    ]


@pytest.mark.parametrize("words", ["bil", "zeb", "R-8", "ann@example.org", "bill.pdf"])
async def test_search_finds_the_beginnings_of_words_and_file_names(visitor, confirm, words):
    await confirm(number="R-8", supplier="Zebra GmbH")
    for path in ("/documents", "/records"):
        assert len(read_headings((await visitor.get(path, params={"q": words})).text)) == 1, path
    assert "/documents/" in (await visitor.get("/search", params={"q": words})).text
    assert read_headings((await visitor.get("/documents", params={"q": "ebra"})).text) == []


async def test_purged_file_name_is_no_longer_found(visitor, owner, ask):
    await ask()
    await owner.execute("UPDATE arrivals SET file_name = NULL, sender = NULL, subject = NULL")
    page = (await visitor.get("/documents", params={"q": "bill"})).text
    assert "Nothing matches these filters" in page


async def test_pages_of_a_list_show_every_row_once_in_both_directions(visitor, owner, organization):
    await owner.execute(
        """
        INSERT INTO records (organization_id, kind, pipeline, fingerprint, key, fields, confirmed_by)
        SELECT %s, 'invoice', 'invoices', sha256(n::text::bytea), 'K-' || n,
            jsonb_build_object('number', 'N' || n %% 40, 'supplier', 'S' || n %% 7)
                || CASE WHEN n %% 3 = 0 THEN '{}' ELSE jsonb_build_object('gross', (n %% 11)::text,
                    'issued_on', '2026-01-' || to_char(n %% 28 + 1, 'FM00')) END, 'postroom'
        FROM generate_series(1, 120) AS n
        """,
        [organization],
    )
    for sort in ("confirmed", "name", "number", "date", "due", "amount"):
        for direction in ("", "-"):
            shown, path = [], f"/records?sort={direction}{sort}"
            for _ in range(3):
                page = (await visitor.get(path)).text
                shown += re.findall(r'<tr id="record-([^"]+)"', page)
                following = re.search(r'href="([^"]+)" rel="next"', page)
                path = unescape(following[1]) if following else None
            assert path is None
            assert len(shown) == len(set(shown)) == 120, sort


async def test_count_of_a_long_list_is_an_estimate(visitor, owner, organization):
    await owner.execute(
        """
        INSERT INTO orders (organization_id, kind, reference, fields)
        SELECT %s, 'invoice', 'O-' || n, '{"gross": "10.00", "currency": "EUR"}'
        FROM generate_series(1, 1200) AS n
        """,
        [organization],
    )
    await owner.execute("ANALYZE orders")
    page = (await visitor.get("/orders")).text
    assert "About 1,200 orders" in page
    assert '<span class="count">1,000+</span>' in page
    assert len(read_headings(page)) == 50


async def test_member_saves_and_removes_a_view(visitor, database, organization, ask):
    await ask()
    query = "state=needs_review&sort=amount"
    saved = await visitor.post("/documents/views", data={"name": "Small ones", "query": f"{query}&bad=1"})
    assert saved.headers["location"] == f"/documents?{query}"
    page = (await visitor.get("/documents")).text
    assert f'href="/documents?{query.replace("&", "&amp;")}"' in page
    own = visitor.cookies
    visitor.cookies = {COOKIE: await create_session(database, organization, address="bob@example.com")}
    assert "Small ones" not in (await visitor.get("/documents")).text
    view = re.search(r"/views/([^/]+)/remove", page)[1]
    assert (await visitor.post(f"/views/{view}/remove")).status_code == 404
    visitor.cookies = own
    assert (await visitor.post(f"/views/{view}/remove")).status_code == 303
    assert "Small ones" not in (await visitor.get("/documents")).text


async def decide(visitor, action, *documents):
    answer = await visitor.post(
        "/documents/bulk", data={"action": action, **{f"document-{each}": "on" for each in documents}}
    )
    assert answer.status_code == 200
    return answer.text


async def test_bulk_decides_each_document_by_itself(visitor, owner, ask):
    _, right = await ask(number="R-1")
    _, wrong = await ask(FAILED, number="R-2", net="90.00")
    _, broken = await ask(number="R-3")
    page = await decide(visitor, "confirm", right, wrong)
    assert "1 of 2 confirmed" in page
    assert "Failed checks: net + VAT = gross" in page
    cursor = await owner.execute("SELECT id, state FROM documents")
    states = dict(await cursor.fetchall())
    assert (states[right], states[wrong]) == ("completed", "needs_review")
    page = await decide(visitor, "dismiss", wrong)
    assert "0 of 1 dismissed" in page
    assert "Only failed documents can be dismissed; the state of this one is “needs review”." in page
    assert "1 of 1 rejected" in await decide(visitor, "reject", wrong)
    await owner.execute("UPDATE documents SET state = 'failed' WHERE id = %s", [broken])
    assert "1 of 1 dismissed" in await decide(visitor, "dismiss", broken)
    assert "1 of 1 queued again" in await decide(visitor, "retry", broken)
    assert (await visitor.post("/documents/bulk", data={"action": "burn"})).status_code == 400


async def test_export_has_exactly_the_shown_rows_and_no_formula(visitor, confirm):
    await confirm(number="R-1", supplier=FORMULA)
    await confirm(number="R-2", net="-100.00", vat="-19.00", gross="-119.00")
    await confirm(number="R-3", currency="CHF")
    path = "/records/export?max=119.00&sort=number"
    rows = list(csv.DictReader(StringIO((await visitor.get(f"{path}&format=csv")).text.lstrip("\ufeff"))))
    assert [row["Number"] for row in rows] == ["R-1", "R-2", "R-3"]
    assert rows[0]["Supplier"] == f"'{FORMULA}"
    assert rows[1]["Amount"] == "-119.00"
    found = json.loads((await visitor.get("/records/export?q=R-2&format=json")).text)
    assert [(row["number"], row["amount"], row["currency"]) for row in found] == [("R-2", "-119.00", "EUR")]
    book = ZipFile(BytesIO((await visitor.get(f"{path}&format=xlsx")).content))
    sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "<v>-119</v>" in sheet
    assert "HYPERLINK" in book.read("xl/sharedStrings.xml").decode()
    assert (await visitor.get(f"{path}&format=parquet")).content[:4] == b"PAR1"
    assert (await visitor.get(f"{path}&format=exe")).status_code == 404


async def test_supplier_has_all_records_that_share_its_name_or_vat_id(visitor, owner, confirm):
    vat_id = "DE136695976"
    await confirm(number="R-2", supplier="Zebra Gesellschaft mbH", vat_id=vat_id)
    await confirm(number="R-3", supplier="ZEBRA GMBH", iban="DE75512108001245126199")
    # Only this one shows that the two before are of one supplier.
    one, _ = await confirm("known iban", number="R-1", supplier="Zebra GmbH", vat_id=vat_id)
    await confirm(number="R-4", supplier="Other AG")

    async def read():
        page = (await visitor.get("/suppliers?sort=-records")).text
        return read_headings(page), read_cells(page, "Records")

    assert await read() == (["Zebra GmbH", "Other AG"], ["3", "1"])
    record = (await visitor.get(f"/records/{one['id']}")).text
    page = (await visitor.get(re.search(r"/suppliers/[0-9a-f-]{36}", record)[0])).text
    for text in ("Zebra Gesellschaft mbH", vat_id, "DE75512108001245126199", "R-1"):
        assert text in page
    all_of_them = re.search(r'href="(/records\?supplier=[^"]+)"', page)[1]
    assert len(read_headings((await visitor.get(all_of_them)).text)) == 3
    # Records of an earlier version have none yet.
    await owner.execute("UPDATE records SET supplier_id = NULL, supplier_pending = true")
    assert await read() == (["Zebra GmbH", "Other AG"], ["3", "1"])


async def test_record_page_shows_its_life(visitor, api, confirm):
    record, document = await confirm()
    change = {"corrections": {"number": "R-99"}, "reason": "misread"}
    await api.post("/webhooks", json={"url": "https://127.0.0.1:9/hooks"})
    done = await api.post(f"/records/{record['id']}/correct", json=change)
    assert done.status_code == 200, done.text
    page = (await visitor.get(f"/records/{record['id']}")).text
    for text in (f"/documents/{document}", "<del><bdi>R-1</bdi></del> <ins><bdi>R-99</bdi></ins>", "misread",
                 "Review confirmed", "Record corrected", "waiting to", "no webhook receives it",
                 "gross is 119.00"):  # fmt: skip
        assert text in page, text


async def test_order_page_links_and_unlinks_a_record(visitor, api, confirm):
    record, _ = await confirm()
    ordered = {"reference": "O-1", "fields": {"supplier": "Acme", "gross": "500.00"}}
    await api.post("/orders", json={"kind": "invoice", "orders": [ordered]})
    [order] = (await api.get("/orders")).json()["data"]
    path = f"/orders/{order['id']}"
    page = (await visitor.get(path)).text
    assert "Differs" in page
    done = await visitor.post(f"{path}/link", data={"record": record["id"]})
    assert (done.status_code, done.headers["location"]) == (303, path)
    assert (await api.get(f"/records/{record['id']}")).json()["order_reference"] == "O-1"
    assert "Matched record" in (await visitor.get(path)).text
    refused = await visitor.post(f"{path}/close")
    assert (refused.status_code, "Only an open order can be closed" in refused.text) == (409, True)
    assert (await visitor.post(f"{path}/unlink")).status_code == 303
    assert (await visitor.post(f"{path}/close")).status_code == 303
    assert (await api.get(f"/orders/{order['id']}")).json()["state"] == "closed"


async def test_direction_of_an_order_reads_as_in_the_list(visitor, api):
    ordered = {"reference": "O-1", "fields": {"isin": "US0378331005", "direction": "buy"}}
    await api.post("/orders", json={"kind": "contract-note", "orders": [ordered]})
    [order] = (await api.get("/orders")).json()["data"]
    page = (await visitor.get(f"/orders/{order['id']}")).text
    assert "<dt>Buy or sell</dt><dd><bdi>Buy</bdi></dd>" in page
    assert read_cells((await visitor.get("/orders?kind=contract-note")).text, "Side") == ["Buy"]


async def test_filter_by_supplier_is_named_and_can_be_removed(visitor, confirm):
    await confirm(number="R-1", supplier="Zebra GmbH")
    await confirm(number="R-2", supplier="Acme Ltd", vat_id="GB980780684")
    page = (await visitor.get("/suppliers")).text
    supplier = re.search(r'href="/suppliers/([0-9a-f-]{36})"[^>]*title="Zebra GmbH"', page)[1]
    page = (await visitor.get(f"/records?kind=invoice&supplier={supplier}")).text
    assert read_cells(page, "Number") == ["R-1"]
    chip = re.search(r'<span class="view">(Supplier: .*?)</span>', page)[1]
    assert "<bdi>Zebra GmbH</bdi>" in chip
    rest = (await visitor.get(re.search(r'href="([^"]+)"', chip)[1])).text
    assert sorted(read_cells(rest, "Number")) == ["R-1", "R-2"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
async def test_page_imports_orders_and_names_invalid_lines(visitor, api, delimiter):
    lines = ["reference,supplier,gross", "O-1,Acme,119.00", "O-2,Acme,many"]
    form = {"kind": "invoice", "orders": "\n".join(lines).replace(",", delimiter)}
    refused = await visitor.post("/orders/import", data=form)
    assert refused.status_code == 400
    assert "The list, line 3: gross must be" in refused.text
    assert "many</textarea>" in refused.text
    assert "vat_rates" not in refused.text  # a table, which an order cannot contain
    assert (await api.get("/orders")).json()["data"] == []
    form["orders"] = form["orders"].replace("many", "20.00")
    done = await visitor.post("/orders/import", data=form)
    assert done.status_code == 303
    page = (await visitor.get(done.headers["location"])).text
    assert "2 new, 0 updated, 0 unchanged." in page
    page = (await visitor.get("/orders?new=many&updated=0&unchanged=0")).text
    assert "Import complete" not in page
    form["orders"] = form["orders"].replace("119.00", "129.00")
    changed = await visitor.post("/orders/import", data=form)
    page = (await visitor.get(changed.headers["location"])).text
    assert "0 new, 1 updated, 1 unchanged." in page
    assert len(read_headings(page)) == 2
    listed = (await api.get("/orders")).json()["data"]
    assert {each["reference"]: each["fields"]["gross"] for each in listed} == {
        "O-1": "129.00",
        "O-2": "20.00",
    }
    assert (await visitor.post("/orders/import", data={**form, "kind": "bond"})).status_code == 400


async def test_long_list_of_orders_is_rejected_before_all_of_it_is_parsed(visitor, api, monkeypatch):
    monkeypatch.setattr("postroom.web.orders.MAX_IMPORT_ORDERS", 2)
    lines = ["reference", "O-1", "O-2", "O-3", '"']
    form = {"kind": "invoice", "orders": "\n".join(lines)}
    refused = await visitor.post("/orders/import", data=form)
    assert (refused.status_code, "more than 2 orders" in refused.text) == (400, True)
    form["orders"] = "\n".join(lines[:3])
    assert (await visitor.post("/orders/import", data=form)).status_code == 303


async def test_references_are_as_long_as_an_index_takes(api):
    dice = random.Random(1)
    reference = "".join(chr(dice.randrange(0x20000, 0x2A000)) for _ in range(501))
    orders = [{"reference": reference, "fields": {}}]
    refused = await api.post("/orders", json={"kind": "invoice", "orders": orders})
    assert (refused.status_code, "at most 500 characters" in refused.text) == (409, True)
    orders = [{"reference": reference[1:], "fields": {}}]
    assert (await api.post("/orders", json={"kind": "invoice", "orders": orders})).json()["new"] == 1


async def test_number_of_open_orders_of_a_kind_is_limited(api, monkeypatch):
    monkeypatch.setattr("postroom.flow.documents.orders.MAX_OPEN_ORDERS", 2)

    async def add(*references, kind="invoice", **fields):
        orders = [{"reference": each, "fields": fields} for each in references]
        return await api.post("/orders", json={"kind": kind, "orders": orders})

    assert (await add("O-1", "O-2")).status_code == 200
    refused = await add("O-3")
    assert (refused.status_code, "at most 2 open orders" in refused.text) == (409, True)
    assert (await add("O-1", currency="EUR")).json()["changed"] == 1
    assert (await add("T-1", kind="contract-note")).json()["new"] == 1
    listed = (await api.get("/orders")).json()["data"]
    assert {each["reference"] for each in listed} == {"O-1", "O-2", "T-1"}
    [second] = [each for each in listed if each["reference"] == "O-2"]
    assert (await api.post(f"/orders/{second['id']}/close")).status_code == 200
    assert (await add("O-3")).json()["new"] == 1


async def test_trades_have_columns_of_their_own(visitor, owner, organization):
    await owner.execute(
        """
        INSERT INTO records (organization_id, kind, pipeline, fingerprint, key, confirmed_by, fields)
        VALUES (%s, 'contract-note', 'contract-notes', sha256('1'), 'K', 'postroom', '{"isin": "US0378331005",
            "direction": "buy", "quantity": "1000.00", "price": "47.694", "net": "47694.00",
            "currency": "USD", "trade_date": "2026-02-04", "broker": "Tarnbrook"}')
        """,
        [organization],
    )
    page = (await visitor.get("/records?kind=contract-note")).text
    labels = ("ISIN", "Side", "Quantity", "Price", "Net", "Trade date", "Bank or broker")
    assert [read_cells(page, label)[0] for label in labels] == [
        "US0378331005", "Buy", "1,000", "47.694", "47,694.00 USD", "2026-02-04", "Tarnbrook"
    ]  # fmt: skip
    assert 'Bought: <span class="total"><strong>47,694.00</strong> USD' in page
    await owner.execute("UPDATE records SET fields = fields - 'broker'")
    mixed = (await visitor.get("/records")).text
    assert read_headings(mixed) == ["Unnamed broker"]
    assert "US0378331005" in mixed


async def test_api_has_the_filters_of_the_pages(api, ask, confirm):
    await ask(number="R-7", gross="1019.50", net="856.72", vat="162.78", due_on="2026-03-01")
    zebra, _ = await confirm(number="R-8", supplier="Zebra GmbH")
    acme, _ = await confirm(number="R-9", gross="50.00", net="40.00", vat="10.00", issued_on="2026-01-31")

    async def find(path, **params):
        answer = await api.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    documents = await find("/documents", min="100", due="overdue", state="needs_review")
    assert len(documents["data"]) == 1
    assert len((await find("/documents", q="zeb"))["data"]) == 1
    assert len((await find("/documents", sort="amount"))["data"]) == 3
    by_amount = await find("/records", sort="-amount", limit=1)
    assert [record["id"] for record in by_amount["data"]] == [zebra["id"]]
    following = await find("/records", sort="-amount", cursor=by_amount["next"])
    assert ([record["id"] for record in following["data"]], following["next"]) == ([acme["id"]], None)
    until = await find("/records", until="2026-01-31")
    assert [record["fields"]["number"] for record in until["data"]] == ["R-9"]
    assert (await find("/records", order="linked"))["data"] == []
    [supplier] = (await find("/suppliers", q="zebra"))["data"]
    assert (supplier["name"], supplier["records"]) == ("Zebra GmbH", 1)
    of_supplier = await find("/records", supplier=supplier["id"])
    assert [record["id"] for record in of_supplier["data"]] == [zebra["id"]]
    assert "`sort` must be one of" in (await api.get("/records?sort=colour")).json()["detail"]
