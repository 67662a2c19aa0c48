"""K5 while mailboxes come and go: accounts, codes, states and tokens are in no log and on no error page."""

import asyncio
import json
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

import databases
from flow.simulated_world import TOPIC, settings_given
from providers.consent import consent
from scenarios.postroom_process import PostroomProcess
from simulator.driver import running
from web.sign_in_support import create_session_sync

MARK = "m4rk3d"


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        for provider in ("gmail", "outlook"):
            simulation.create(provider, f"{MARK}.{provider}@example.com", messages=1)
        simulation.control.put("requests", json={"bodies": True})
        yield simulation


def secrets_of(sim):
    """Every token that the simulator gave out."""
    for exchange in sim.get("requests", limit=1000):
        text = exchange.get("response_body") or ""
        if exchange["path"].endswith("/token") and text.startswith("{"):
            recorded = json.loads(text)
            yield from (
                recorded[name] for name in ("access_token", "refresh_token", "id_token") if name in recorded
            )


def login(browser, provider, secrets, **how):
    begun = browser.get(f"/oauth/{provider}/authorize")
    answer = asyncio.run(consent(begun.headers["location"], f"{MARK}.{provider}@example.com", **how))
    secrets += [answer["state"], *filter(None, [answer.get("code")])]
    secrets += parse_qs(urlsplit(begun.headers["location"]).query)["code_challenge"]
    return browser.get(f"/oauth/{provider}/callback", params=answer | {"error_description": MARK})


def test_connecting_logs_no_personal_data(sim, tmp_path, database_url):
    secrets, pages = [], []
    given = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()}
    given |= {**databases.login_settings(database_url), "POSTROOM_LOG_LEVEL": "debug"}
    with PostroomProcess(tmp_path, "serve", "--port", "0", **given) as server:
        url = server.line("Postroom: ")
        session = create_session_sync(database_url, tmp_path / "home")
        secrets.append(session)
        cookies = {"postroom_session": session}
        with httpx2.Client(
            base_url=url, trust_env=False, timeout=30, headers={"origin": url}, cookies=cookies
        ) as browser:
            for provider in ("gmail", "outlook"):
                pages.append(login(browser, provider, secrets, decision="deny").text)
                assert login(browser, provider, secrets).status_code == 303
                pages.append(browser.get(f"/oauth/{provider}/callback?state={MARK}&code={MARK}").text)
                pages.append(browser.get(f"/oauth/{provider}/authorize?address={MARK}&policy={MARK}").text)
                sim.fault("error", provider=provider, endpoint="*token", status=503)
                pages.append(login(browser, provider, secrets).text)
                sim.delete("faults")
            for mailbox in browser.get("/mailboxes").text.split('id="mailbox-')[1:]:
                assert browser.post(f"/mailboxes/{mailbox[:36]}/purge").status_code == 303
        server.end()
    given_out = list(secrets_of(sim))
    assert len(given_out) >= 6
    secrets += given_out
    said = "".join(server.said)
    assert said.count("request.served") > 10
    for secret in (
        *secrets,
        MARK,
        *(given[f"POSTROOM_{name}_CLIENT_SECRET"] for name in ("GOOGLE", "MICROSOFT")),
    ):
        assert secret not in said
        assert not [page for page in pages if secret in page]
    assert "[refused]" not in said
