"""The health page in a real browser: it updates by itself, breaks no policy, and fits a phone."""

import signal

import pytest
from playwright.async_api import async_playwright, expect

from browsers import launch_options, needs_browser
from postroom.flow.access import members, sign_in
from postroom.model import Role, Secret, WorkKind
from postroom.store import work
from postroom.store.work import Wake
from scenarios.programs import Program

PASSWORD = "correct horse battery"
pytestmark = needs_browser


@pytest.fixture
async def page():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        page = await browser.new_page(viewport={"width": 390, "height": 844})
        yield page
        await browser.close()


async def test_the_health_page_updates_by_itself(page, tmp_path, database_url, database, organization):
    ann = await members.add(database, organization, "ann@example.org", role=Role.READER)
    await members.set_password(database, ann, Secret(PASSWORD))
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with Program(tmp_path, "serve", "--port", "0", POSTROOM_DATABASE_URL=database_url) as server:
        await page.goto(server.line("Postroom: ") + "/health")
        await expect(page).to_have_title("Sign in · Postroom")
        await page.get_by_label("Address").fill("ann@example.org")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#live")).to_have_text("Updated live")
        await expect(page.locator("#work")).to_have_text("Nothing is to be done.")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        async with database.engine() as connection:
            await work.wake(connection, [Wake(organization, WorkKind.SYNC, "a", delay=3600)])
        await expect(page.locator("#work th")).to_have_text("sync")
        cells = await page.locator("#work td").all()
        assert all([(box := await each.bounding_box()) and box["x"] + box["width"] <= 390 for each in cells])
        assert complaints == []
        assert server.end(signal.SIGTERM) == 0
    await expect(page.locator("#live")).to_have_text("Connection lost, trying again")


async def test_a_one_time_link_signs_in_without_a_click_and_the_way_out_is_on_every_page(
    page, tmp_path, database_url, database, organization
):
    ann = await members.add(database, organization, "ann@example.org", role=Role.READER, name="Ann")
    with Program(tmp_path, "serve", "--port", "0", POSTROOM_DATABASE_URL=database_url) as server:
        address = server.line("Postroom: ")
        link = sign_in.build_link_url(address, await sign_in.create_link(database, ann))
        await page.goto(link)
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page).to_have_title("Sign in · Postroom")
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_contain_text("used already")
        assert server.end(signal.SIGTERM) == 0
