"""A day of accounts payable on the pages alone. At its end, every place that holds records agrees.

Forty files arrive. Most confirm themselves; the clerk decides about the rest, corrects and voids a record.
"""

import asyncio
import csv
import io
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256

import pytest

import databases
from browsers import needs_browser
from scenarios.crash_world import AT_REST
from scenarios.postroom_process import PATIENCE, PostroomProcess
from scenarios.test_export import read_files
from web.payable_day import EVENTS, Act, write_day
from web.test_pages_browser import browsing

pytestmark = [needs_browser, pytest.mark.soak]
REASON = "no matching purchase order"


async def read(owner, query):
    return await (await owner.execute(query)).fetchall()


@pytest.fixture
def rest(owner):
    """Wait until the worker has nothing left to do."""

    async def rest():
        async with asyncio.timeout(PATIENCE):
            while await read(owner, AT_REST) != [(True,)]:  # noqa: ASYNC110  # by other processes
                await asyncio.sleep(0.2)

    return rest


class PayableClerk:
    """A person who has only the pages."""

    def __init__(self, page):
        self.page = page
        self.decided = Counter()

    async def upload(self, files):
        await self.page.goto("/documents")
        sent = [{"name": each.name, "mimeType": "", "buffer": each.content} for each in files]
        await self.page.locator("#files").set_input_files(sent)
        await self.page.locator("#uploads li a").nth(len(files) - 1).wait_for()

    async def work_through(self, files):
        """Decide about every document that needs review."""
        acts = {each.name: each.act for each in files}
        await self.page.goto("/documents/next")
        while await self.page.locator(".review-page[data-open]").count():
            name = await self.page.locator(".review-head h1").inner_text()
            assert self.decided[name] == 0, "decided already"
            self.decided[name] += 1
            await self.decide(acts[name])
            await self.page.goto("/documents/next")

    async def decide(self, act):
        before = self.page.url
        match act:
            case Act.CONFIRM:
                await self.page.keyboard.press("Control+Enter")
            case Act.OVERRIDE:
                await self.page.keyboard.press("o")
                await self.page.keyboard.press("Control+Enter")
            case Act.CORRECT:
                await self.page.get_by_label("Gross amount").fill("119.00")
                await self.page.locator("#summary", has_text="Checks passed").wait_for()
                await self.page.keyboard.press("Control+Enter")
            case Act.NEGATE:
                await self.page.get_by_text("Amounts of a credit note must be negative").first.wait_for()
                for label in ("Net amount", "VAT (EUR)", "Gross amount", "VAT (EUR), row 1"):
                    field = self.page.get_by_role("textbox", name=label).first
                    await field.fill(f"-{await field.input_value()}")
                await self.page.locator("#summary", has_text="Checks passed").wait_for()
                await self.page.keyboard.press("Control+Enter")
            case Act.REJECT:
                await self.page.keyboard.press("r")
                await self.page.keyboard.type("not addressed to us")
                await self.page.keyboard.press("Enter")
            case Act.SPLIT:
                await self.page.get_by_label("Pages of each part").fill("1,2")
                await self.page.get_by_role("button", name="Split", exact=True).click()
                await self.page.get_by_text("This file holds 2 documents").wait_for()
            case _:
                raise AssertionError(f"{before} should need no review")
        if act is not Act.SPLIT:
            await self.page.wait_for_url(lambda url: url != before)

    async def open_document(self, number):
        """The document of a record, from the list of records."""
        await self.page.goto(f"/records?q={number}")
        row = self.page.locator("tr", has=self.page.get_by_text(number, exact=True))
        await row.get_by_role("link").first.click()
        await self.page.get_by_role("link", name="Open document").click()

    async def void(self, number):
        await self.open_document(number)
        await self.page.get_by_label("Reason").fill(REASON)
        await self.page.get_by_role("button", name="Void").click()
        await self.page.locator("#record h2", has_text="Voided").wait_for()

    async def renumber(self, number, right):
        await self.open_document(number)
        await self.page.get_by_role("link", name="Correct fields").click()
        await self.page.get_by_label("Invoice number").fill(right)
        await self.page.get_by_label("Reason").fill("misread")
        await self.page.keyboard.press("Control+Enter")
        await self.page.locator("#record h2", has_text="Confirmed").wait_for()

    async def verify_ledger(self):
        await self.page.goto("/ledger")
        await self.page.get_by_role("button", name="Verify ledger").click()
        await self.page.get_by_role("heading", name="The ledger is intact").wait_for()

    async def export_csv(self):
        """The rows of the list of all records, as the page exports them."""
        await self.page.goto("/records?state=all")
        async with self.page.expect_download() as download:
            await self.page.locator(".exports").get_by_role("link", name="CSV").click()
        path = await (await download.value).path()
        return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"))))

    async def list_api(self, path, **query):
        """All pages of a list of the API."""
        found = []
        while True:
            answer = await self.page.request.get(f"/api/v1/{path}", params={"limit": 100, **query})
            page = await answer.json()
            found += page["data"]
            if page["next"] is None:
                return found
            query["cursor"] = page["next"]


async def test_after_a_day_of_accounts_payable_every_place_has_the_same_records(
    rest, owner, database_url, tmp_path
):
    morning, afternoon = write_day(datetime.now(UTC).date())
    files = [*morning, *afternoon]
    assert len(files) == 40
    given = databases.login_settings(database_url) | {"POSTROOM_HOME": str(tmp_path)}
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        page.set_default_timeout(1000 * PATIENCE)
        clerk = PayableClerk(page)
        with PostroomProcess(tmp_path, "work", **given) as worker:
            await clerk.upload(morning)
            await rest()
            await clerk.upload(afternoon)
            await rest()
            await clerk.work_through(files)
            await rest()
            await clerk.void("R-4")
            await clerk.renumber("R-5", "R-5A")
            await rest()
            assert await asyncio.to_thread(worker.end) == 0
        asked = {each.name for each in files if "DOCUMENT_NEEDS_REVIEW" in EVENTS[each.act]}
        assert clerk.decided == Counter(asked)
        assert complaints == []
        await clerk.verify_ledger()
        records = await assert_same_records(clerk, owner, files, given, tmp_path)
        documents = await clerk.list_api("documents")
        assert_same_documents(files, documents, records)
        await assert_ledger(clerk, files, documents, records)
        assert_archive(documents, records, tmp_path)


async def assert_same_records(clerk, owner, files, given, home):
    """Database, API, the pages' CSV and `postroom export` have exactly the records of the day's files."""
    states = {
        number: "voided" if each.act is Act.VOID else "confirmed"
        for each in files
        for number, _ in each.records
    }
    expected = sorted(
        {(number, Decimal(gross), states[number]) for each in files for number, gross in each.records}
    )
    stored = await read(owner, "SELECT number, amount, state FROM records")
    assert sorted(tuple(row) for row in stored) == expected
    records = [
        each for state in ("confirmed", "voided", "reopened", "merged")
        for each in await clerk.list_api("records", state=state)
    ]  # fmt: skip
    of_api = [(each["fields"]["number"], Decimal(each["fields"]["gross"]), each["state"]) for each in records]
    assert sorted(of_api) == expected
    rows = await clerk.export_csv()
    assert sorted((row["Number"], Decimal(row["Amount"]), row["State"].lower()) for row in rows) == expected
    assert {row["Record ID"] for row in rows} == {each["id"] for each in records}
    with PostroomProcess(home, "export", str(home / "lake"), **given) as export:
        assert await asyncio.to_thread(export.wait) == 0, export.said
    exported = read_files(home / "lake", "records", "id::text, invoice.number, invoice.gross, state, version")
    assert sorted(row[1:4] for row in exported) == expected
    assert {(id_, version) for id_, _, _, _, version in exported} == {
        (each["id"], each["version"]) for each in records
    }
    return records


def assert_same_documents(files, documents, records):
    """There is one document per content, with the state that it should have and the right record."""
    numbers = {each["id"]: each["fields"]["number"] for each in records}
    by_content = {sha256(each.content).hexdigest(): each for each in files}
    expected = Counter()
    for each in by_content.values():
        state = "skipped" if each.act in {Act.REJECT, Act.VOID} else "completed"
        held = [number for number, _ in each.records]
        expected.update((state, number) for number in ([*held, None] if len(held) != 1 else held))
    assert Counter((each["state"], numbers.get(each["record_id"])) for each in documents) == expected
    whole = [each["sha256"] for each in documents if each["part_of"] is None]
    assert sorted(whole) == sorted(by_content)


async def assert_ledger(clerk, files, documents, records):
    """The ledger has the events of every document and every change of a record, once."""
    entries = sorted(await clerk.list_api("ledger"), key=lambda entry: entry["id"])
    assert all(entry["position"] for entry in entries)
    events = {}
    for entry in entries:
        events.setdefault((entry["entity_type"], entry["entity_id"]), []).append(entry["event_type"])
    acts = {sha256(each.content).hexdigest(): each.act for each in files}
    for document in documents:
        act = acts[document["sha256"]] if document["part_of"] is None else Act.NOTHING
        assert events.pop(("document", document["id"])) == list(EVENTS[act]), act
    changed = {id_: found for (type_, id_), found in events.items() if type_ == "record"}
    numbers = {each["id"]: each["fields"]["number"] for each in records}
    assert {numbers[id_]: found for id_, found in changed.items()} == {
        "R-4": ["RECORD_VOIDED"], "R-5A": ["RECORD_CORRECTED"]
    }  # fmt: skip
    [voided] = [entry for entry in entries if entry["event_type"] == "RECORD_VOIDED"]
    assert voided["payload"]["reason"] == REASON
    assert "document" not in {type_ for type_, _ in events}, "of no other document"


def assert_archive(documents, records, home):
    """Each document that was ever completed has a copy with its bytes, and the renumbered one has two."""
    archived = {
        each["archive_path"]: each for each in documents if each["record_id"] or each["state"] == "completed"
    }
    of_records = [path for each in records for path in each["archive_paths"]]
    assert sorted(of_records) == sorted(path for path, each in archived.items() if each["record_id"])
    found = {path.relative_to(home).as_posix(): path for path in home.glob("archive/**/*.*")}
    copies = {path for path in found if not path.endswith(".metadata.json")}
    assert {f"{path}.metadata.json" for path in copies} == set(found) - copies
    for path, document in archived.items():
        assert sha256(found[path].read_bytes()).hexdigest() == document["sha256"]
    [earlier] = copies - set(archived)
    assert earlier.endswith("/Xenon_GmbH-R_5/R-5.pdf")
