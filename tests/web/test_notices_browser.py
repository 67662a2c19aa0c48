"""An admin adds, tests, edits and removes a destination in Chromium, with a mouse and on a phone."""

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from browsers import needs_browser
from smtp_server import mail_server
from web.test_pages_browser import browsing

pytestmark = needs_browser


@pytest.mark.parametrize("width", [1280, 390])
async def test_admin_manages_a_destination(width, database_url, tmp_path):
    async with mail_server() as smtp:
        settings = {"POSTROOM_SMTP_URL": smtp.url, "POSTROOM_SMTP_FROM": "postroom@example.org"}
        look = {"viewport": {"width": width, "height": 800}}
        async with browsing(database_url, tmp_path, settings, **look) as (page, _, complaints):
            await page.goto("/organization")
            await page.get_by_role("link", name="Destinations and quiet hours").click()
            new = page.get_by_role("region", name="Add a destination")
            await new.get_by_label("Name").fill("Accounts payable")
            await expect(new.get_by_label("Webhook URL")).to_be_hidden()
            await new.get_by_label("Send by").select_option("slack")
            await expect(new.get_by_label("Email addresses")).to_be_hidden()
            await expect(new.get_by_label("Webhook URL")).to_be_visible()
            await new.get_by_label("Send by").select_option("email")
            await new.get_by_label("Email addresses").fill("ap@example.com")
            await new.get_by_label("Review overdue").check()
            await new.get_by_label("Quiet from").fill("22:00")
            await new.get_by_label("Quiet until").fill("07:00")
            await new.get_by_role("button", name="Add destination").click()
            await expect(page.get_by_role("rowheader", name="Accounts payable")).to_be_visible()
            await page.get_by_role("button", name="Send test notice").click()
            await expect(page.get_by_role("status")).to_have_text("Test notice to Accounts payable: sent.")
            assert len(smtp.accepted) == 1
            await page.get_by_text("Edit", exact=True).click()
            form = page.locator("form[action$='/change']")
            await form.get_by_label("Email addresses").fill("ap@example.com, ops@example.com")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            found = (await Axe().run(page)).response["violations"]
            assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
            await form.get_by_role("button", name="Save").click()
            await expect(page.get_by_role("rowheader", name="ops@example.com")).to_be_visible()
            await page.get_by_text("Remove", exact=True).click()
            await page.get_by_role("button", name="Remove destination").click()
            await expect(page.get_by_text("No destinations yet")).to_be_visible()
            assert complaints == []
