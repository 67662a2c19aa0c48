"""The whole story in one browser: connect, mail arrives, its document is there without a reload, a person
sees where each field is, corrects and confirms, and another application receives a webhook.
"""

import asyncio
import json
import re
import socket

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright, expect
from standardwebhooks import Webhook as Referee
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from browsers import launch_options, needs_browser
from flow.simulated_world import settings_given
from scenarios.postroom_process import PostroomProcess
from simulator.driver import running
from web.push_server import serve
from web.test_connect_browser import agree

pytestmark = needs_browser
ADDRESS = "ann@example.com"
PATIENCE = 180_000
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.fixture
def sim():
    with running("--quota", "off") as simulation:
        simulation.create("outlook", ADDRESS, messages=2)
        yield simulation


@pytest.fixture
async def reported():
    """What an outside application is reported: its address, and a queue of headers and bodies."""
    heard = asyncio.Queue()

    async def take(request):
        heard.put_nowait((dict(request.headers), await request.body()))
        return Response(status_code=204)

    async with serve(Starlette(routes=[Route("/events", take, methods=["POST"])])) as url:
        yield f"{url}/events", heard


@pytest.fixture
async def page(sim, database_url, tmp_path):
    """A browser that signed in with the link that `postroom up` printed."""
    (tmp_path / "pipelines.toml").write_text('[invoices]\nkind = "invoice"\nconfirm_above = 1.0\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = settings_given(sim) | {
        "database_url": database_url,
        "home": tmp_path / "home",
        "public_url": f"http://127.0.0.1:{port}",
        "pipelines": tmp_path / "pipelines.toml",
        "webhook_networks": "127.0.0.0/8",
        "simulator_url": sim.ready["control"],
    }
    environment = {f"POSTROOM_{name.upper()}": str(value) for name, value in given.items()}
    with PostroomProcess(tmp_path, "up", "--port", str(port), **environment) as server:
        link = server.line("Sign in (single use, valid for one hour): ")
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(**launch_options())
            page = await browser.new_page(viewport=DESKTOP, base_url=given["public_url"])
            page.set_default_timeout(PATIENCE)
            await page.goto(link)
            await page.get_by_role("button", name="Sign in as").click()
            await expect(page.get_by_role("heading", name="Overview")).to_be_visible(timeout=PATIENCE)
            yield page
            await browser.close()
        assert server.end() == 0


async def usable(page):
    """Check accessibility, on a phone too."""
    await page.set_viewport_size(PHONE)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
    found = (await Axe().run(page)).response["violations"]
    assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == [], page.url
    await page.set_viewport_size(DESKTOP)


async def connected(page):
    """A mailbox, by the consent page of its provider; its subscription is active."""
    await page.goto("/mailboxes")
    await page.get_by_role("link", name="Full messages").last.click()
    await agree(page, ADDRESS)
    await expect(page.locator("section[role=status]")).to_contain_text(f"{ADDRESS} is connected")
    while "Active, expires in" not in await page.get_by_role("region", name=ADDRESS).inner_text():
        await asyncio.sleep(0.3)
        await page.goto("/mailboxes")
    await usable(page)


async def webhook_to(page, url):
    """The secret of a webhook that is reported of documents."""
    body = {"url": url, "kinds": ["document.changed"]}
    address = page.url.partition("/mailboxes")[0]
    answer = await page.request.post("/api/v1/webhooks", data=body, headers={"origin": address})
    assert answer.status == 201, await answer.text()
    return (await answer.json())["secret"]


async def reviewed(page):
    """Fields and boxes highlight each other; one field is corrected, the rest is confirmed."""
    await page.get_by_role("link", name=re.compile(r"\.pdf$")).click()
    await expect(page.get_by_role("heading", name="Needs review")).to_be_visible()
    assert await page.locator(".sheet img").first.evaluate(
        "async each => (await each.decode(), each.naturalWidth)"
    )
    await page.get_by_label("Invoice number").focus()
    await expect(page.locator("rect[data-field=number]")).to_have_class(re.compile("shown"))
    await page.locator("rect[data-field=gross]").click(force=True)
    await page.get_by_role("button", name="Go to Gross amount").click()
    await expect(page.get_by_label("Gross amount")).to_be_focused()
    await usable(page)
    document = page.url
    await page.get_by_label("Invoice number").fill("R-4711")
    await rows_typed(page)
    await page.get_by_role("button", name="Confirm").click()
    await expect(page).to_have_url(re.compile(r"/documents\?state=needs_review$"))
    await page.goto(document)
    await expect(page.get_by_text(re.compile("^Corrected by .* Originally: "))).to_have_count(2)
    await expect(page.get_by_label("Invoice number")).to_have_value("R-4711")
    return document.rpartition("/")[2]


async def rows_typed(page):
    """The lines of an invoice by the keyboard: one removed, one added, a cell refused and put right."""
    rows = page.locator('tbody[data-rows="lines"]')
    count = await rows.locator("tr").count()
    await rows.get_by_role("button", name="Remove row 1", exact=True).press("Enter")
    await expect(rows.locator("tr")).to_have_count(count - 1)
    await rows.locator("tr:last-child input").first.fill("By hand")
    await rows.locator("tr:last-child input").last.fill("forty")
    await page.keyboard.press("Enter")
    await expect(rows.locator("tr")).to_have_count(count)
    await expect(rows.locator("tr:last-child input").last).to_be_focused()
    await page.keyboard.press("Control+Enter")
    refused = page.get_by_label(re.compile(f"^Amount.*row {count - 1}$"))
    await expect(refused).to_be_focused()
    await expect(refused).to_have_value("forty")
    await expect(page.locator(".wrong")).to_contain_text("a number such as 1234.50, not forty")
    await expect(page.get_by_label("Invoice number")).to_have_value("R-4711")
    await usable(page)
    await refused.fill("40.00")


async def test_mail_becomes_a_record_live(page, sim, reported):
    url, heard = reported
    await connected(page)
    secret = await webhook_to(page, url)
    await page.goto("/documents")
    await expect(page.locator("#live")).to_have_text("Live")
    await page.evaluate("window.same = true")
    order = {"kind": "invoice", "variant": "letterhead", "language": "en"}
    await asyncio.to_thread(sim.deliver, ADDRESS, **order)
    row = page.locator("#rows tr", has_text="Needs review")
    await expect(row).to_be_visible(timeout=PATIENCE)
    assert await page.evaluate("window.same"), "without a reload"
    document = await reviewed(page)
    while True:
        headers, body = await heard.get()
        Referee(secret).verify(body, headers)
        if json.loads(body)["data"]["state"] == "completed":
            break
    assert json.loads(body)["data"]["entity_id"] == document
    await page.get_by_role("link", name="message", exact=True).click()
    await expect(page.frame_locator("iframe.message-body").locator("body")).not_to_be_empty()
    await usable(page)
    await page.goto("/demo")
    await expect(page.get_by_role("cell", name="Connected")).to_be_visible()
    await usable(page)
