"""Lists and their pages in a real browser: a trade clerk links notes to orders, an accounts clerk selects."""

import re
from hashlib import sha256

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect
from psycopg.types.json import Jsonb

from browsers import needs_browser
from postroom.model import OrganizationId
from web.sign_in_support import ORGANIZATION
from web.test_pages_browser import browsing

pytestmark = needs_browser
ISINS = ("US0378331005", "DE0007164600", "FR0000120271")


@pytest.fixture
async def notes(owner):
    """Three confirmed contract notes, and an order for each with another quantity; one note waits."""
    organization = OrganizationId(ORGANIZATION)
    await owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'x') ON CONFLICT DO NOTHING", [organization]
    )
    for number, isin in enumerate((*ISINS, "US5949181045")):
        fields = {
            "isin": isin, "direction": "buy", "quantity": "100", "trade_date": "2026-02-04",
            "currency": "EUR",
            "net": f"{number + 1}000.00", "number": f"N-{number}", "broker": "Tarnbrook",
        }  # fmt: skip
        read = {name: {"value": value, "confidence": 0.9} for name, value in fields.items()}
        is_confirmed = isin in ISINS
        values = {
            "organization": organization, "digest": sha256(isin.encode()).digest(), "fields": Jsonb(fields),
            "read": Jsonb(read), "state": "completed" if is_confirmed else "needs_review", "isin": isin,
            "ordered": Jsonb({**fields, "quantity": "150", "net": ""}), "is_confirmed": is_confirmed,
        }  # fmt: skip
        await owner.execute(
            """
            WITH blob AS (
                INSERT INTO blobs (organization_id, sha256, size) VALUES (%(organization)s, %(digest)s, 1)
            ), record AS (
                INSERT INTO records (organization_id, kind, pipeline, fingerprint, key, fields, confirmed_by)
                SELECT %(organization)s, 'contract-note', 'contract-notes', %(digest)s, %(isin)s, %(fields)s,
                    'postroom' WHERE %(is_confirmed)s RETURNING id
            ), document AS (
                INSERT INTO documents (organization_id, pipeline, kind, state, media_type, sha256, record_id)
                SELECT %(organization)s, 'contract-notes', 'contract-note', %(state)s, 'application/pdf',
                    %(digest)s, (SELECT id FROM record) RETURNING id
            ), arrival AS (
                INSERT INTO arrivals (organization_id, document_id, source, sender, file_name)
                SELECT %(organization)s, id, 'manual_upload', 'ann@example.org', %(isin)s || '.pdf'
                FROM document
            ), review AS (
                INSERT INTO reviews (organization_id, document_id, reason)
                SELECT %(organization)s, id, 'quantity is uncertain (0.90)' FROM document
                WHERE NOT %(is_confirmed)s
            ), placed AS (
                INSERT INTO orders (organization_id, kind, reference, fields)
                SELECT %(organization)s, 'contract-note', 'O-' || %(isin)s, %(ordered)s
                WHERE %(is_confirmed)s
            )
            INSERT INTO extractions (organization_id, document_id, kind, reader, fields)
            SELECT %(organization)s, id, 'contract-note', 'offline', %(read)s FROM document
            """,
            values,
        )


@pytest.mark.parametrize("width, scheme", [(1280, "light"), (390, "dark")])
async def test_trade_clerk_links_three_notes_to_orders(width, scheme, notes, owner, database_url, tmp_path):
    look = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    async with browsing(database_url, tmp_path, **look) as (page, _, complaints):
        for isin in ISINS:
            await page.goto("/orders?kind=contract-note&state=open")
            await page.get_by_role("link", name=f"O-{isin}").click()
            # The same broker has other notes; the one that agrees most is the first.
            best = page.locator("article").first
            await expect(best.get_by_role("row", name=re.compile("Quantity"))).to_contain_text("150")
            await expect(best.get_by_role("row", name=re.compile("ISIN"))).to_contain_text("Yes")
            comparison = best.locator(".scroll")  # each column is in view, also the one that says Yes or No
            assert await comparison.evaluate("each => each.scrollWidth <= each.clientWidth")
            await best.get_by_role("button", name="Link to this record").click()
            await expect(page.get_by_role("heading", name="Matched record")).to_be_visible()
        await page.goto("/records?kind=contract-note&order=linked")
        await expect(page.locator("tbody tr")).to_have_count(3)
        await expect(page.locator(".list-foot")).to_contain_text("Bought: 6,000.00 EUR")
        await page.locator("tbody th a").first.click()
        await expect(page.get_by_role("link", name=re.compile("Order O-"))).to_be_visible()
        found = (await Axe().run(page)).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert complaints == []
    cursor = await owner.execute("SELECT count(*) FROM orders WHERE state = 'matched'")
    assert await cursor.fetchone() == (3,)


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_list_cuts_no_text_that_has_room(width, notes, owner, database_url, tmp_path):
    await owner.execute("UPDATE documents SET supplier = 'Zahnrad Werke AG', amount = 1234567.89")
    await owner.execute("UPDATE arrivals SET file_name = 'Wertpapierabrechnung_76045.pdf'")
    async with browsing(database_url, tmp_path, viewport={"width": width, "height": 800}) as (page, _, _):
        await page.goto("/documents")
        cut = """
            elements => elements.filter(each => each.scrollWidth > each.clientWidth + 1)
                .map(each => each.textContent)
        """
        assert await page.locator(".list tbody :is(th, td), .list tbody th .cut").evaluate_all(cut) == []
        assert await page.locator(".list tbody .plain-text .cut").evaluate_all(cut) == []
        assert await page.locator(".list tbody .second").evaluate_all(cut) == []


async def test_a_phone_sorts_a_list_and_selects_all_its_rows(notes, owner, database_url, tmp_path):
    async with browsing(database_url, tmp_path, viewport={"width": 390, "height": 844}) as (page, _, _):
        await page.goto("/documents")
        await page.get_by_role("link", name="Amount").click()
        await expect(page).to_have_url(re.compile(r"sort=-amount"))
        await page.get_by_label("Select all rows of this page").check()
        await expect(page.locator("[data-select]:checked")).to_have_count(4)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_the_title_of_a_list_counts_rows_that_arrive(notes, owner, database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, _):
        await page.goto("/documents")
        await expect(page).to_have_title(re.compile(r"Documents \(\d+\)"))
        await owner.execute("UPDATE documents SET state = 'skipped'")
        await page.evaluate("changed()")
        await expect(page).to_have_title(re.compile(r"Documents \(0\)"))


async def test_the_title_of_the_overview_counts_what_needs_attention(notes, owner, database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, _):
        await page.goto("/")
        await expect(page).to_have_title("(1) Overview · Postroom")
        await owner.execute("UPDATE documents SET state = 'skipped'")
        await expect(page).to_have_title("Overview · Postroom")


async def test_clerk_filters_selects_rejects_and_saves_a_view(notes, database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        await page.goto("/documents")
        await page.keyboard.press("/")
        await page.keyboard.type("US59")
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.get_by_text("Save view").click()
        await page.get_by_label("Name of the view").fill("Microsoft")
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_role("link", name="Microsoft").click()
        await page.get_by_label("Select US5949181045.pdf").check()
        await page.evaluate("changed()")  # a reload of the rows keeps the selection
        await expect(page.locator("[data-selected]:visible")).to_have_text("1 document")
        found = (await Axe().run(page)).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        await page.get_by_role("button", name="Reject").click()
        await expect(page.get_by_role("heading", name="1 of 1 rejected")).to_be_visible()
        assert complaints == []
