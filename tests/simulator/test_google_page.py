"""The consent page in a real browser: choose an account, deselect a scope, allow, deny."""

from urllib.parse import urlencode

import httpx2
import pytest
from playwright.sync_api import expect

from browsers import needs_browser
from simulator.google_user import METADATA, READONLY
from simulator.push_receiver import receiving
from simulator.test_page import browser, page  # noqa: F401 (fixtures)

pytestmark = needs_browser


@pytest.fixture
def wanted(sim):
    client = sim.ready["clients"]["gmail"]
    with receiving() as receiver:
        asked = {
            "client_id": client["client_id"],
            "redirect_uri": f"{receiver.url}/callback",
            "response_type": "code",
            "scope": f"openid {READONLY} {METADATA}",
            "access_type": "offline",
            "state": "a&b c",
        }
        yield "/o/oauth2/v2/auth?" + urlencode(asked)


def test_a_user_selects_an_account_deselects_a_scope_and_allows(page, sim, address, wanted):  # noqa: F811
    sim.create("gmail", f"other.{address}", name="Grace Hopper")
    sim.create("gmail", address, name="Ada Lovelace")
    page.goto(wanted)
    page.get_by_label("Ada Lovelace").check()
    page.get_by_label("View metadata").uncheck()
    page.get_by_label("Duration").select_option("7 days")
    with page.expect_request("**/callback?*") as caught:
        page.get_by_role("button", name="Allow").click()
    answer = httpx2.URL(caught.value.url).params
    assert answer["scope"] == f"openid {READONLY}"
    assert answer["state"] == "a&b c"
    assert answer["code"].startswith("4/0A")


def test_a_user_denies_access(page, sim, address, wanted):  # noqa: F811
    sim.create("gmail", address)
    page.goto(wanted)
    with page.expect_request("**/callback?*") as caught:
        page.get_by_role("button", name="Cancel").click()
    assert dict(httpx2.URL(caught.value.url).params) == {"state": "a&b c", "error": "access_denied"}


def test_an_invalid_request_shows_an_error_page(page, wanted):  # noqa: F811
    page.on("console", lambda _: None)
    answer = page.request.get(wanted.replace("response_type=code", "response_type=token"))
    page.set_content(answer.text())
    expect(page.get_by_role("heading")).to_have_text("Access blocked")
    expect(page.get_by_text("Error 400: invalid_request")).to_be_visible()
