"""The simulator's web page in a real browser: mailboxes, messages, faults, clock, provider actions."""

from collections.abc import Generator

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
    console_errors: list[str] = []
    page.on(
        "console", lambda message: console_errors.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: console_errors.append(str(error)))
    yield page
    page.close()
    assert console_errors == []


def row(page: Page, section: str, text: str):
    return page.locator(f"#{section} tbody tr").filter(has_text=text)


@pytest.mark.parametrize("provider", ["gmail", "outlook"])
def test_forms_create_a_mailbox_and_deliver_a_message(page, sim, address, provider):
    page.goto("/")
    create = page.locator("form[action$='/mailbox']")
    create.get_by_label("Provider").select_option(provider)
    create.get_by_label("Address").fill(address)
    create.get_by_label("Messages").fill("30")
    create.get_by_role("button").click()
    expect(page.get_by_role("status")).to_have_text(f"Created {address} with 30 messages.")
    send = page.locator("form[action$='/mail']")
    send.locator("[name=address]").select_option(address)
    send.get_by_label("Subject").fill("From the page")
    send.get_by_role("button").click()
    expect(page.get_by_role("status")).to_have_text(f"Delivered 1 message(s) to {address}.")
    expect(row(page, "mailboxes", address)).to_contain_text("31")
    assert sim.truth(address)[-1]["subject"] == "From the page"


def test_buttons_mark_flag_trash_and_delete_messages(page, sim, address):
    sim.create("outlook", address)
    for subject in ("First", "<b>Second</b>"):
        sim.deliver(address, kind="plain", subject=subject)
    page.goto("/")
    page.get_by_role("link", name=address).click()
    expect(page.locator(".messages tr")).to_have_count(2)
    expect(page.locator(".messages")).to_contain_text("<b>Second</b>")
    for button, action in (("Mark read", "read"), ("Flag", "flag"), ("Move to trash", "trash")):
        row(page, "messages", "First").get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("status")).to_have_text(f"Message 0: {action}.")
    row(page, "messages", "Second").get_by_role("button", name="Delete").click()
    expect(page.locator(".messages tr")).to_have_count(1)
    (left,) = sim.truth(address)
    assert (left["read"], left["flag"], left["keys"]) == (True, "flagged", ["deleteditems"])
    page.get_by_role("link", name="Inbox").click()
    expect(page.locator("#messages")).to_contain_text("No messages.")


def test_a_fault_can_be_injected_and_canceled(page, sim):
    page.goto("/")
    form = page.locator("form[action$='/fault']")
    form.get_by_label("Fault").select_option("throttle")
    form.get_by_label("Endpoint").fill("messages.*")
    form.get_by_label("Times").fill("3")
    form.get_by_role("button").click()
    expect(row(page, "faults", "messages.*")).to_contain_text("0 of 3")
    (fault,) = sim.get("faults")
    assert (fault["kind"], fault["mailbox"], fault["times"]) == ("throttle", "*", 3)
    row(page, "faults", "messages.*").get_by_role("button", name="Cancel").click()
    expect(page.locator("#faults")).to_contain_text("No faults are active.")
    assert sim.get("faults") == []


def test_a_button_moves_the_clock_forward(page, sim):
    before = sim.get("clock")["milliseconds"]
    page.goto("/")
    page.get_by_role("button", name="+ 1 hour").click()
    expect(page.get_by_role("status")).to_contain_text("Clock set to ")
    assert sim.get("clock")["milliseconds"] - before == 3_600_000


def test_invalid_input_shows_an_error(page, sim):
    page.goto("/")
    page.locator("form[action$='/mailbox']").get_by_label("Address").fill("nowhere")
    page.locator("form[action$='/mailbox']").get_by_role("button").click()
    expect(page.get_by_role("status")).to_have_text("'nowhere' is not an email address")


def test_live_sections_update_without_a_reload(page, sim, address):
    page.goto("/")
    sim.create("gmail", address, 5)
    expect(row(page, "mailboxes", address)).to_contain_text("5")
    sim.control.get(f"{sim.http}/gmail/v1/users/me/profile")
    expect(page.locator("#requests")).to_contain_text("/gmail/v1/users/me/profile")


def test_a_button_revokes_consent(page, sim, address):
    sim.create("gmail", address)
    sim.post("google/tokens", address=address)
    page.goto(f"/_sim/page/mailboxes/{address}")
    page.get_by_role("button", name="Revoke consent").click()
    expect(page.get_by_role("status")).to_have_text(f"revoke: 1 affected in {address}.")


@pytest.mark.parametrize(
    "path, fields",
    [
        ("mailbox", {}),
        ("mailbox", {"provider": "gmail", "address": "x@example.com", "messages": "many"}),
        ("mailbox", {"provider": "gmail", "address": "x@example.com", "messages": "1.5"}),
        ("mailbox", {"provider": "gmail", "address": "x@example.com", "messages": "1e400"}),
        ("mail", {"address": "nobody@example.com"}),
        ("mail", {"address": "nobody@example.com", "count": "nan"}),
        ("message", {"address": "nobody@example.com"}),
        ("fault", {"kind": "x"}),
        ("cancel", {"number": "x"}),
        ("clock", {"seconds": "-5"}),
        ("clock", {"seconds": "nan"}),
        ("trouble", {"order": "x"}),
    ],
)
def test_invalid_forms_redirect_with_an_error(sim, path, fields):
    answer = sim.control.post(f"{sim.http}/_sim/page/{path}", data={**fields, "back": "//evil.example/"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/?error=")


def test_unknown_files_and_forms_are_not_found(sim):
    for path in ("assets/routes.py", "assets/..%2Froutes.py", "assets/nothing.css"):
        assert sim.control.get(f"{sim.http}/_sim/page/{path}").status_code == 404
    assert sim.control.post(f"{sim.http}/_sim/page/nothing").status_code == 404
