import asyncio
import re
import threading
from html.parser import HTMLParser

import httpx2
import pytest

from postroom.model import Role, WorkKind
from postroom.store import backlogs, ledger, work
from postroom.store.database import open_database
from postroom.store.health import process_name
from postroom.store.ledger import Entry, Signer
from postroom.store.work import Wake
from postroom.web import app, pages
from postroom.web.demo import count_duplicates
from postroom.web.ledger import LedgerPagesContext
from postroom.web.ledger import routes as ledger_routes
from store.rows import Filling
from web.signing import URL, cookie_of, gate_of

MARK = "m4rked"


@pytest.fixture
async def site(database, organization):
    return gate_of(database, organization)


@pytest.fixture
async def browser(site):
    transport = httpx2.ASGITransport(app.create(site), raise_app_exceptions=False)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://post.example", cookies=await cookie_of(site)
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


async def test_the_page_shows_work_by_kind(browser, database, organization, owner):
    async with database.engine() as connection:
        waiting = [Wake(organization, WorkKind.SYNC, f"w{n}", delay=3600) for n in range(3)]
        await work.wake(
            connection, [*waiting, Wake(organization, WorkKind.SYNC, "due"), Wake(organization, "renew", "x")]
        )
        await work.claim(connection, ["renew"], batch=1, lease_seconds=60)
        await work.wake(connection, [Wake(organization, "read", "p")])
        [lease] = (await work.claim(connection, ["read"], batch=1, lease_seconds=60)).leases
        await work.park(connection, lease, error="it is broken")
    page = Page((await browser.get("/health")).text)
    # kind, due, running, waiting, failing, parked, oldest due
    assert page.cells[:7] == ["read", "0", "0", "0", "0", "1", "-"]
    assert page.cells[7:14] == ["renew", "0", "1", "0", "0", "0", "-"]
    assert page.cells[14:20] == ["sync", "1", "0", "3", "0", "0"]


async def due_for(owner, organization, *kinds):
    """So much work that waits for somebody to begin it."""
    for number, kind in enumerate(kinds):
        await owner.execute(
            """
            INSERT INTO work (organization_id, kind, subject, due_at)
            VALUES (%s, %s, %s, postroom_now() - interval '1 min')
            """,
            [organization, kind, str(number)],
        )


async def test_the_overview_plots_the_last_hour_with_units(browser, database, owner, organization):
    filling = Filling(owner, organization)
    await filling.fill()
    empty = (await browser.get("/overview/parts")).text
    assert "no new mail in the last hour" in empty
    await owner.execute(
        "UPDATE messages SET received_at = now() - interval '5 min', created_at = now() - interval '4 min'"
    )
    await owner.execute("UPDATE mailboxes SET connected_at = now() - interval '1 day'")
    await owner.execute("UPDATE reviews SET created_at = now() - interval '10 min'")
    await owner.execute(
        "UPDATE documents SET state = 'queued', created_at = now() - interval '20 min', state_since = now()"
    )
    await owner.execute("UPDATE quota_uses SET share = 0.42, minute = date_trunc('minute', now())")
    await owner.execute("DELETE FROM work")
    await due_for(owner, organization, "sync", "sync", "renew")
    await backlogs.note(database)
    await owner.execute("UPDATE backlogs SET minute = minute - interval '5 min'")
    await owner.execute("DELETE FROM work")
    await due_for(owner, organization, "process_document", "deliver")
    shown = (await browser.get("/")).text
    for words in (
        "1 message, 4 min ago",
        "1 message in the last hour",
        "1 min, 4 min ago",
        "half of the hour&#39;s new mail in 1 min",
        "42%, this minute",
        "1 to review, 10 min ago",
        "1 to review, this minute",
        "1 to be read, 20 min ago",
        "1 to be read, this minute",
        "2 mailboxes to sync, 1 piece of upkeep, 5 min ago",
        "1 document to read, 1 webhook to tell, this minute",
        "at most 3 in the last hour",
        "<span>100%</span>",
    ):
        assert words in shown, words
    assert "1 to review, 11 min ago" not in shown


async def test_work_that_fails_is_a_problem_in_words(browser, database, organization):
    async with database.engine() as connection:
        await work.wake(connection, [Wake(organization, WorkKind.SUBSCRIBE, "x")])
        [lease] = (await work.claim(connection, [WorkKind.SUBSCRIBE], batch=1, lease_seconds=60)).leases
        await work.retry(connection, lease, delay=60, error="the secret has expired", counts=False)
    text = (await browser.get("/health")).text
    assert "1 of the kind subscribe failed and is tried again: the secret has expired" in text
    assert "All is well" not in text


async def test_mailboxes_that_are_ill_are_a_problem_in_words_for_their_organization_alone(
    browser, owner, organization, other_organization, make_mailbox
):
    async def ill(organization, health):
        mailbox = await make_mailbox(organization)
        await owner.execute("UPDATE mailboxes SET health = %s WHERE id = %s", [health, mailbox])

    await ill(other_organization, "provider_error")
    assert "refused by the provider" not in (await browser.get("/health")).text
    await ill(organization, "token_refresh_failed")
    text = (await browser.get("/health")).text
    assert "One mailbox: the connection is lost" in text
    assert "refused by the provider" not in text
    await ill(organization, "token_refresh_failed")
    assert "2 mailboxes: the connection is lost" in (await browser.get("/health/parts")).text


async def test_nobody_but_who_runs_it_sees_the_work_of_others(
    browser, site, database, organization, other_organization
):
    async with database.engine() as connection:
        for owner, kind in ((organization, "ours"), (other_organization, "theirs")):
            await work.wake(connection, [Wake(owner, kind, "x")])
            [lease] = (await work.claim(connection, [kind], batch=1, lease_seconds=60)).leases
            await work.retry(connection, lease, delay=60, error=f"the secret of {kind}", counts=False)
    other = gate_of(database, other_organization)
    for role, whose, seen in (
        (Role.READER, site, {"ours"}),
        (Role.ADMIN, site, {"ours", "theirs"}),
        (Role.ADMIN, other, {"theirs"}),
    ):
        browser.cookies = await cookie_of(whose, role, f"{role}@example.net")
        for path in ("/health", "/health/parts", "/", "/overview/parts"):
            shown = (await browser.get(path)).text
            told = set(re.findall("the secret of (ours|theirs)", shown))
            assert told == seen, (path, role)
            assert ("PostgreSQL" in shown) == (seen == {"ours", "theirs"} and "health" in path)
        assert set(re.findall(r"<dt>(ours|theirs)</dt>", shown)) == seen - (
            {"theirs"} if whose is site else set()
        )


async def test_a_ledger_is_verified_for_admins_one_at_a_time_and_nobody_waits_for_it(
    site, database, organization
):
    async with database.transaction(organization) as connection:
        await ledger.append(connection, organization, [Entry("sync_started", "mailbox", "x")])
        await ledger.seal(connection, organization, Signer("k1", lambda _: b"signed"))
    begun, go_on = threading.Event(), threading.Event()

    def check(_key, _signature, _signed):
        begun.set()
        return go_on.wait(60)

    made = app.create(site, routes=ledger_routes(LedgerPagesContext(site, (), check)))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(made), base_url=URL, headers={"origin": URL}
    ) as client:
        client.cookies = await cookie_of(site, Role.REVIEWER)
        assert (await client.post("/ledger/verify")).status_code == 403
        assert "Verify every entry" not in (await client.get("/ledger")).text
        client.cookies = await cookie_of(site, Role.ADMIN)
        first = asyncio.create_task(client.post("/ledger/verify"))
        assert await asyncio.to_thread(begun.wait, 60)
        second = await client.post("/ledger/verify")
        go_on.set()
        assert (second.status_code, "being verified already" in second.text) == (409, True)
        assert "The ledger is whole" in (await first).text
        assert "The ledger is whole" in (await client.post("/ledger/verify")).text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "post.example.evil.example", "127.0.0.1.evil.example", "post.example@evil.example", ""],
)
async def test_a_strangers_name_for_this_machine_shows_nothing(browser, host):
    for path in ("/", "/health/parts", "/sign-in", "/oauth/gmail/authorize", "/static/style.css"):
        answer = await browser.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert "set-cookie" not in answer.headers
    assert "does not answer to that name" in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["post.example", "POST.example:8025", "localhost:1", "192.0.2.7:80", "[2001:db8::1]"]
)
async def test_pages_answer_to_their_own_names_and_to_addresses_in_figures(browser, host):
    assert (await browser.get("/", headers={"host": host})).status_code == 200


async def test_probes_may_come_under_any_name(browser):
    for path in ("/healthz", "/readyz"):
        assert (await browser.get(path, headers={"host": "pod.cluster.local"})).status_code == 200


async def test_without_a_worker_the_page_says_so_and_with_one_it_does_not(
    browser, database_url, organization
):
    assert "No worker is connected" in (await browser.get("/health")).text
    async with open_database(database_url, pool_size=3, name=process_name("worker")) as other:
        transport = httpx2.ASGITransport(app.create(gate_of(other, organization)))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://post.example", cookies=browser.cookies
        ) as client:
            assert "All is well" in (await client.get("/health")).text


async def test_the_parts_that_change_are_the_same_in_page_and_refresh(browser):
    whole, parts = (await browser.get("/health")).text, (await browser.get("/health/parts")).text
    assert Page(whole).parts == Page(parts).parts == ["verdict", "tiles", "work"]
    assert "<html" not in parts


async def test_what_comes_from_the_database_is_escaped(browser, database, organization):
    async with database.engine() as connection:
        await work.wake(connection, [Wake(organization, "<script>alert(1)</script>", "x")])
    assert "<script>alert" not in (await browser.get("/health")).text


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/static/style.css", "/nope", "/static/nope"])
async def test_every_answer_carries_the_safe_headers(browser, path):
    headers = (await browser.get(path)).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_who_came_over_tls_is_told_to_come_by_nothing_else(scheme, database, organization):
    made = app.create(gate_of(database, organization, url=f"{scheme}://post.example"))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(made), base_url=f"{scheme}://post.example"
    ) as client:
        headers = (await client.get("/healthz")).headers
    assert ("strict-transport-security" in headers) == (scheme == "https")


@pytest.mark.parametrize("mark", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
def test_no_mark_that_turns_words_around_reaches_a_page(mark):
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
def test_a_letter_kept_more_often_than_the_provider_has_it_is_a_duplicate(truth, kept, twice):
    assert count_duplicates(set(truth), kept) == twice


async def test_no_page_needs_more_than_the_policy_allows(browser):
    for path in ("/", "/nope"):
        text = (await browser.get(path)).text
        assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=|<style|https?://", text)


async def test_alive_ready_and_missing(browser):
    assert (await browser.get("/healthz")).text == "alive\n"
    assert (await browser.get("/readyz")).text == "ready\n"
    missing = await browser.get(f"/{MARK}")
    assert missing.status_code == 404
    assert "There is no such page" in missing.text
    assert MARK not in missing.text
    assert (await browser.post("/")).status_code == 405
    assert (await browser.get("/static/../app.py")).status_code == 404


async def test_without_its_database_the_process_is_alive_but_not_ready(browser, database):
    await browser.post("/sign-out", headers={"origin": "http://elsewhere.example"})
    await database.engine_pool.close()
    await database.application_pool.close()
    assert (await browser.get("/healthz")).status_code == 200
    ready = await browser.get("/readyz")
    assert ready.status_code == 503
    page = await browser.get("/health")
    assert page.status_code == 200
    assert "Not working" in page.text, "who was in a moment ago still sees what is wrong"
    browser.cookies.clear()
    assert (await browser.get("/health")).status_code == 401


async def test_a_known_error_is_answered_by_its_status_and_without_its_words(browser, owner, log):
    await owner.execute("DROP TABLE work")
    for path in ("/", "/readyz"):
        answer = await browser.get(path)
        assert answer.status_code == 503
        assert "Postroom cannot answer right now" in answer.text
        assert "lacks a table" not in answer.text
    assert "lacks a table" in log.getvalue()


async def test_a_mistake_of_ours_is_answered_without_its_words_and_logged_by_class(browser, owner, log):
    await owner.execute("DROP TABLE work")
    await owner.execute(
        f"""
        CREATE VIEW work AS SELECT 'x' AS kind, now() AS leased_until, now() AS due_at,
            ('{MARK}' || random())::int::text AS last_error
        """
    )
    await owner.execute("GRANT SELECT ON work TO postroom_engine")
    answer = await browser.get("/health")
    assert answer.status_code == 500
    assert "content-security-policy" in answer.headers
    assert '"error": "InvalidTextRepresentation"' in log.getvalue()
    assert MARK not in answer.text + log.getvalue()


async def test_requests_are_logged_by_route_never_by_what_was_asked(browser, log):
    await browser.get(f"/?q={MARK}", headers={"x-mark": MARK})
    await browser.get(f"/static/{MARK}")
    await browser.get(f"/{MARK}")
    assert log.getvalue().count("request.served") == 3
    assert MARK not in log.getvalue()
    assert "refused" not in log.getvalue()


@pytest.mark.parametrize(
    "value, words",
    [(0, "0 B"), (999, "999 B"), (8_000_000, "8.0 MB"), (42_500_000, "42 MB"), (3e12, "3.0 TB")],
)
def test_sizes_are_readable(value, words):
    assert pages.size(value) == words


@pytest.mark.parametrize(
    "value, words",
    [(-0.1, "0 ms"), (0.0042, "4 ms"), (1, "1 s"), (90, "2 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_durations_are_readable(value, words):
    assert pages.duration(value) == words
