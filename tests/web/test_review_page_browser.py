"""The review page in a real browser: decisions by keyboard alone, viewer, checks while typing, uploads."""

import json
import re
from base64 import b64decode
from statistics import median

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from browsers import needs_browser
from documents.files.sample_files import pdf
from postroom.model import OrganizationId
from web.sign_in_support import ORGANIZATION
from web.test_pages_browser import browsing
from web.test_review_checks import ask

__all__ = ["ask"]
pytestmark = needs_browser
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}}
RIGHT_GROSS = "119.00"
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
# Words of the only page, as a transcript stores them: text, page, line, edges in thousandths.
WORDS = [
    ["Rechnung", 0, 0, 100, 100, 220, 120],
    ["Datum", 0, 1, 100, 140, 180, 160],
    ["04.02.2026", 0, 1, 200, 140, 340, 160],
    ["Betrag", 0, 2, 100, 180, 190, 200],
    ["1.190,00", 0, 2, 200, 180, 320, 200],
]


@pytest.fixture
async def organization(owner):
    """The organization of the web process."""
    await owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'x') ON CONFLICT DO NOTHING", [ORGANIZATION]
    )
    return OrganizationId(ORGANIZATION)


@pytest.fixture
def queue(ask, owner, organization):
    """Ask about invoices of which two fields are doubtful; of every three, one has a wrong total."""

    async def queue(count):
        documents = []
        for number in range(1, count + 1):
            _, document = await ask(number=f"R-{number}", gross="191.00" if number % 3 == 2 else RIGHT_GROSS)
            documents.append(document)
        await owner.execute(
            """
            UPDATE extractions SET fields = (SELECT jsonb_object_agg(name, value || jsonb_build_object(
                'confidence', CASE WHEN name IN ('supplier', 'iban') THEN 0.9 ELSE 0.99 END))
                FROM jsonb_each(fields) AS field (name, value))
            """
        )
        await owner.execute(
            """
            UPDATE extractions SET checks = jsonb_build_array(jsonb_build_object('name', 'net + vat = gross',
                'words', 'net + vat = gross: net + vat = 119.00, gross is 191.00', 'passed', false,
                'is_severe', true, 'fields', '["net", "vat", "gross"]'::jsonb, 'is_doubt', false))
            WHERE fields->'gross'->>'value' = '191.00'
            """
        )
        return documents

    return queue


class Clerk:
    """A person without a mouse: looks at the page and presses keys, which are counted."""

    def __init__(self, page):
        self.page, self.pressed = page, 0

    async def press(self, *keys):
        for key in keys:
            self.pressed += 1
            await self.page.keyboard.press(key)

    async def focused(self):
        return await self.page.evaluate("document.activeElement.dataset.field ?? document.activeElement.id")

    async def decide(self):
        """Look at each marked field, correct the total if it is wrong, confirm. Returns the keystrokes."""
        self.pressed, before = 0, self.page.url
        is_wrong = await self.page.locator("#summary .bad").count()
        await expect(self.page.locator("[data-field=supplier]")).to_be_focused()
        while await self.focused() != "confirm":
            if is_wrong and await self.focused() == "net":
                await self.press("Tab", "Tab", "Tab", *RIGHT_GROSS)
                await expect(self.page.locator("#summary")).to_have_text("Checks passed")
            await self.press("Enter")
        await self.press("Enter")
        await self.page.wait_for_url(lambda url: url != before)
        return self.pressed


async def list_grave_problems(page):
    found = (await Axe().run(page)).response["violations"]
    return [
        (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in {"serious", "critical"}
    ]


async def is_in_view(page, selector):
    box = await page.locator(selector).bounding_box()
    height = await page.evaluate("innerHeight")
    return box["y"] >= 0 and box["y"] + box["height"] <= height


async def work_through(queue, owner, database_url, folder, count, **look):
    await queue(count)
    strokes = []
    async with browsing(database_url, folder, **look) as (page, _, complaints):
        await page.goto("/documents/next")
        for number in range(1, count + 1):
            await expect(page.locator(".progress")).to_have_text(f"{number} of {count}")
            assert await is_in_view(page, "#confirm")
            strokes.append(await Clerk(page).decide())
        assert complaints == []
    cursor = await owner.execute("SELECT fields->>'gross', count(*)::int FROM records GROUP BY 1")
    assert await cursor.fetchall() == [(RIGHT_GROSS, count)]
    assert median(strokes) == 3, strokes


async def test_clerk_confirms_a_right_document_with_three_keystrokes(queue, owner, database_url, tmp_path):
    await work_through(queue, owner, database_url, tmp_path, 3, **DESKTOP)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_clerk_works_through_thirty_documents_by_keyboard(
    size, scheme, queue, owner, database_url, tmp_path
):
    await work_through(queue, owner, database_url, tmp_path, 30, color_scheme=scheme, **size)


async def test_keys_reject_assign_skip_comment_and_undo(queue, owner, database_url, tmp_path):
    first, second, third = await queue(3)
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, complaints):
        await page.goto(f"/documents/{first}")
        clerk = Clerk(page)
        await has_arrived(page, first)
        await clerk.press("Shift+?")
        await expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
        assert await list_grave_problems(page) == []
        await clerk.press("Escape", "s")
        await has_arrived(page, second)
        await clerk.press("p")
        await has_arrived(page, first)
        await clerk.press("c", *"why", "Enter")
        await expect(page.locator(".comment")).to_contain_text("why")
        await expect(page.locator("[data-keys]")).to_be_visible()  # the script of the new page works
        await clerk.press("r", *"twice", "Enter")
        await has_arrived(page, second)
        await expect(page.locator(".bar .last")).to_have_text("Rejected: bill.pdf")
        await clerk.press("z")
        await has_arrived(page, first)
        await clerk.press("a", "ArrowDown", "Enter")
        await expect(page.locator(".state.assigned")).to_have_text("Assigned to you")
        await expect(page.locator("[data-keys]")).to_be_visible()
        await clerk.press("Control+Enter")
        await has_arrived(page, second)
        await page.emulate_media(color_scheme="dark")
        await page.set_viewport_size(PHONE["viewport"])
        assert await list_grave_problems(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await is_in_view(page, "#confirm")
        assert complaints == []
    cursor = await owner.execute("SELECT decision FROM reviews WHERE document_id = %s ORDER BY id", [first])
    assert await cursor.fetchall() == [("rejected",), ("confirmed",)]
    assert third


async def test_keys_change_a_value_only_while_its_field_is_edited(queue, database_url, tmp_path):
    [document] = await queue(1)
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, complaints):
        await page.goto(f"/documents/{document}")
        clerk, supplier = Clerk(page), page.locator("#field-supplier")
        await expect(page.locator("[data-field=supplier]")).to_be_focused()
        read = await supplier.input_value()
        await expect(page.locator("#reject kbd")).to_be_visible()
        await clerk.press("x", "Shift+?", "Escape")
        await expect(supplier).to_have_value(read)
        await expect(page.get_by_text("E edit")).to_be_visible()
        assert await list_grave_problems(page) == []
        for key in ("e", "Tab"):
            await clerk.press(key)
            await expect(supplier).to_be_focused()
            await expect(page.locator("#reject kbd")).to_be_hidden()
            await expect(page.get_by_text("Esc for shortcuts")).to_be_visible()
            await clerk.press("r")
            await expect(supplier).to_have_value("r")
            await clerk.press("Escape")
            await expect(page.locator("[data-field=supplier]")).to_be_focused()
        await clerk.press("r")
        await expect(page.locator("#reason")).to_be_focused()
        await page.set_viewport_size(PHONE["viewport"])
        await supplier.click()
        await clerk.press("Enter")
        await expect(page.locator("[data-field=iban]")).to_be_focused()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await list_grave_problems(page) == []
        assert complaints == []


async def test_the_bar_says_that_a_document_was_not_saved_and_leads_to_the_problem(
    queue, database_url, tmp_path
):
    _, document = await queue(2)
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, _):
        await page.goto(f"/documents/{document}")
        await has_arrived(page, document)
        await page.keyboard.press("Control+Enter")
        await expect(page.locator("#summary")).to_have_text("Not saved 1 problem")
        await page.get_by_role("link", name="1 problem").click()
        await expect(page.locator("[data-field=net]")).to_be_focused()
        assert await is_in_view(page, "#findings-net .warn")


async def test_a_document_that_differs_from_a_record_opens_at_the_comparison(
    ask, owner, organization, database_url, tmp_path
):
    _, recorded = await ask(number="R-1")
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, _):
        await page.goto(f"/documents/{recorded}")
        await has_arrived(page, recorded)
        await page.keyboard.press("Control+Enter")
        await page.wait_for_url("**/documents?*")
        _, document = await ask(number="R-1", net="900.00", gross="919.00")
        await owner.execute(
            """
            UPDATE extractions SET fields = (SELECT jsonb_object_agg(name, value || jsonb_build_object(
                'confidence', CASE WHEN name = 'iban' THEN 0.1 ELSE 0.99 END))
                FROM jsonb_each(fields) AS field (name, value))
            """
        )
        await page.goto(f"/documents/{document}")
        await expect(page.locator("[data-field=iban]")).to_be_focused()
        assert await is_in_view(page, ".conflict h2")


async def has_arrived(page, document):
    """Wait until the document is open and has focused its first uncertain field, or the button."""
    await expect(page).to_have_url(re.compile(f"/documents/{document}(#comments)?$"))
    await expect(page.locator("[data-field]:focus, #confirm:focus")).to_have_count(1)


async def test_viewer_finds_words_and_offers_them_for_the_focused_field(
    queue, owner, organization, database_url, tmp_path
):
    [document] = await queue(1)
    words = {"pages": [[595, 842, 0]], "words": WORDS}
    await owner.execute(
        """
        INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)
        VALUES (%s, %s, 'plain', 1, '', %s)
        """,
        [organization, document, json.dumps(words)],
    )
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, complaints):
        await page.route("**/pages/0*", lambda route: route.fulfill(body=PIXEL, content_type="image/png"))
        await page.goto(f"/documents/{document}")
        await page.locator("#field-issued_on").focus()
        await page.locator(".words text", has_text="04.02.2026").click()
        await expect(page.locator(".offer")).to_have_text("Use 2026-02-04 for Issued")
        await page.locator("#field-gross").focus()
        await page.locator(".words text", has_text="1.190,00").click()
        await page.get_by_role("button", name="Use 1190.00 for Gross amount (EUR)").click()
        await expect(page.locator("#field-gross")).to_have_value("1190.00")
        await expect(page.locator("#findings-net .warn")).to_contain_text("gross is 1190.00")
        await expect(page.locator("#summary")).to_have_text("1 problem")
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await page.keyboard.type("rechn")
        await expect(page.locator("#found")).to_have_text("1 of 1")
        await page.keyboard.press("Escape")
        sheet = page.locator(".sheet")
        upright = await sheet.bounding_box()
        await page.keyboard.press("t")
        turned = await sheet.bounding_box()
        assert upright["height"] > upright["width"]
        assert turned["height"] < turned["width"]
        await page.keyboard.press("+")
        await expect(page.locator(".zoom")).to_have_text("125%")
        assert await list_grave_problems(page) == []
        assert complaints == []


async def test_values_are_accepted_as_people_write_them_unless_ambiguous(
    queue, owner, database_url, tmp_path
):
    [document] = await queue(1)
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, complaints):
        await page.goto(f"/documents/{document}")
        gross = page.locator("#field-gross")
        for ambiguous in ("1,190", "1,190,00"):
            await gross.fill(ambiguous)
            await expect(page.locator("#findings-gross")).to_contain_text(f"not {ambiguous}")
        for typed, stored in (("1.190,5", "1190.5"), ("1'190.50", "1190.50"), ("1 190,50", "1190.50")):
            await gross.fill(typed)
            await expect(page.locator("#findings-net .warn")).to_contain_text(f"gross is {stored}")
            await gross.blur()
            await expect(gross).to_have_value(stored)
        await page.locator("#field-issued_on").fill("4.2.2026")
        await page.locator("#field-iban").fill("de02 1203 0000 0000 2020 51")
        await gross.fill("119,00")
        await expect(page.locator("#summary")).to_have_text("Checks passed")
        await page.keyboard.press("Control+Enter")
        await page.wait_for_url("**/documents?state=needs_review")
        assert complaints == []
    cursor = await owner.execute("SELECT fields FROM records")
    [fields] = await cursor.fetchone()
    assert fields["gross"] == "119.00"
    assert fields["issued_on"] == "2026-02-04"
    assert fields["iban"] == "DE02120300000000202051"


async def test_checks_follow_the_correction_of_a_confirmed_record(queue, database_url, tmp_path):
    [document] = await queue(1)
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, complaints):
        await page.goto(f"/documents/{document}")
        await page.locator("#confirm").click()
        await page.wait_for_url("**/documents?state=needs_review")
        await page.goto(f"/documents/{document}?correct")
        await expect(page.locator("#summary")).to_have_text("Checks passed")
        await page.locator("#field-gross").fill("999.00")
        await expect(page.locator("#summary")).to_have_text("1 problem")
        await expect(page.locator("#findings-net .warn")).to_contain_text("gross is 999.00")
        assert complaints == []


async def test_files_are_uploaded_with_a_result_each(owner, organization, database_url, tmp_path):
    async with browsing(database_url, tmp_path, **DESKTOP) as (page, _, complaints):
        await page.goto("/documents")
        invoice = {"name": "bill.pdf", "mimeType": "application/pdf", "buffer": pdf([(60, 700, "Invoice 1")])}
        wrong = {"name": "run.exe", "mimeType": "application/octet-stream", "buffer": b"MZ" + bytes(200)}
        await page.locator("#files").set_input_files([invoice, wrong])
        results = page.locator("#uploads li")
        await expect(results.nth(0)).to_contain_text("bill.pdf")
        await expect(results.nth(0).get_by_role("link", name="Added")).to_be_visible()
        await expect(results.nth(1)).to_contain_text("run.exe was not accepted")
        dropped = await page.evaluate_handle(
            """
            (bytes) => {
              const data = new DataTransfer();
              data.items.add(new File([new Uint8Array(bytes)], "again.pdf", { type: "application/pdf" }));
              return data;
            }
            """,
            list(invoice["buffer"]),
        )
        await page.dispatch_event("main", "dragover", {"dataTransfer": dropped})
        await expect(page.locator("#upload")).to_have_class(re.compile("over"))
        await page.dispatch_event("main", "drop", {"dataTransfer": dropped})
        await expect(results.nth(0).get_by_role("link", name="Already here: Queued")).to_be_visible()
        assert await list_grave_problems(page) == []
        assert [each for each in complaints if "409" not in each] == []
    cursor = await owner.execute("SELECT count(*)::int FROM documents")
    assert await cursor.fetchone() == (1,)
