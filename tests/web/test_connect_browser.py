"""C1, C5 in a real browser: connect at both providers, deny, untick, reconnect, pause, disconnect."""

import os
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

import databases
from browsers import launch_options, needs_browser
from flow.simulated_world import TOPIC, settings_given
from scenarios.postroom_process import PostroomProcess
from simulator.driver import running
from web.sign_in_support import create_session_sync

pytestmark = needs_browser
# A person who wants to look names a directory.
PICTURES = os.environ.get("TEST_PICTURES")


@pytest.fixture
async def page():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        page = await browser.new_page(viewport={"width": 900, "height": 900})
        yield page
        await browser.close()


@pytest.fixture
def sim():
    with running() as simulation:
        simulation.post("google/topics", name=TOPIC)
        simulation.create("gmail", "ann@example.com", messages=3)
        simulation.create("outlook", "bob@example.com", messages=3)
        yield simulation


async def look(page, name):
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if PICTURES:
        await page.screenshot(path=Path(PICTURES, f"{name}.png"), full_page=True)


async def agree(page, address, *, decision="allow", untick=None):
    """What a person does on the consent page of either provider."""
    await page.locator(f"input[type=radio][value='{address}']").check()
    if untick:
        await page.locator(f"input[type=checkbox][value*='{untick}']").uncheck()
    await page.locator(
        f"button[value={decision.lower()}], input[type=submit][value={decision.lower()}]"
    ).click()


@pytest.fixture
async def url(page, sim, tmp_path, database_url):
    """A running `postroom serve`; at the end no page has broken a policy, and the log names no person."""
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    given = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()}
    with PostroomProcess(
        tmp_path, "serve", "--port", "0", **databases.login_settings(database_url), **given
    ) as server:
        address = server.line("Postroom: ")
        session = {
            "name": "postroom_session",
            "value": create_session_sync(database_url, tmp_path / "home"),
            "url": address,
        }
        await page.context.add_cookies([session])
        yield address
        server.end()
        assert not [line for line in server.said if "@example.com" in line or "refused=" in line]
    # A browser notes pages with a status of 400 or more, which are meant to be.
    assert not [words for words in complaints if not words.startswith("Failed to load resource")]


async def connect(page, which, address, **how):
    links = page.get_by_role("link", name="Full messages")
    await (links.first if which == "gmail" else links.last).click()
    await agree(page, address, **how)


async def test_denied_or_partial_consent_connects_nothing(page, url):
    await page.goto(f"{url}/mailboxes")
    await expect(page.get_by_text("No mailboxes connected yet")).to_be_visible()
    await look(page, "1-nothing")
    for which, address in (("gmail", "ann@example.com"), ("outlook", "bob@example.com")):
        await connect(page, which, address, decision="deny")
        await expect(page.get_by_role("heading", name="Nothing was connected")).to_be_visible()
        await page.get_by_role("link", name="Go to mailboxes").click()
    await expect(page.get_by_text("No mailboxes connected yet")).to_be_visible()
    await look(page, "2-denied")
    await connect(page, "gmail", "ann@example.com", untick="gmail.readonly")
    await expect(page.get_by_role("heading", name="A permission is missing")).to_be_visible()
    await look(page, "3-unticked")
    await page.get_by_role("link", name="Try again").click()
    await agree(page, "ann@example.com")
    await expect(page.locator("section[role=status]")).to_contain_text("ann@example.com is connected")
    await page.go_back()
    await page.go_back()
    await page.reload()
    await page.goto(f"{url}/mailboxes")
    await expect(page.locator(".mailbox")).to_have_count(1)


async def test_mailboxes_of_both_providers_are_connected_reconnected_paused_and_disconnected(page, url):
    await page.goto(f"{url}/mailboxes")
    for which, address in (("gmail", "ann@example.com"), ("outlook", "bob@example.com")):
        await connect(page, which, address)
        await expect(page.locator("section[role=status]")).to_contain_text(f"{address} is connected")
    await expect(page.locator(".badge")).to_have_text(["Connected", "Connected"])
    await look(page, "4-both")
    ann = page.get_by_role("region", name="ann@example.com")
    bob = page.get_by_role("region", name="bob@example.com")
    for region, address in ((ann, "ann@example.com"), (bob, "bob@example.com")):
        await region.get_by_role("link", name="Reconnect").click()
        await agree(page, address)
        await expect(page.locator("section[role=status]")).to_contain_text(f"{address} is connected")
    await expect(page.locator(".mailbox")).to_have_count(2)
    await ann.get_by_role("button", name="Pause").click()
    await expect(ann.locator(".badge")).to_have_text("Paused")
    await ann.get_by_role("button", name="Resume").click()
    await expect(ann.locator(".badge")).to_have_text("Connected")
    await bob.get_by_text("Disconnect", exact=True).click()
    await look(page, "5-disconnecting")
    await bob.get_by_role("button", name="Disconnect and keep stored mail").click()
    await expect(bob.locator(".badge")).to_have_text("Disconnected")
    await page.set_viewport_size({"width": 390, "height": 844})
    await look(page, "6-phone")
