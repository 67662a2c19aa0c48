"""Sign-in at simulated Microsoft in a real browser."""

from collections.abc import Generator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from browsers import launch_options, needs_browser

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, sim) -> Generator[Page]:
    page = browser.new_page(base_url=sim.http)
    yield page
    page.close()


@pytest.fixture
def ask(sim):
    """Return the authorize URL of an application; the simulator's status page is its redirect target."""
    client = sim.ready["clients"]["outlook"]

    def url(**more):
        query = {
            "client_id": client["client_id"],
            "response_type": "code",
            "redirect_uri": f"{sim.http}/",
            "scope": "openid offline_access Mail.Read",
            "state": "42",
            **more,
        }
        return f"/common/oauth2/v2.0/authorize?{urlencode(query)}"

    return url


def answered(page):
    parts = urlsplit(page.url)
    return {name: values[0] for name, values in parse_qs(parts.query or parts.fragment).items()}


def test_choosing_an_account_and_accepting_returns_a_code(sim, page, ask, address):
    sim.create("outlook", f"first-{address}")
    sim.create("outlook", address, name="Ann <b>Example</b>")
    page.goto(ask())
    expect(page.get_by_role("heading")).to_have_text("Permissions requested")
    expect(page.get_by_role("listitem")).to_have_text(["openid", "offline_access", "Mail.Read"])
    page.get_by_label("Ann <b>Example</b>").check()
    page.get_by_role("button", name="Accept").click()
    page.wait_for_url("**/?code=*")
    assert answered(page)["state"] == "42"
    page.goto(ask(response_mode="fragment"))
    page.wait_for_url("**/#code=*")


def test_cancelling_returns_an_error(sim, page, ask, address):
    sim.create("outlook", address)
    page.goto(ask())
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/?error=access_denied*")
    assert answered(page)["state"] == "42"


def test_an_invalid_request_shows_an_error_page(page, ask):
    page.goto(ask(client_id="nobody"))
    expect(page.get_by_role("heading")).to_contain_text("trouble signing you in")
    expect(page.locator("pre")).to_contain_text("AADSTS700016")
