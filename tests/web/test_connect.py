"""C1, C5: the OAuth pages and the page of mailboxes, without a browser: cookies, origins, nonsense."""

import re
from urllib.parse import parse_qs, parse_qsl, urlsplit
from uuid import uuid4

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import databases
from example_counts import examples
from flow.simulated_world import URL, open_world, settings_given
from postroom.errors import PermanentError
from postroom.flow.mailboxes import invitations, lifecycle
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.invitations import Invitation
from postroom.model import ContentPolicy, ProviderName
from postroom.web import app, mailboxes
from postroom.web.connect import MailboxPagesContext
from providers.consent import consent
from simulator.driver import running
from web.sign_in_support import build_site, create_session, create_session_sync

TOPIC = "projects/mailsim/topics/gmail"


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def harness(sim, service_url, organization, tmp_path):
    async with (
        databases.open_pools(service_url) as database,
        open_world(sim, database, organization, tmp_path) as made,
    ):
        yield made


def visitor(harness, **cookies):
    site = build_site(harness.database, harness.organization, url=URL)
    application = app.create(
        site, routes=mailboxes.routes(MailboxPagesContext(harness.connect_context, harness.tokens, site))
    )
    transport = httpx2.ASGITransport(application, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=URL, cookies=cookies)


@pytest.fixture
async def browser(harness):
    session = await create_session(harness.database, harness.organization)
    async with visitor(harness, postroom_session=session) as client:
        yield client


async def connect(harness, browser, provider=ProviderName.GMAIL, **given):
    """Go through a consent page; the answer of our callback."""
    address = given.pop("address", None) or harness.person(provider)
    begun = await browser.get(f"/oauth/{provider}/authorize", params=given.pop("asked", {}))
    assert begun.status_code == 303, begun.text
    answer = await consent(begun.headers["location"], address, **given)
    return await browser.get(f"/oauth/{provider}/callback", params=answer)


async def test_login_redirects_to_the_provider_and_back(harness, browser):
    address = harness.person(ProviderName.GMAIL)
    done = await connect(harness, browser, address=address)
    assert done.status_code == 303
    page = await browser.get(done.headers["location"])
    assert f"{address} is connected" in page.text
    assert "The first sync has not finished yet" in page.text
    assert page.headers["cache-control"] == "no-store"


async def test_invited_owner_sees_no_member_pages(harness):
    """Whatever came of it: they could not open one, and their link is good for one login."""
    for untick, status, words in [
        (("gmail.readonly",), 400, "sent you the link for a new one"),
        ((), 200, "You can close this window"),
    ]:
        invitation = Invitation(harness.organization, ProviderName.GMAIL, ConnectRequest(), uuid4())
        asked = {
            "invitation": parse_qs(
                urlsplit(invitations.build_url(harness.connect_context, invitation)).query
            )["invitation"][0]
        }
        async with visitor(harness) as guest:
            done = await connect(harness, guest, asked=asked, untick=untick)
        assert (done.status_code, words in done.text) == (status, True)
        assert not re.search(r'href="/(mailboxes|oauth)', done.text)


async def test_browser_cookie_is_httponly_and_same_site(browser):
    cookie = (await browser.get("/oauth/gmail/authorize")).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie, "the address is http on this machine"


async def test_login_must_end_in_the_browser_that_started_it(harness, browser):
    begun = await browser.get("/oauth/gmail/authorize")
    answer = await consent(begun.headers["location"], harness.person(ProviderName.GMAIL))
    async with visitor(harness) as other:
        await other.get("/mailboxes")
        refused = await other.get("/oauth/gmail/callback", params=answer)
    assert refused.status_code == 400
    assert "This sign-in is not valid" in refused.text


async def test_two_logins_in_one_browser_both_succeed(harness, browser):
    urls = [(await browser.get("/oauth/gmail/authorize")).headers["location"] for _ in range(2)]
    for url in urls:
        answer = await consent(url, harness.person(ProviderName.GMAIL))
        assert (await browser.get("/oauth/gmail/callback", params=answer)).status_code == 303


async def test_unknown_provider_policy_or_mailbox_is_rejected(browser):
    assert (await browser.get("/oauth/imap/authorize")).status_code == 404
    assert (await browser.get("/oauth/imap/callback")).status_code == 404
    assert "Unknown content policy" in (await browser.get("/oauth/gmail/authorize?policy=all")).text
    for mailbox in ("nonsense", "00000000-0000-4000-8000-000000000009"):
        answer = await browser.get("/oauth/gmail/authorize", params={"mailbox": mailbox})
        assert answer.status_code == 400
        assert re.search("Mailbox not found|There is no such mailbox", answer.text)


async def mailbox_of(harness, browser):
    done = await connect(harness, browser)
    return parse_qs(urlsplit(done.headers["location"]).query)["connected"][0]


async def test_buttons_pause_resume_and_disconnect(harness, browser):
    mailbox = await mailbox_of(harness, browser)
    ours = {"origin": URL}
    for action, words in [("pause", "Paused"), ("resume", "Connected"), ("disconnect", "Disconnected")]:
        pressed = await browser.post(f"/mailboxes/{mailbox}/{action}", headers=ours)
        assert pressed.status_code == 303
        assert re.search(rf'class="badge [a-z]+">{words}<', (await browser.get("/mailboxes")).text)
    await browser.post(f"/mailboxes/{mailbox}/purge", headers=ours)
    assert "No mailboxes connected yet" in (await browser.get("/mailboxes")).text


async def test_ledger_records_the_actor_of_every_mailbox_action(harness, browser, owner):
    mailbox = await mailbox_of(harness, browser)
    for action in ("pause", "resume", "disconnect"):
        await browser.post(f"/mailboxes/{mailbox}/{action}", headers={"origin": URL})
    cursor = await owner.execute(
        """
        SELECT array_agg(event_type ORDER BY ledger.id), array_agg(DISTINCT actor_id),
            (SELECT array_agg('member:' || id) FROM members)
        FROM ledger WHERE entity_type IN ('mailbox', 'login')
        """
    )
    [(events, actors, members)] = await cursor.fetchall()
    assert events == [
        "MAILBOX_CONNECTED",
        "LOGIN_COMPLETED",
        "MAILBOX_PAUSED",
        "MAILBOX_RESUMED",
        "MAILBOX_DISCONNECTED",
    ]
    assert actors == members


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:10"}]
)
async def test_cross_site_actions_are_rejected(harness, browser, headers):
    mailbox = await mailbox_of(harness, browser)
    refused = await browser.post(f"/mailboxes/{mailbox}/purge", headers=headers)
    assert refused.status_code == 403
    async with visitor(harness) as stranger:
        refused = await stranger.post(f"/mailboxes/{mailbox}/purge", headers={"origin": URL})
    assert refused.status_code == 401, "nobody has signed in there"
    assert mailbox in (await browser.get("/mailboxes")).text


async def test_unknown_action_or_mailbox_returns_404(browser):
    await browser.get("/mailboxes")
    for path in ("/mailboxes/x/pause", "/mailboxes/00000000-0000-4000-8000-000000000009/explode"):
        assert (await browser.post(path, headers={"origin": URL})).status_code == 404


@pytest.mark.parametrize("provider", ProviderName)
async def test_policy_beyond_the_consent_names_the_link_that_grants_it(harness, browser, provider):
    address = harness.person(provider)
    await connect(harness, browser, provider, address=address, asked={"policy": "metadata"})
    [mailbox] = await found(harness)
    with pytest.raises(PermanentError) as refused:
        await lifecycle.set_policy(
            harness.connect_context, harness.organization, mailbox.id, ContentPolicy.DOCUMENTS
        )
    [link] = re.findall(rf"{URL}/oauth/{provider}/authorize\?\S+", str(refused.value))
    for asked in (dict(parse_qsl(urlsplit(link).query)), {"mailbox": str(mailbox.id)}):
        done = await connect(harness, browser, provider, address=address, asked=asked)
        assert done.headers["location"] == f"/mailboxes?connected={mailbox.id}"
        [after] = await found(harness)
        assert (after.id, after.policy) == (mailbox.id, ContentPolicy.DOCUMENTS)


async def test_lost_grant_is_shown_with_a_reconnect_link(harness, browser):
    address = harness.person(ProviderName.GMAIL)
    await connect(harness, browser, address=address)
    [mailbox] = await found(harness)
    harness.sim.post(f"mailboxes/{address}/revoke")
    with pytest.raises(Exception, match="Connect the mailbox again"):
        await harness.source(mailbox).replace_rejected(await harness.source(mailbox).get_token())
    page = (await browser.get("/mailboxes")).text
    assert "Reconnect required" in page
    assert f'"/oauth/gmail/authorize?mailbox={mailbox.id}"' in page
    done = await connect(harness, browser, address=address, asked={"mailbox": str(mailbox.id)})
    assert done.headers["location"] == f"/mailboxes?connected={mailbox.id}"
    assert "Reconnect required" not in (await browser.get("/mailboxes")).text


async def found(harness):
    from postroom.store import mailboxes as stored

    async with harness.database.transaction(harness.organization) as connection:
        return await stored.list_all(connection)


async def test_application_alert_is_shown_on_the_mailboxes_page(harness, browser):
    harness.sim.post("microsoft/refusals", code=7000222)
    try:
        refused = await connect(harness, browser, ProviderName.OUTLOOK)
    finally:
        harness.sim.delete("microsoft/refusals")
    assert refused.status_code == 503
    assert "Postroom is misconfigured" in refused.text
    assert "AADSTS7000222" in (await browser.get("/mailboxes")).text


_words = st.text(max_size=60) | st.sampled_from(
    ["access_denied", "gmail", "full", "x" * 5000, "\x00", "%00", "é"]
)
_names = st.sampled_from(
    [
        "state",
        "code",
        "error",
        "error_description",
        "scope",
        "session_state",
        "admin_consent",
        "iss",
        "policy",
        "mailbox",
        "address",
        "again",
        "invitation",
    ]
)


@pytest.mark.hypothesis
def test_no_oauth_parameters_cause_a_500(app_url):
    with httpx2.Client(base_url=app_url.url, trust_env=False, timeout=30) as client:

        @settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            path=st.sampled_from(
                [f"/oauth/{p}/{way}" for p in ("gmail", "outlook", "x") for way in ("authorize", "callback")]
            ),
            given_parameters=st.lists(st.tuples(_names, _words), max_size=8),
            cookie=st.sampled_from(["", "postroom_browser=" + "A" * 43, "postroom_browser=;;", "x=%ff"]),
            member=st.booleans(),
            fresh=st.booleans(),
        )
        def check(path, given_parameters, cookie, fresh, member):
            if fresh:  # a state that is good, and everything else nonsense
                begun = client.get(
                    "/oauth/gmail/authorize",
                    headers={"cookie": "; ".join(["postroom_browser=" + "A" * 43, app_url.session])},
                )
                [state] = parse_qs(urlsplit(begun.headers["location"]).query)["state"]
                given_parameters = [*given_parameters, ("state", state)]
            cookies = "; ".join([*filter(None, [cookie]), *([app_url.session] if member else [])])
            answer = client.get(path, params=given_parameters, headers={"cookie": cookies} if cookies else {})
            assert answer.status_code in {303, 400, 401, 404, 503}, (answer.status_code, given_parameters)
            for name, value in given_parameters:
                if name in {"code", "state", "error_description"} and len(value) > 20:
                    assert value not in answer.text

        check()


@pytest.fixture
def app_url(sim, tmp_path, database_url):
    """A `postroom serve` of its own, whose output is checked at the end for what must not be in it."""
    from scenarios.postroom_process import PostroomProcess

    given = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()}
    with PostroomProcess(
        tmp_path,
        "serve",
        "--port",
        "0",
        **databases.login_settings(database_url),
        POSTROOM_LOG_LEVEL="debug",
        **given,
    ) as server:
        server.url = server.line("Postroom: ")
        server.session = f"postroom_session={create_session_sync(database_url, tmp_path / 'home')}"
        yield server
        server.end()
        assert not [line for line in server.said if "refused=" in line or "A" * 43 in line]
