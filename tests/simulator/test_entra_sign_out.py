"""Sign-out at Entra: the browser's session ends, and the browser returns to a registered URI.

"OpenID Connect on the Microsoft identity platform", section "Send a sign-out request",
https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc
"""

import httpx2
import pytest

from simulator.entra_login import REDIRECT, SCOPE, EntraLogin, redirect_parameters

LOGOUT = "/common/oauth2/v2.0/logout"


@pytest.fixture
def login(sim, address):
    """Return an application with one redirect URI, and a browser in which its user signed in."""
    sim.create("outlook", address)
    application = sim.post("applications", provider="outlook", name="Postbox", redirect_uris=[REDIRECT])
    with httpx2.Client(base_url=sim.http, trust_env=False) as browser:
        login = EntraLogin(browser, application, address)
        login.code()
        yield login


def is_signed_in(login):
    return "code" in redirect_parameters(login.page(prompt="none", scope=SCOPE))


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", [LOGOUT, "/common/oauth2/logout"])
def test_signing_out_ends_the_session_and_returns_to_the_application(login, method, path):
    assert is_signed_in(login)
    answer = login.browser.request(
        method, path, params={"post_logout_redirect_uri": REDIRECT, "state": "a b"}
    )
    assert (answer.status_code, answer.headers["location"]) == (302, f"{REDIRECT}?state=a+b")
    assert not is_signed_in(login)


@pytest.mark.parametrize("uri", ["", "https://elsewhere.example.org/", "//[", f"{REDIRECT}/more"])
def test_signing_out_shows_a_page_unless_the_uri_is_registered(login, uri):
    answer = login.browser.post(LOGOUT, data={"post_logout_redirect_uri": uri})
    assert answer.status_code == 200
    assert "You signed out" in answer.text
    assert not is_signed_in(login)


def test_an_application_without_redirect_uris_accepts_any_after_its_own_sign_in(sim, login):
    client = sim.ready["clients"]["outlook"]
    target = {"post_logout_redirect_uri": "https://elsewhere.example.org/"}
    EntraLogin(login.browser, client, login.address).code()
    assert login.browser.get(LOGOUT, params=target).headers["location"] == target["post_logout_redirect_uri"]
    assert login.browser.get(LOGOUT, params=target).status_code == 200


def test_tokens_stay_valid_after_signing_out(sim, login):
    tokens = login.redeem(login.code()).json()
    assert login.browser.get(LOGOUT).status_code == 200
    headers = {"authorization": f"Bearer {tokens['access_token']}"}
    assert httpx2.get(f"{sim.http}/v1.0/me/messages", headers=headers, trust_env=False).status_code == 200
    assert login.refresh(tokens["refresh_token"]).status_code == 200


def test_the_openid_configuration_names_the_endpoint(sim, login):
    for version in ("", "v2.0/"):
        configuration = login.browser.get(f"/common/{version}.well-known/openid-configuration").json()
        assert login.browser.get(configuration["end_session_endpoint"]).status_code == 200
    assert "AADSTS90002" in login.browser.get("/nowhere.example.org/oauth2/v2.0/logout").text
