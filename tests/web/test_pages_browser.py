"""Every page in a real browser: sound, usable by all, fit for a phone; hostile mail does nothing."""

import json
import re
from contextlib import asynccontextmanager, suppress

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import async_playwright, expect

import databases
from browsers import launch_options, needs_browser
from postroom.model import OrganizationId
from scenarios.postroom_process import PostroomProcess
from store.table_filler import TableFiller
from web.sign_in_support import ORGANIZATION, create_session_sync

pytestmark = needs_browser
PAGES = (
    "/", "/health", "/mailboxes", "/messages", "/documents", "/records", "/orders", "/suppliers", "/search",
    "/failures", "/directories", "/subscriptions", "/webhooks", "/ledger", "/api-keys", "/members",
    "/organization", "/settings", "/api", "/notices", "/orders/import", "/help",
    "/help/docs/README.md", "/help/docs/settings.md",
)  # fmt: skip
OUTSIDE = "http://tracker.invalid"
# What a script says that runs: it is heard from every frame.
RAN = "console.error('RAN')"
HOSTILE = f"""
<p>The text of the body</p><script>{RAN}</script><img src="{OUTSIDE}/pixel.gif" onerror="{RAN}">
<svg onload="{RAN}"><script>{RAN}</script><image href="{OUTSIDE}/svg"/></svg>
<style>@import '{OUTSIDE}/style.css'; body {{ background: url({OUTSIDE}/background) }}</style>
<div style="background: url('{OUTSIDE}/css'); position: fixed; inset: 0">over everything</div>
<p style="background:\\75rl({OUTSIDE}/escaped)">escaped</p><link rel="stylesheet" href="{OUTSIDE}/link.css">
<a href="javascript:{RAN}">a script</a> <a href="data:text/html,<script>{RAN}</script>">data</a>
<iframe src="{OUTSIDE}/frame" srcdoc="<script>{RAN}</script>"></iframe>
<object data="{OUTSIDE}/object"></object>
<form action="{OUTSIDE}/form"><input name="password" autofocus onfocus="{RAN}"></form>
<meta http-equiv="refresh" content="0; url={OUTSIDE}/refresh"><base href="{OUTSIDE}/">
<video src="{OUTSIDE}/video" autoplay onerror="{RAN}"></video>
<math><mtext><img src=x onerror="{RAN}"></mtext></math>
"""
NAME = f'<img src="{OUTSIDE}/name" onerror="{RAN}">\u202egnp.exe'


@asynccontextmanager
async def browsing(database_url, folder, settings=None, **look):
    """A signed-in browser before a web process; what it fetched, and what it complained of."""
    asked, complaints = [], []
    given = databases.login_settings(database_url) | {"POSTROOM_HOME": str(folder)} | (settings or {})
    with PostroomProcess(folder, "serve", "--port", "0", **given) as server:
        address = server.line("Postroom: ")
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(**launch_options())
            page = await browser.new_page(base_url=address, **look)
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            cookie = {
                "name": "postroom_session",
                "value": create_session_sync(database_url, folder),
                "url": address,
            }
            await page.context.add_cookies([cookie])
            yield page, asked, complaints
            await browser.close()


@pytest.mark.parametrize("width", [390, 1024, 1280])
async def test_the_header_is_one_line_that_leads_to_every_page(width, database_url, tmp_path):
    async with browsing(database_url, tmp_path, viewport={"width": width, "height": 844}) as (page, _, _):
        await page.goto("/subscriptions")  # the longest name in the menu
        header = page.locator("header")
        assert (await header.bounding_box())["height"] < 64
        for name, path in (("Documents", "/documents"), ("Webhooks", "/webhooks")):
            link = header.get_by_role("link", name=name, exact=True)
            if not await link.is_visible():
                await header.locator("summary").click()
            await link.click()
            await expect(page).to_have_url(re.compile(f"{path}$"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_fits_a_phone_and_is_accessible(scheme, owner, database_url, tmp_path):
    look = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    async with browsing(database_url, tmp_path, **look) as (page, _, complaints):
        for path in PAGES:
            await check_page(page, path, complaints)
        for path in await fill_details(owner):
            await check_page(page, path, complaints)


async def check_page(page, path, complaints):
    answer = await page.goto(path)
    assert answer.status == 200, path
    is_narrow = await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = (await Axe().run(page)).response["violations"]
    grave = [each["id"] for each in found if each["impact"] in {"serious", "critical"}]
    other = [each for each in complaints if "sandbox" not in each]  # Axe in the frame of a message
    assert (path, is_narrow, grave, other) == (path, True, [], [])


LONG = "a" * 90
# What the pages of single rows show beside the values that fill their tables.
DETAILS = (
    f"UPDATE mailboxes SET address = '{LONG}@example.org', last_error = '{LONG}'",
    """
    UPDATE cursors SET kind = 'backfill', listed = 100, expected = 400, completed_at = NULL,
        started_at = now() - interval '1 hour'
    """,
    f"UPDATE messages SET subject = '{LONG}', from_name = '{LONG}', snippet = '{LONG}'",
    f"UPDATE message_contents SET body_plain = '{LONG}'",
    f"UPDATE attachments SET file_name = '{LONG}.pdf'",
    f"UPDATE directories SET name = '{LONG}', stopped_at = now(), stop_reason = '{LONG}'",
    """
    UPDATE orders SET kind = 'contract-note', state = 'open',
        fields = '{"isin": "US0378331005", "direction": "buy", "quantity": "100"}'
    """,
    """
    INSERT INTO records (organization_id, kind, pipeline, fingerprint, key, confirmed_by, confirmed_at,
        supplier_id, supplier_pending, fields)
    SELECT organization_id, 'contract-note', 'invoices', sha256(''), 'key', 'postroom', now(), id, false,
        '{"isin": "US0378331005", "direction": "buy", "quantity": "100", "net": "1.00", "currency": "EUR"}'
    FROM records
    """,
    "UPDATE records SET supplier_id = coalesce(supplier_id, id), supplier_pending = false",
)


async def fill_details(owner):
    """Fill every table; the pages of single rows."""
    filler = TableFiller(owner, OrganizationId(ORGANIZATION))
    await filler.fill()
    for statement in DETAILS:
        await owner.execute(statement)
    rows = {table: row.get("id") for table, row in filler.whole.items()}
    return [
        f"/mailboxes/{rows['mailboxes']}",
        f"/mailboxes/{rows['mailboxes']}?view=threads",
        f"/mailboxes/{rows['mailboxes']}/timeline",
        f"/messages/{rows['messages']}",
        f"/threads/{rows['threads']}",
        f"/suppliers/{rows['records']}",
        f"/records/{rows['records']}",
        f"/orders/{rows['orders']}",
        f"/directories/{rows['directories']}",
        "/orders?new=1&updated=2&unchanged=3",
    ]


async def test_charts_show_the_figures_of_the_chosen_interval(database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        await page.goto("/?range=24h")
        reading = page.locator("#mail .reading")
        await expect(reading).to_have_text("Peak: 0 per 15 minutes")
        await page.locator("#mail .slot").first.hover()
        await expect(reading).to_have_text(re.compile(r"\d\d:\d\d\u2013\d\d:\d\d UTC: 0 messages"))
        hovered = await reading.text_content()
        await page.locator("#mail svg").focus()
        await page.keyboard.press("ArrowRight")
        await expect(reading).not_to_have_text(hovered)
        await page.keyboard.press("ArrowLeft")
        await expect(reading).to_have_text(hovered)
        await page.get_by_role("link", name="7 d", exact=True).click()
        await expect(reading).to_have_text("Peak: 0 per hour")
        assert complaints == []


async def test_admin_creates_an_api_key_and_adds_a_member(database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        await page.goto("/api-keys")
        await page.get_by_label("Name").fill("reporting")
        await page.get_by_label("Record every call in the ledger").check()
        await page.get_by_role("button", name="Create API key").click()
        await expect(page.get_by_role("cell", name="read (calls recorded)")).to_be_visible()
        await expect(page.locator("code.whole")).to_contain_text("pr_")
        await page.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_role("cell", name="Revoked")).to_be_visible()
        await page.goto("/members")
        await page.get_by_label("Email address").fill("bob@example.org")
        await page.get_by_role("button", name="Add member and create link").click()
        await expect(page.locator("code.whole")).to_contain_text("/sign-in/link?token=")
        await page.goto("/webhooks")
        await page.get_by_label("URL").fill("https://app.example.org/hooks")
        await page.get_by_role("button", name="Add webhook").click()
        await expect(page.locator("code.whole")).to_contain_text("whsec_")
        await page.get_by_role("button", name="Disable").press("Enter")
        await expect(page.get_by_role("button", name="Enable")).to_be_visible()
        found = (await Axe().run(page)).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        await page.goto("/ledger")
        await page.get_by_role("button", name="Verify ledger").click()
        await expect(page.get_by_role("heading", name="The ledger is intact")).to_be_visible()
        assert complaints == []


async def test_api_page_sends_requests(database_url, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        await page.goto("/api")
        for path, given in (("/orders", None), ("/documents", "bill.pdf")):
            summary = page.locator("summary", has_text="POST").filter(has=page.get_by_text(path, exact=True))
            await summary.click()
            form = page.locator(f'form[data-method="POST"][data-path="/api/v1{path}"]')
            if given:
                await form.get_by_label("pipeline").fill("invoices")
                await form.get_by_label("file_name").fill(given)
                content = {"name": given, "mimeType": "application/pdf", "buffer": b"%PDF-1.7 example"}
                await form.get_by_label("File", exact=True).set_input_files(content)
            else:
                await form.get_by_label("Body").fill('{"kind": "invoice", "orders": [{"reference": "O-1"}]}')
            await form.get_by_role("button", name="Send request").click()
            await expect(form.locator("pre")).to_contain_text("201" if given else '"new": 1')
        assert complaints == []


@pytest.fixture
async def hostile_message(owner, make_mailbox):
    organization = OrganizationId(ORGANIZATION)
    await owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'x') ON CONFLICT DO NOTHING", [organization]
    )
    mailbox = await make_mailbox(organization)
    thread = await one(
        owner,
        """
        INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
        VALUES (%s, %s, 't') RETURNING id
        """,
        organization,
        mailbox,
    )
    message = await one(
        owner,
        """
        INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, subject, from_name,
            from_address, to_recipients, received_at)
        VALUES (%s, %s, %s, 'm', %s, %s, %s, %s, now()) RETURNING id
        """,
        *(organization, mailbox, thread, NAME, NAME, f'"{NAME}"@example.com'),
        json.dumps([{"name": NAME, "address": NAME}]),
    )
    await owner.execute(
        """
        INSERT INTO message_contents (organization_id, message_id, body_html, search)
        VALUES (%s, %s, %s, '')
        """,
        [organization, message, HOSTILE],
    )
    await owner.execute(
        """
        INSERT INTO attachments (organization_id, message_id, part, file_name, media_type, size)
        VALUES (%s, %s, '2', %s, 'image/svg+xml', 5)
        """,
        [organization, message, NAME],
    )
    return mailbox, message


async def test_thread_page_appends_new_messages_without_moving_open_ones(
    hostile_message, owner, database_url, tmp_path
):
    mailbox, _ = hostile_message
    look = {"viewport": {"width": 390, "height": 844}}
    async with browsing(database_url, tmp_path, **look) as (page, asked, complaints):
        await page.goto(f"/mailboxes/{mailbox}")
        await page.get_by_role("link", name="Threads", exact=True).click()
        await page.locator("#threads th a").click()
        await expect(
            page.frame_locator("iframe.message-body").get_by_text("The text of the body")
        ).to_be_visible()
        at = await page.locator("details.thread-message").bounding_box()
        newer = await one(
            owner,
            """
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, from_name,
                snippet, received_at)
            SELECT organization_id, mailbox_id, thread_id, 'n', 'Bob', 'An answer', now() + interval '1 min'
            FROM messages RETURNING id
            """,
        )
        await owner.execute(
            """
            INSERT INTO message_contents (organization_id, message_id, body_plain, search)
            SELECT organization_id, id, 'I agree.', '' FROM messages WHERE id = %s
            """,
            [newer],
        )
        await page.evaluate("changed()")
        answer = page.locator(f"#message-{newer}")
        await expect(answer).to_be_visible()
        assert await page.locator("details.thread-message").first.bounding_box() == at
        assert await answer.get_attribute("open") is None
        bodies = [each for each in asked if each.endswith("/body")]
        assert len(bodies) == 1, "what is closed is not loaded, and what is open not again"
        await answer.locator("summary").focus()
        await page.keyboard.press("Enter")
        await expect(answer.frame_locator("iframe").get_by_text("I agree.")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found = (await Axe().run(page)).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        assert [each for each in complaints if "sandbox" not in each] == []


async def one(owner, query, *values):
    return (await (await owner.execute(query, values)).fetchone())[0]


@asynccontextmanager
async def hostile(database_url, tmp_path):
    """A browser, and what reached it of hostile mail: scripts that ran, loads that left for outside."""
    async with browsing(database_url, tmp_path) as (page, asked, complaints):
        left = []

        async def leave(route):
            left.append(route.request.url)
            await route.abort()

        await page.context.route(f"{OUTSIDE}/**", leave)

        yield page, asked, lambda: ("RAN" in complaints, bool(left))


async def test_hostile_mail_runs_and_fetches_nothing(hostile_message, database_url, tmp_path):
    mailbox, message = hostile_message
    async with hostile(database_url, tmp_path) as (page, asked, done):
        for path in (f"/mailboxes/{mailbox}", "/search?q=body", f"/messages/{message}"):
            await page.goto(path, wait_until="load")
            assert done() == (False, False)
        body = page.frame_locator("iframe.message-body")
        await expect(body.get_by_text("The text of the body")).to_be_visible()
        found = body.locator("script, iframe, object, form, input, svg, style ~ style, meta[http-equiv]")
        assert await found.count() == 0
        links = await body.locator("a").evaluate_all("links => links.map(each => each.getAttribute('href'))")
        assert not [each for each in links if each and each.startswith("javascript:")]
        shown = NAME.replace("\u202e", "\ufffd")  # what would turn the words around is seen
        await expect(page.locator("h1 bdi")).to_have_text(shown)
        assert not [url for url in asked if "127.0.0.1" not in url]


async def test_sanitizer_and_policy_each_stop_hostile_mail(hostile_message, database_url, tmp_path):
    """The body as it came, under our policy; cleaned, under none; neither, which the test must notice."""
    _, message = hostile_message
    address = f"/messages/{message}"
    async with hostile(database_url, tmp_path) as (page, _, done):
        given = {"cleaned": False, "policy": True}

        async def serve(route):
            answer = await route.fetch()
            headers = answer.headers if given["policy"] else {"content-type": "text/html"}
            await route.fulfill(headers=headers, body=await answer.text() if given["cleaned"] else HOSTILE)

        await page.route(f"**{address}/body", serve)
        await page.goto(address, wait_until="load")
        await expect(page.frame_locator("iframe.message-body").get_by_text("The text of the")).to_be_visible()
        assert done() == (False, False), "our policy and the sandbox"
        given |= {"cleaned": True, "policy": False}
        await page.goto(f"{address}/body", wait_until="load")
        assert done() == (False, False), "the cleaning"
        given |= {"cleaned": False}
        with suppress(PlaywrightError):  # it leads away at once
            await page.goto(f"{address}/body", wait_until="load")
        assert done() == (True, True), "what this test would notice"


async def test_mailbox_page_starts_a_sync(database_url, owner, make_mailbox, tmp_path):
    async with browsing(database_url, tmp_path) as (page, _, complaints):
        mailbox = await make_mailbox(OrganizationId(ORGANIZATION), address="ada@example.org")
        await page.goto(f"/mailboxes/{mailbox}")
        await expect(page.get_by_role("heading", name="ada@example.org")).to_be_visible()
        await expect(page.get_by_text("Not started")).to_be_visible()
        found = (await Axe().run(page)).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        await page.get_by_role("button", name="Sync now").click()
        await expect(page).to_have_url(re.compile(f"/mailboxes/{mailbox}$"))
        assert complaints == []
    asked = await (
        await owner.execute("SELECT count(*) FROM ledger WHERE event_type = 'SYNC_REQUESTED'")
    ).fetchone()
    due = await (await owner.execute("SELECT count(*) FROM work WHERE kind = 'sync'")).fetchone()
    assert (asked, due) == ((1,), (1,))
