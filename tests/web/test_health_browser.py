"""The health page in a real browser: it updates by itself, breaks no policy, and fits a phone."""

import signal

import pytest
from playwright.async_api import async_playwright, expect

import databases
from browsers import launch_options, needs_browser
from postroom.flow.access import members, sign_in
from postroom.model import Role, Secret, WorkKind
from postroom.store import work
from postroom.store.work import WorkRequest
from scenarios.postroom_process import PostroomProcess

PASSWORD = "correct horse battery"
pytestmark = needs_browser


@pytest.fixture
async def page():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        page = await browser.new_page(viewport={"width": 390, "height": 844})
        yield page
        await browser.close()


async def test_health_page_updates_automatically(page, tmp_path, database_url, database, organization):
    ann = await members.add(database, organization, "ann@example.org", role=Role.READER)
    await members.set_password(database, ann, Secret(PASSWORD))
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with PostroomProcess(
        tmp_path, "serve", "--port", "0", **databases.login_settings(database_url)
    ) as server:
        await page.goto(server.line("Postroom: ") + "/health")
        await expect(page).to_have_title("Sign in · Postroom")
        await page.get_by_label("Email address").fill("ann@example.org")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#live")).to_have_text("Live")
        await expect(page.locator("#work")).to_have_text("No work is queued.")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        async with database.engine() as connection:
            await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, "a", delay=3600)])
        await expect(page.locator("#work th")).to_have_text("Sync")
        right = "cell => cell.getBoundingClientRect().right <= 390"
        assert await page.evaluate(f"[...document.querySelectorAll('#work td')].every({right})")
        assert complaints == []
        assert server.end(signal.SIGTERM) == 0
    await expect(page.locator("#live")).to_have_text("Connection lost. Reconnecting…")


async def test_sign_in_link_names_the_account_and_waits_for_the_member(
    page, tmp_path, database_url, database, organization
):
    ann = await members.add(database, organization, "ann@example.org", role=Role.READER, name="Ann")
    with PostroomProcess(
        tmp_path, "serve", "--port", "0", **databases.login_settings(database_url)
    ) as server:
        address = server.line("Postroom: ")
        link = sign_in.build_link_url(address, await sign_in.create_link(database, ann))
        await page.goto(link, wait_until="networkidle")
        await expect(page.get_by_text("Ann (ann@example.org)")).to_be_visible()
        await page.get_by_role("button", name="Sign in as ann@example.org").click()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page).to_have_title("Sign in · Postroom")
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_contain_text("already used")
        assert server.end(signal.SIGTERM) == 0
