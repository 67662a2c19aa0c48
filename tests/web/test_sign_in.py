"""W6: links, passwords, roles, lock-out, sessions, and forms that only we can send."""

import asyncio
import re
import threading
from functools import partial

import httpx2
import pytest
from argon2 import extract_parameters
from argon2.profiles import RFC_9106_LOW_MEMORY
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.access import members, passwords, sign_in
from postroom.model import Role, Secret
from postroom.store import ledger, sign_in_failures
from postroom.store import sessions as stored
from postroom.web import app, mailboxes, throttle
from postroom.web.connect import MailboxPagesContext
from postroom.web.sessions import LookupProgress, get_visitor, member_route
from web.push_server import serve
from web.sign_in_support import SEALER, URL, build_site, create_session_cookie

PASSWORD = "correct horse battery"
OURS = {"origin": URL}


@pytest.fixture
def site(database, organization):
    return build_site(database, organization)


async def whoami(request):
    return PlainTextResponse(f"{get_visitor(request).address} {get_visitor(request).role}")


def client_of(site, source="192.0.2.1", **options):
    routes = [
        member_route(site, "/who", whoami),
        member_route(site, "/review", whoami, Role.REVIEWER, methods=["POST"]),
        member_route(site, "/manage", whoami, Role.ADMIN, methods=["GET", "POST"]),
    ]
    application = app.create(site, routes=routes)
    transport = httpx2.ASGITransport(application, raise_app_exceptions=False, client=(source, 1))
    return httpx2.AsyncClient(transport=transport, base_url=site.url, **options)


@pytest.fixture
async def browser(site):
    async with client_of(site) as client:
        yield client


@pytest.fixture
async def ann(database, organization):
    member = await members.add(database, organization, "Ann@Example.org", role=Role.REVIEWER, name="Ann")
    await members.set_password(database, member, Secret(PASSWORD))
    return member


async def enter(browser, address="ann@example.org", password=PASSWORD, **more):
    form = {"address": address, "password": password, **more}
    return await browser.post("/sign-in", data=form, headers=OURS)


async def list_entries(database, organization):
    async with database.transaction(organization) as connection:
        return (await ledger.list_newest(connection, limit=50))[::-1]


async def reported(database, organization):
    return [each.event_type for each in await list_entries(database, organization)]


def test_hashes_cost_what_rfc_9106_recommends(password_hasher):
    assert extract_parameters(password_hasher.hash(PASSWORD)) == RFC_9106_LOW_MEMORY


async def test_password_signs_in_and_sign_out_ends_the_session(browser, ann, database, organization):
    done = await enter(browser, next="/who")
    assert (done.status_code, done.headers["location"]) == (303, "/who")
    assert (await browser.get("/who")).text == "ann@example.org reviewer"
    session = browser.cookies["postroom_session"]
    left = await browser.post("/sign-out", headers=OURS)
    assert left.headers["location"] == "/sign-in"
    browser.cookies.set("postroom_session", session)
    assert (await browser.get("/who")).status_code == 401
    entries = (await list_entries(database, organization))[-2:]
    assert [each.event_type for each in entries] == ["MEMBER_SIGNED_IN", "MEMBER_SIGNED_OUT"]
    assert {each.actor_id for each in entries} == {f"member:{ann.id}"}


async def test_session_cookie_is_httponly_and_database_stores_only_a_digest(browser, ann, owner):
    cookie = (await enter(browser)).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie, "the address is http"
    token = browser.cookies["postroom_session"]
    cursor = await owner.execute("SELECT * FROM sessions")
    assert token not in str(await cursor.fetchall())


async def test_https_session_cookie_has_the_host_prefix(database, organization, ann):
    site = build_site(database, organization, url="https://post.example")
    async with client_of(site) as browser:
        done = await browser.post(
            "/sign-in",
            data={"address": "ann@example.org", "password": PASSWORD},
            headers={"origin": "https://post.example"},
        )
    assert re.match(r"__Host-postroom=.*Path=/; SameSite=lax; Secure", done.headers["set-cookie"])


@pytest.mark.parametrize("accept, status", [("text/html", 303), ("*/*", 401)])
async def test_without_a_session_browsers_are_redirected_and_scripts_get_401(browser, accept, status):
    answer = await browser.get("/who?a=b", headers={"accept": accept})
    assert answer.status_code == status
    if status == 303:
        assert answer.headers["location"] == "/sign-in?next=%2Fwho%3Fa%3Db"
        page = await browser.get(answer.headers["location"])
        assert 'value="/who?a=b"' in page.text


@pytest.mark.parametrize(
    "given", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "", "/\t/evil"]
)
async def test_sign_in_never_redirects_to_another_site(browser, ann, given):
    assert (await enter(browser, next=given)).headers["location"] == "/"


@pytest.mark.parametrize("role, seen", [("reader", [200, 403, 403]), ("reviewer", [200, 200, 403])])
async def test_role_grants_its_routes_and_no_higher_ones(site, browser, role, seen):
    browser.cookies.update(await create_session_cookie(site, Role(role)))
    found = [
        (await browser.get("/who")).status_code,
        (await browser.post("/review", headers=OURS)).status_code,
        (await browser.get("/manage")).status_code,
    ]
    assert found == seen


async def test_changed_role_applies_to_the_next_request(site, browser, ann, database):
    await enter(browser)
    assert (await browser.get("/manage")).status_code == 403
    await members.set_role(database, ann, Role.ADMIN)
    assert (await browser.get("/manage")).status_code == 200
    await members.set_role(database, (await member_again(database, ann)), Role.ADMIN)


async def member_again(database, member):
    return await members.find(database, member.organization, member.address)


async def test_removed_member_is_signed_out_immediately(browser, ann, database):
    await enter(browser)
    await members.remove(database, ann)
    assert (await browser.get("/who")).status_code == 401


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null"])
async def test_cross_site_forms_are_rejected(site, browser, ann, origin):
    browser.cookies.update(await create_session_cookie(site))
    headers = {"origin": origin} if origin else {}
    for path in ("/manage", "/sign-out", "/sign-in", "/sign-in/link"):
        form = {"address": "ann@example.org", "password": PASSWORD, "token": "x"}
        assert (await browser.post(path, data=form, headers=headers)).status_code == 403, path


async def test_five_wrong_passwords_lock_with_the_same_response_for_unknown_addresses(
    browser, ann, database, organization, move_clock
):
    answers = [await enter(browser, password="wrong" * 3) for _ in range(5)]
    answers.append(await enter(browser))
    answers.append(await enter(browser, address="nobody@example.org"))
    assert {(each.status_code, each.text) for each in answers} == {(403, answers[0].text)}
    assert (await reported(database, organization)).count("SIGN_IN_REFUSED") == 5
    await move_clock(61)
    assert (await enter(browser)).status_code == 303


async def test_stranger_cannot_lock_a_member_out(site, browser, ann, owner, database, organization):
    """Neither from one source nor from many, and the ledger grows by the logarithm of their number."""
    async with client_of(site, source="192.0.2.66") as stranger:
        for _ in range(6):
            await enter(stranger, password="wrong" * 3)
        assert (await enter(stranger)).status_code == 403, "this source is locked"
    async with client_of(site, source="192.0.2.67") as member:
        assert (await enter(member)).status_code == 303
    await owner.execute(
        """
        INSERT INTO sign_in_failures (organization_id, member_id, source, failures, locked_until)
        SELECT %s, %s, format('2001:db8:%%s::/64', number), 9, postroom_now() + interval '1 hour'
        FROM generate_series(1, 3000) AS number
        """,
        [organization, ann.id],
    )
    assert (await enter(browser, password="wrong" * 3)).status_code == 403
    assert (await enter(browser)).status_code == 303
    assert (await reported(database, organization)).count("SIGN_IN_REFUSED") == 5
    cursor = await owner.execute("SELECT count(*) FROM sign_in_failures")
    assert (await cursor.fetchone())[0] <= sign_in_failures.MAX_SOURCES


async def test_one_ipv6_network_is_one_source(site, ann):
    for number in range(5):
        async with client_of(site, source=f"2001:db8::{number}") as stranger:
            await enter(stranger, password="wrong" * 3)
    async with client_of(site, source="2001:db8::ffff") as stranger:
        assert (await enter(stranger)).status_code == 403
    async with client_of(site, source="2001:db8:0:1::1") as member:
        assert (await enter(member)).status_code == 303


async def test_check_that_waits_is_cancelled_when_its_client_disconnects(
    site, browser, ann, database, organization
):
    release = threading.Event()
    busy = [passwords._threads.submit(release.wait, 60) for _ in range(2)]
    try:
        async with serve(app.create(site)) as url:
            body = b"address=ann%40example.org&password=wrong+password"
            head = f"POST /sign-in HTTP/1.1\r\nHost: post.example\r\nOrigin: {URL}\r\n"
            connections = []
            for _ in range(throttle.MAX_SIGN_INS):
                _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                connections.append(writer)
            await wait_for_sign_ins(site, throttle.MAX_SIGN_INS)
            for writer in connections:
                writer.close()
            await wait_for_sign_ins(site, 0)
    finally:
        release.set()
    for each in busy:
        await asyncio.wrap_future(each)
    assert (await enter(browser)).status_code == 303
    assert "SIGN_IN_REFUSED" not in await reported(database, organization)


async def wait_for_sign_ins(site, count):
    async with asyncio.timeout(30):
        while site.sign_ins.count != count:  # noqa: ASYNC110  the queue has no event
            await asyncio.sleep(0.01)


async def test_parallel_password_attempts_are_all_counted(browser, ann, database, organization):
    tries = [*(f"wrong password {number}" for number in range(10)), PASSWORD]
    answers = await asyncio.gather(*(enter(browser, password=each) for each in tries))
    assert {each.status_code for each in answers} == {403}
    assert (await reported(database, organization)).count("SIGN_IN_REFUSED") == 5


async def test_sign_ins_beyond_the_queue_are_turned_away_at_once_and_not_counted(
    browser, ann, database, organization
):
    strangers = (
        enter(browser, address=f"stranger{number}@example.com") for number in range(throttle.MAX_SIGN_INS)
    )
    *others, own = await asyncio.gather(*strangers, enter(browser, password="wrong password"))
    assert {each.status_code for each in others} == {403}
    assert own.status_code == 503
    assert "SIGN_IN_REFUSED" not in await reported(database, organization)
    assert (await enter(browser)).status_code == 303


async def test_lock_doubles_with_each_failure_and_success_resets_it(browser, ann, move_clock):
    for _ in range(5):
        await enter(browser, password="wrong")
    await move_clock(61)
    await enter(browser, password="wrong")
    await move_clock(61)
    assert (await enter(browser)).status_code == 403, "two minutes now"
    await move_clock(61)
    assert (await enter(browser)).status_code == 303
    await enter(browser, password="wrong")
    assert (await enter(browser)).status_code == 303


async def test_source_that_only_fails_is_blocked(browser, ann):
    """However slow the machine is, more fail in a second than a second forgives."""
    answers = [
        (await browser.post("/sign-in/link", data={"token": "x" * 43}, headers=OURS)).status_code
        for _ in range(120)
    ]
    assert set(answers[:20]) == {403}
    assert 429 in answers


async def test_parallel_failures_block_the_source_and_successes_are_free(browser, ann, database):
    for _ in range(32):
        token = await sign_in.create_link(database, ann)
        done = await browser.post("/sign-in/link", data={"token": token.reveal()}, headers=OURS)
        assert done.status_code == 303
    tries = (browser.post("/sign-in/link", data={"token": "x" * 43}, headers=OURS) for _ in range(60))
    answers = [each.status_code for each in await asyncio.gather(*tries)]
    assert set(answers) == {403, 429}


async def test_link_signs_in_once_and_previews_do_not_use_it_up(browser, ann, owner, database, move_clock):
    cursor = await owner.execute("SELECT name FROM organizations WHERE id = %s", [ann.organization])
    [organization_name] = await cursor.fetchone()
    token = await sign_in.create_link(database, ann)
    url = sign_in.build_link_url(URL, token)
    for _ in range(2):
        page = await browser.get(url)
        assert f'value="{token.reveal()}"' in page.text
        assert "<script" not in page.text
        assert "ann@example.org" in page.text
        assert organization_name in page.text
    for status in (303, 403):
        done = await browser.post("/sign-in/link", data={"token": token.reveal()}, headers=OURS)
        assert done.status_code == status
    late = await sign_in.create_link(database, ann)
    await move_clock(3601)
    done = await browser.post("/sign-in/link", data={"token": late.reveal()}, headers=OURS)
    assert done.status_code == 403


async def test_link_of_another_account_replaces_a_session_only_after_asking(
    browser, ann, database, make_organization
):
    await enter(browser)
    other_organization = await make_organization("Example Trading")
    session = browser.cookies["postroom_session"]
    mallory = await members.add(database, other_organization, "mallory@example.com", role=Role.ADMIN)
    token = await sign_in.create_link(database, mallory)
    form = {"token": token.reveal()}
    asked = await browser.post("/sign-in/link", data=form, headers=OURS)
    assert asked.status_code == 409
    assert "set-cookie" not in asked.headers
    for named in ("ann@example.org", "mallory@example.com", "Example Trading"):
        assert named in asked.text
    assert (await browser.get("/who")).text == "ann@example.org reviewer"
    form["replace"] = re.search(r'name="replace" value="([^"]+)"', asked.text)[1]
    assert (await browser.post("/sign-in/link", data=form, headers=OURS)).status_code == 303
    assert (await browser.get("/who")).text == "mallory@example.com admin"
    browser.cookies.clear()
    browser.cookies.set("postroom_session", session)
    assert (await browser.get("/who")).status_code == 401


async def test_link_token_is_no_session_and_session_token_is_no_link(browser, ann, database):
    token = await sign_in.create_link(database, ann)
    browser.cookies.set("postroom_session", token.reveal())
    assert (await browser.get("/who")).status_code == 401
    browser.cookies.clear()
    await enter(browser)
    session = browser.cookies["postroom_session"]
    done = await browser.post("/sign-in/link", data={"token": session}, headers=OURS)
    assert done.status_code == 403


async def test_session_expires_without_use_and_after_thirty_days(site, browser, ann, move_clock):
    await enter(browser)
    for _ in range(3):
        await move_clock(11 * 3600)
        assert (await browser.get("/who")).status_code == 200
    await move_clock(13 * 3600)
    assert (await browser.get("/who")).status_code == 401
    await enter(browser)
    for _ in range(65):
        await move_clock(11 * 3600)
        await browser.get("/who")
    await move_clock(5 * 3600)
    assert (await browser.get("/who")).status_code == 401


async def test_new_password_ends_existing_sessions(browser, ann, database):
    await enter(browser)
    await members.set_password(database, ann, Secret("another one entirely"))
    assert (await browser.get("/who")).status_code == 401
    with pytest.raises(PermanentError, match="12 to 1000"):
        await members.set_password(database, ann, Secret("short"))


async def test_address_in_two_organizations_signs_in_where_the_password_matches(
    browser, ann, database, other_organization
):
    other = await members.add(database, other_organization, "ann@example.org", role=Role.ADMIN)
    await members.set_password(database, other, Secret("the other password"))
    await enter(browser, password="the other password")
    assert (await browser.get("/who")).text == "ann@example.org admin"


async def test_last_admin_cannot_be_removed(database, organization):
    admin, made = await members.ensure_admin(database, organization)
    again, made_again = await members.ensure_admin(database, organization)
    assert (made, made_again, admin.id == again.id) == (True, False, True)
    for act in (members.remove, partial(members.set_role, role=Role.READER)):
        with pytest.raises(PermanentError, match="last admin"):
            await act(database, admin)
    await members.add(database, organization, "bob@example.org", role=Role.ADMIN)
    await members.remove(database, admin)


async def test_unreachable_database_admits_only_recent_visitors(browser, ann, database):
    await enter(browser)
    await database.engine_pool.close()
    assert (await browser.get("/who")).status_code == 503
    assert (await browser.get("/sign-in")).status_code == 200


async def test_every_route_needs_a_role_or_is_listed_as_open(site, database):
    context = MailboxPagesContext(None, None, site)
    made = app.create(site, routes=mailboxes.routes(context))
    while not hasattr(made, "routes"):
        made = made._app
    routes = made.routes
    opened = {route.path for route in routes if not hasattr(getattr(route, "endpoint", None), "needed")}
    # The API asks for a key; a test of its own walks it.
    assert opened == app.OPEN
    for route in routes:
        if isinstance(route, Route) and route.path not in app.OPEN:
            assert route.endpoint.needed in Role


def test_digests_differ_and_sealed_values_have_one_purpose():
    from postroom.vault import sealed_values

    assert stored.digest(Secret("a")) != stored.digest(Secret("b"))
    sealed = sealed_values.seal(SEALER, "one", b"x", 60)
    assert sealed_values.unseal(SEALER, "one", sealed) == b"x"
    assert sealed_values.unseal(SEALER, "two", sealed) is None
    assert sealed_values.unseal(SEALER, "one", sealed[:-2] + "AA") is None
    assert sealed_values.unseal(SEALER, "one", sealed_values.seal(SEALER, "one", b"x", -1)) is None
    assert sealed_values.unseal(SEALER, "one", "nonsense") is None


async def test_session_lookups_that_queue_are_no_outage():
    """Together they take longer than the limit, but one completes at a time."""
    progress, connection = LookupProgress(), asyncio.Semaphore(1)

    async def look_up():
        async with progress.stall_timeout(1), connection:
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(look_up())


async def test_session_lookup_times_out_when_none_completes():
    with pytest.raises(TimeoutError):
        async with LookupProgress().stall_timeout(0.1):
            await asyncio.Event().wait()
