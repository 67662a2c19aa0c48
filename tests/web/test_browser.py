"""The health page in a real browser: it updates by itself, breaks no policy, and fits a phone."""

import shutil
import signal

import pytest
from playwright.async_api import async_playwright, expect

from postroom.store import work
from postroom.store.work import Wake
from scenarios.programs import Program

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture
async def page():
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = await browser.new_page(viewport={"width": 390, "height": 844})
        yield page
        await browser.close()


async def test_the_health_page_updates_by_itself(page, tmp_path, database_url, database, organization):
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with Program(tmp_path, "serve", "--port", "0", POSTROOM_DATABASE_URL=database_url) as server:
        await page.goto(server.line("Postroom: "))
        await expect(page.locator("#live")).to_have_text("Updated live")
        await expect(page.locator("#work")).to_have_text("Nothing is to be done.")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        async with database.engine() as connection:
            await work.wake(connection, [Wake(organization, "sync", "a", delay=3600)])
        await expect(page.locator("#work th")).to_have_text("sync")
        assert complaints == []
        assert server.end(signal.SIGTERM) == 0
    await expect(page.locator("#live")).to_have_text("Connection lost, trying again")
