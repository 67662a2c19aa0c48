import asyncio
import re
import threading
from datetime import UTC, timedelta
from html.parser import HTMLParser

import httpx2
import pytest

import databases
from ledger_sealing import seal_ledger
from postroom.model import Role, WorkKind
from postroom.store import backlogs, ledger, work
from postroom.store.health import process_name
from postroom.store.ledger import NewLedgerEntry
from postroom.store.work import WorkRequest
from postroom.vault import LedgerHeads
from postroom.web import app, pages
from postroom.web.demo import count_duplicates
from postroom.web.ledger import LedgerPagesContext
from postroom.web.ledger import routes as ledger_routes
from store.table_filler import TableFiller
from web.sign_in_support import URL, build_site, create_session_cookie

MARK = "m4rked"


@pytest.fixture
async def site(database, organization):
    return build_site(database, organization)


@pytest.fixture
async def browser(site):
    transport = httpx2.ASGITransport(app.create(site), raise_app_exceptions=False)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://post.example", cookies=await create_session_cookie(site)
    ) as client:
        yield client


class Page(HTMLParser):
    """The cells of a table body and the ids of the parts that change."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.parts, self._in_body = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "data-part" in given:
            self.parts.append(given["id"])
        self._in_body = self._in_body or given.get("id") == "work"

    def handle_endtag(self, tag):
        self._in_body = self._in_body and tag != "tbody"

    def handle_data(self, data):
        if self._in_body and data.strip():
            self.cells.append(data.strip())


async def test_health_page_shows_work_by_kind(browser, database, organization, owner):
    async with database.engine() as connection:
        waiting = [WorkRequest(organization, WorkKind.SYNC, f"w{n}", delay=3600) for n in range(3)]
        await work.enqueue(
            connection,
            [
                *waiting,
                WorkRequest(organization, WorkKind.SYNC, "due"),
                WorkRequest(organization, "renew", "x"),
            ],
        )
        await work.claim(connection, ["renew"], batch=1, lease_seconds=60)
        await work.enqueue(connection, [WorkRequest(organization, "read", "p")])
        [lease] = (await work.claim(connection, ["read"], batch=1, lease_seconds=60)).leases
        await work.park(connection, lease, error="it is broken")
    page = Page((await browser.get("/health")).text)
    # kind, due, running, waiting, failing, parked, oldest due
    assert page.cells[:7] == ["Read", "0", "0", "0", "0", "1", "-"]
    assert page.cells[7:14] == ["Renew", "0", "1", "0", "0", "0", "-"]
    assert page.cells[14:20] == ["Sync", "1", "0", "3", "0", "0"]


async def due_for(owner, organization, *kinds):
    """Insert due work items of these kinds."""
    for number, kind in enumerate(kinds):
        await owner.execute(
            """
            INSERT INTO work (organization_id, kind, subject, due_at)
            VALUES (%s, %s, %s, postroom_now() - interval '1 min')
            """,
            [organization, kind, str(number)],
        )


async def test_overview_charts_the_last_hour_with_units(browser, database, owner, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    empty = (await browser.get("/overview/parts")).text
    assert "No new mail" in empty
    shown, newest = await show_busy_hour(browser, database, owner, organization)

    def at(minutes):
        return f"{newest.astimezone(UTC) - timedelta(minutes=minutes):%H:%M} UTC"

    for words in (
        f"{at(4)}: 1 message",
        "message in the last hour",
        "Peak: 1 per minute",
        f"{at(4)}: p50 1 min, p99 1 min",
        f"{at(3)}: no new mail",
        "median of the newest mail",
        f"{at(0)}: 42%",
        f"{at(10)}: 1 document",
        f"{at(0)}: 1 document",
        f"{at(5)}: 3 work items due",
        "Peak: 3 in the last hour",
        ">100%</text>",
    ):
        assert words in shown, words
    assert shown.count(f"{at(11)}: 1 document") == 1  # waiting for processing, but not for review yet


@pytest.mark.parametrize(
    "name, texts",
    [
        ("24h", [r"\d\d:(00|15|30|45)\u2013\d\d:(00|15|30|45) UTC: 1 message", "24 h ago"]),
        ("7d", [r"\d{4}-\d\d-\d\d \d\d:00\u2013\d\d:00 UTC: 1 message", "7 d ago"]),
        ("30d", [r"\d{4}-\d\d-\d\d (00|06|12|18):00\u2013(00|06|12|18):00 UTC: 1 message", "30 d ago"]),
        ("1y", [r"\d\d:\d\d UTC: 1 message", "60 min ago"]),
    ],
)
async def test_the_charts_show_other_ranges(browser, owner, organization, name, texts):
    await TableFiller(owner, organization).fill()
    shown = (await browser.get(f"/?range={name}")).text
    for pattern in texts:
        assert re.search(pattern, shown), pattern


async def show_busy_hour(browser, database, owner, organization):
    """The overview of an hour with mail, documents and due work, made and shown in the same minute."""
    minute = None
    while minute != (minute := await read_minute(owner)):
        await owner.execute(
            "UPDATE messages SET received_at = now() - interval '5 min',"
            " created_at = now() - interval '4 min'"
        )
        await owner.execute("UPDATE mailboxes SET connected_at = now() - interval '1 day'")
        await owner.execute("UPDATE reviews SET created_at = now() - interval '10 min'")
        await owner.execute(
            "UPDATE documents SET state = 'queued', created_at = now() - interval '20 min',"
            " state_since = now()"
        )
        await owner.execute("UPDATE quota_usage SET share = 0.42, minute = date_trunc('minute', now())")
        await owner.execute("DELETE FROM work")
        await owner.execute("DELETE FROM backlogs")
        await due_for(owner, organization, "sync", "sync", "renew")
        await backlogs.record(database)
        await owner.execute("UPDATE backlogs SET minute = minute - interval '5 min'")
        await owner.execute("DELETE FROM work")
        shown = (await browser.get("/")).text
    return shown, minute


async def read_minute(owner):
    [[minute]] = await (await owner.execute("SELECT date_trunc('minute', now())")).fetchall()
    return minute


async def test_failing_work_is_reported_as_a_problem(browser, database, organization):
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(organization, WorkKind.SUBSCRIBE, "x")])
        [lease] = (await work.claim(connection, [WorkKind.SUBSCRIBE], batch=1, lease_seconds=60)).leases
        await work.retry(connection, lease, delay=60, error="the secret has expired", counts=False)
    text = (await browser.get("/health")).text
    assert "Subscribe: 1 failed and will be retried. Last error: the secret has expired" in text
    assert "Healthy" not in text


async def test_unhealthy_mailboxes_are_reported_to_their_organization_only(
    browser, owner, organization, other_organization, make_mailbox
):
    async def make_unhealthy(organization, health):
        mailbox = await make_mailbox(organization)
        await owner.execute("UPDATE mailboxes SET health = %s WHERE id = %s", [health, mailbox])

    await make_unhealthy(other_organization, "provider_error")
    assert "denies access" not in (await browser.get("/health")).text
    await make_unhealthy(organization, "token_refresh_failed")
    text = (await browser.get("/health")).text
    assert "One mailbox: reconnect required" in text
    assert "denies access" not in text
    await make_unhealthy(organization, "token_refresh_failed")
    assert "2 mailboxes: reconnect required" in (await browser.get("/health/parts")).text


async def test_each_cause_is_reported_with_its_time_and_its_remedy(
    browser, owner, organization, make_mailbox
):
    mailbox = await make_mailbox(organization)
    await owner.execute(
        """
        UPDATE mailboxes SET health = 'operator_error', health_cause = 'secret_unreadable',
            health_since = '2026-03-01 10:30Z' WHERE id = %s
        """,
        [mailbox],
    )
    text = (await browser.get("/health")).text
    assert "One mailbox: grant unreadable since 2026-03-01 10:30 UTC." in text
    assert "Restore the vault" in text


async def test_only_the_operator_sees_work_of_other_organizations(
    browser, site, database, organization, other_organization
):
    async with database.engine() as connection:
        for owner, kind in ((organization, "ours"), (other_organization, "theirs")):
            await work.enqueue(connection, [WorkRequest(owner, kind, "x")])
            [lease] = (await work.claim(connection, [kind], batch=1, lease_seconds=60)).leases
            await work.retry(connection, lease, delay=60, error=f"the secret of {kind}", counts=False)
    other = build_site(database, other_organization)
    for role, whose, seen in (
        (Role.READER, site, {"ours"}),
        (Role.ADMIN, site, {"ours", "theirs"}),
        (Role.ADMIN, other, {"theirs"}),
    ):
        browser.cookies = await create_session_cookie(whose, role, f"{role}@example.net")
        for path in ("/health", "/health/parts", "/", "/overview/parts"):
            shown = (await browser.get(path)).text
            reported = set(re.findall("the secret of (ours|theirs)", shown))
            assert reported == seen, (path, role)
            assert ("PostgreSQL" in shown) == (seen == {"ours", "theirs"} and "health" in path)
        assert set(re.findall(r"<dt>(ours|theirs)</dt>", shown.lower())) == seen - (
            {"theirs"} if whose is site else set()
        )


async def test_ledger_verification_is_for_admins_and_runs_once_at_a_time(
    site, database, organization, tmp_path
):
    async with database.transaction(organization) as connection:
        await ledger.append_entries(
            connection, organization, [NewLedgerEntry("sync_started", "mailbox", "x")]
        )
    await seal_ledger(database, tmp_path, organization)
    begun, proceed = threading.Event(), threading.Event()

    def check(_key, _signature, _signed):
        begun.set()
        return proceed.wait(60)

    made = app.create(site, routes=ledger_routes(LedgerPagesContext(site, check, LedgerHeads(tmp_path))))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(made), base_url=URL, headers={"origin": URL}
    ) as client:
        client.cookies = await create_session_cookie(site, Role.REVIEWER)
        assert (await client.post("/ledger/verify")).status_code == 403
        assert "Verify ledger" not in (await client.get("/ledger")).text
        client.cookies = await create_session_cookie(site, Role.ADMIN)
        first = asyncio.create_task(client.post("/ledger/verify"))
        assert await asyncio.to_thread(begun.wait, 60)
        second = await client.post("/ledger/verify")
        proceed.set()
        assert (second.status_code, "already running" in second.text) == (409, True)
        assert "The ledger is intact" in (await first).text
        assert "The ledger is intact" in (await client.post("/ledger/verify")).text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "post.example.evil.example", "127.0.0.1.evil.example", "post.example@evil.example", ""],
)
async def test_unknown_host_name_shows_nothing(browser, host):
    for path in ("/", "/health/parts", "/sign-in", "/oauth/gmail/authorize", "/static/style.css"):
        answer = await browser.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert "set-cookie" not in answer.headers
    assert "Unknown host name" in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["post.example", "POST.example:8025", "localhost:1", "192.0.2.7:80", "[2001:db8::1]"]
)
async def test_pages_answer_under_known_host_names_and_ip_addresses(browser, host):
    assert (await browser.get("/", headers={"host": host})).status_code == 200


async def test_probes_answer_under_any_host_name(browser):
    for path in ("/healthz", "/readyz"):
        assert (await browser.get(path, headers={"host": "pod.cluster.local"})).status_code == 200


async def test_missing_worker_is_reported(browser, database_url, organization):
    health = (await browser.get("/health")).text
    assert "No worker is running" in health
    assert "Start one with <code>postroom work</code>" in health
    async with databases.open_pools(database_url, name=process_name("worker")) as other:
        transport = httpx2.ASGITransport(app.create(build_site(other, organization)))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://post.example", cookies=browser.cookies
        ) as client:
            assert "Healthy" in (await client.get("/health")).text


async def test_page_and_fragments_contain_the_same_parts(browser):
    whole, parts = (await browser.get("/health")).text, (await browser.get("/health/parts")).text
    assert Page(whole).parts == Page(parts).parts == ["verdict", "tiles", "work"]
    assert "<html" not in parts


async def test_values_from_the_database_are_escaped(browser, database, organization):
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(organization, "<script>alert(1)</script>", "x")])
    assert "<script>alert" not in (await browser.get("/health")).text


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/static/style.css", "/nope", "/static/nope"])
async def test_every_response_has_the_security_headers(browser, path):
    headers = (await browser.get(path)).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_https_responses_have_hsts(scheme, database, organization):
    made = app.create(build_site(database, organization, url=f"{scheme}://post.example"))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(made), base_url=f"{scheme}://post.example"
    ) as client:
        headers = (await client.get("/healthz")).headers
    assert ("strict-transport-security" in headers) == (scheme == "https")


@pytest.mark.parametrize("mark", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
def test_bidi_control_characters_never_reach_a_page(mark):
    shown = pages.neutralize_bidi(f"bill{mark}fdp.exe")
    assert mark not in shown
    assert shown.replace("\ufffd", "") == "billfdp.exe"
    assert pages.neutralize_bidi("שלום.pdf") == "שלום.pdf"


@pytest.mark.parametrize(
    "truth, kept, twice",
    [
        ("ab", [("a", "<1>"), ("b", "<2>")], 0),
        ("ab", [("a", "<1>"), ("b", "<1>")], 0),  # it lies twice at the provider too
        ("a", [("a", "<1>"), ("b", "<1>")], 1),  # kept under two names
        ("", [("a", "<1>")], 0),  # deleted there: extra, not double
        ("", [("a", "<1>"), ("b", "<1>"), ("c", "")], 1),
    ],
)
def test_message_stored_more_often_than_at_the_provider_is_a_duplicate(truth, kept, twice):
    assert count_duplicates(set(truth), kept) == twice


async def test_pages_comply_with_the_content_security_policy(browser):
    for path in ("/", "/nope"):
        text = (await browser.get(path)).text
        assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=|<style|https?://", text)


async def test_liveness_readiness_and_unknown_paths(browser):
    assert (await browser.get("/healthz")).text == "alive\n"
    assert (await browser.get("/readyz")).text == "ready\n"
    missing = await browser.get(f"/{MARK}")
    assert missing.status_code == 404
    assert "Page not found" in missing.text
    assert MARK not in missing.text
    assert (await browser.post("/")).status_code == 405
    assert (await browser.get("/static/../app.py")).status_code == 404


async def test_process_without_database_is_alive_but_not_ready(browser, database):
    await browser.post("/sign-out", headers={"origin": "http://elsewhere.example"})
    await database.engine_pool.close()
    await database.application_pool.close()
    assert (await browser.get("/healthz")).status_code == 200
    ready = await browser.get("/readyz")
    assert ready.status_code == 503
    page = await browser.get("/health")
    assert page.status_code == 200
    assert "Unavailable" in page.text, "a recent visitor still sees the problem"
    browser.cookies.clear()
    assert (await browser.get("/health")).status_code == 401


async def test_known_error_returns_its_status_without_its_message(browser, owner, log):
    await owner.execute("DROP TABLE work")
    for path in ("/", "/readyz"):
        answer = await browser.get(path)
        assert answer.status_code == 503
        assert "Postroom is temporarily unavailable" in answer.text
        assert "lacks a table" not in answer.text
    assert "lacks a table" in log.getvalue()


async def test_bug_returns_500_without_its_message_and_is_logged_by_class(browser, owner, log):
    await owner.execute("DROP TABLE work")
    await owner.execute(
        f"""
        CREATE VIEW work AS SELECT 'x' AS kind, 'waiting' AS state, now() AS leased_until, now() AS due_at,
            ('{MARK}' || random())::int::text AS last_error
        """
    )
    await owner.execute("GRANT SELECT ON work TO postroom_engine")
    answer = await browser.get("/health")
    assert answer.status_code == 500
    assert "content-security-policy" in answer.headers
    assert '"error": "InvalidTextRepresentation"' in log.getvalue()
    assert MARK not in answer.text + log.getvalue()


async def test_requests_are_logged_by_route_not_by_content(browser, log):
    await browser.get(f"/?q={MARK}", headers={"x-mark": MARK})
    await browser.get(f"/static/{MARK}")
    await browser.get(f"/{MARK}")
    assert log.getvalue().count("request.served") == 3
    assert MARK not in log.getvalue()
    assert "refused" not in log.getvalue()
