"""Sign-in at simulated Entra with a plain HTTP client."""

import re
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jwt
import pytest

from simulator.entra_login import (
    CHALLENGE,
    REDIRECT,
    SCOPE,
    VERIFIER,
    EntraLogin,
    assert_refused,
    redirect_parameters,
)


@pytest.fixture
def application(sim):
    return sim.post("applications", provider="outlook", name="Postbox", redirect_uris=[REDIRECT])


@pytest.fixture
def browser(sim):
    with httpx2.Client(base_url=sim.http, trust_env=False) as client:
        yield client


@pytest.fixture
def login(sim, browser, application, address):
    sim.create("outlook", address, name="Ann Example", messages=2)
    return EntraLogin(browser, application, address)


def test_the_consent_page_names_application_permissions_and_accounts(login):
    page = login.page()
    assert page.status_code == 200
    for word in ("Postbox", "Mail.Read", "offline_access", login.address, "Ann Example"):
        assert word in page.text


def test_the_form_of_the_consent_page_repeats_the_request(login):
    action = unescape(re.search(r'<form method="post" action="([^"]+)"', login.page().text)[1])
    assert dict(parse_qsl(action[1:])) == login.request()


def test_accepting_returns_a_code_and_the_same_state(login):
    answer = redirect_parameters(login.decide())
    assert answer["state"] == "s t/a=te"
    assert set(answer) == {"code", "state", "session_state"}


def test_cancelling_returns_access_denied(login):
    answer = redirect_parameters(login.decide(decision="deny"))
    assert answer["error"] == "access_denied"
    assert answer["error_description"].startswith("AADSTS65004")
    assert "code" not in answer


def test_a_code_is_exchanged_for_access_refresh_and_id_token(login):
    body = login.redeem(login.code(nonce="n-1")).json()
    assert set(body) == {
        "token_type", "scope", "expires_in", "ext_expires_in", "access_token", "refresh_token", "id_token",
    }  # fmt: skip
    assert body["scope"] == "Mail.Read openid profile email"
    assert 3600 <= body["expires_in"] < 5400
    claims = jwt.decode(body["id_token"], options={"verify_signature": False})
    assert claims["nonce"] == "n-1"
    assert claims["aud"] == login.application["client_id"]
    assert (claims["name"], claims["preferred_username"], claims["email"]) == (
        "Ann Example",
        login.address,
        login.address,
    )


def test_without_offline_access_and_openid_there_is_only_an_access_token(login):
    body = login.redeem(login.code(scope="Mail.Read")).json()
    assert "refresh_token" not in body
    assert "id_token" not in body


def test_without_profile_the_id_token_does_not_identify_the_user(login):
    body = login.redeem(login.code(scope="openid Mail.Read")).json()
    claims = jwt.decode(body["id_token"], options={"verify_signature": False})
    assert not {"oid", "preferred_username", "email"} & set(claims)


def test_a_code_is_valid_once(login):
    code = login.code()
    assert login.redeem(code).status_code == 200
    assert_refused(login.redeem(code), 54005, "invalid_grant")


def test_a_code_expires_after_ten_minutes(sim, login):
    code = login.code()
    sim.move_clock(601)
    assert_refused(login.redeem(code), 70008, "invalid_grant")


def test_an_unknown_code_is_refused(login):
    assert_refused(login.redeem("1.nothing"), 70000, "invalid_grant")


def test_a_code_requires_the_redirect_uri_it_was_sent_to(login):
    assert_refused(login.redeem(login.code(), redirect_uri=REDIRECT + "/"), 500112, "invalid_client", 401)


@pytest.mark.parametrize("method, challenge", [("S256", CHALLENGE), ("plain", VERIFIER), (None, VERIFIER)])
def test_pkce_requires_the_verifier_of_its_challenge(login, method, challenge):
    asked = {"code_challenge": challenge, "code_challenge_method": method}
    assert_refused(login.redeem(login.code(**asked)), 501481, "invalid_grant")
    assert_refused(login.redeem(login.code(**asked), code_verifier="w" * 50), 501481, "invalid_grant")
    assert login.redeem(login.code(**asked), code_verifier=VERIFIER).status_code == 200


def test_each_response_mode_returns_the_result_in_its_place(login):
    fragment = urlsplit(login.decide(response_mode="fragment").headers["location"])
    assert "code" in dict(parse_qsl(fragment.fragment))
    assert not fragment.query
    form = login.decide(response_mode="form_post")
    assert form.status_code == 200
    assert f'action="{REDIRECT}"' in form.text
    assert 'name="code"' in form.text


def test_a_query_in_the_redirect_uri_is_preserved(sim, browser, address):
    uri = "https://app.example.com/back?keep=1"
    application = sim.post("applications", provider="outlook", redirect_uris=[uri])
    sim.create("outlook", address)
    answer = redirect_parameters(EntraLogin(browser, application, address).decide(redirect_uri=uri))
    assert answer["keep"] == "1"
    assert "code" in answer


def test_an_unknown_redirect_uri_shows_an_error_page_and_is_never_followed(login):
    answer = login.page(redirect_uri="https://evil.example/back")
    assert answer.status_code == 400
    assert "AADSTS50011" in answer.text
    assert "location" not in answer.headers


def test_a_loopback_redirect_uri_matches_on_any_port(sim, browser, address):
    application = sim.post("applications", provider="outlook", redirect_uris=["http://localhost/back"])
    sim.create("outlook", address)
    login = EntraLogin(browser, application, address)
    assert "code" in redirect_parameters(login.decide(redirect_uri="http://localhost:51234/back"))
    assert login.page(redirect_uri="http://localhost:51234/other").status_code == 400


@pytest.mark.parametrize(
    "change, error",
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": None}, "invalid_request"),
        ({"scope": "Mail.Rad"}, "invalid_scope"),
        ({"scope": "https://other.example/Mail.Read"}, "invalid_resource"),
        ({"prompt": "nonsense"}, "invalid_request"),
        ({"response_mode": "smoke"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "S512"}, "invalid_request"),
        ({"prompt": "none"}, "login_required"),
    ],
)
def test_an_invalid_request_redirects_back_with_error_and_state(login, change, error):
    login.browser.cookies.clear()
    answer = redirect_parameters(login.page(**change))
    assert (answer["error"], answer["state"]) == (error, "s t/a=te")


@pytest.mark.parametrize(
    "change", [{"client_id": None}, {"client_id": "00000000-0000-4000-8000-000000000000"}]
)
def test_an_unknown_client_gets_an_error_page(login, change):
    assert login.page(**change).status_code == 400


def test_a_browser_that_consented_before_is_redirected_at_once(login):
    login.decide()
    assert "code" in redirect_parameters(login.page())
    assert "code" in redirect_parameters(login.page(prompt="none"))
    assert login.page(prompt="consent").status_code == 200
    assert login.page(prompt="select_account").status_code == 200


def test_a_signed_in_browser_is_asked_again_for_more_permissions(login):
    login.decide()
    more = SCOPE + " Mail.Send"
    assert login.page(scope=more).status_code == 200
    assert redirect_parameters(login.page(scope=more, prompt="none"))["error"] == "interaction_required"


def test_auto_consent_uses_the_hinted_account(sim, login):
    sim.control.patch("microsoft/options", json={"auto_consent": True})
    try:
        code = redirect_parameters(login.page(login_hint=login.address))["code"]
        claims = jwt.decode(login.redeem(code).json()["id_token"], options={"verify_signature": False})
        assert claims["preferred_username"] == login.address
    finally:
        sim.control.patch("microsoft/options", json={"auto_consent": False})


def test_refreshing_issues_a_new_token_and_keeps_the_old_one_valid(login):
    first = login.redeem(login.code()).json()["refresh_token"]
    second = login.refresh(first).json()["refresh_token"]
    assert second != first
    assert login.refresh(first).status_code == 200
    assert login.refresh(second).status_code == 200


def test_a_refresh_token_expires_after_ninety_days_without_use(sim, login):
    first = login.redeem(login.code()).json()["refresh_token"]
    sim.move_clock(89 * 86400)
    second = login.refresh(first).json()["refresh_token"]
    sim.move_clock(2 * 86400)
    body = assert_refused(login.refresh(first), 700082, "invalid_grant")
    assert body["suberror"] == "token_expired"
    assert login.refresh(second).status_code == 200


def test_a_refresh_may_request_fewer_scopes_but_not_more(login):
    token = login.redeem(login.code(scope=SCOPE + " User.Read")).json()["refresh_token"]
    assert login.refresh(token, scope="User.Read openid").json()["scope"].split()[0] == "User.Read"
    assert_refused(login.refresh(token, scope="Mail.Send"), 65001, "invalid_grant")
    assert_refused(login.refresh(token, scope="Mail.Rad"), 70011, "invalid_scope")


def test_a_refresh_token_belongs_to_its_client(sim, login):
    token = login.redeem(login.code()).json()["refresh_token"]
    stranger = sim.post("applications", provider="outlook")
    assert_refused(EntraLogin(login.browser, stranger, login.address).refresh(token), 70000, "invalid_grant")


def test_a_single_page_app_needs_pkce_no_secret_and_a_sign_in_every_day(sim, browser, address):
    application = sim.post("applications", provider="outlook", redirect_uris=[REDIRECT])
    settings = {"spa_redirect_uris": ["https://spa.example.com/"]}
    sim.control.patch(f"microsoft/applications/{application['client_id']}", json=settings)
    sim.create("outlook", address)
    login = EntraLogin(browser, application | {"client_secret": None}, address)
    spa = {"redirect_uri": "https://spa.example.com/"}
    assert redirect_parameters(login.page(**spa))["error"] == "invalid_request"
    code = login.code(**spa, code_challenge=CHALLENGE, code_challenge_method="S256")
    first = login.redeem(code, **spa, code_verifier=VERIFIER).json()["refresh_token"]
    sim.move_clock(20 * 3600)
    second = login.refresh(first).json()["refresh_token"]
    sim.move_clock(5 * 3600)
    assert_refused(login.refresh(second), 700084, "invalid_grant")


@pytest.mark.parametrize(
    "reason, code", [("consent", 65001), ("password", 50173), ("session", 50173), ("70043", 70043)]
)
def test_a_revoked_grant_is_refused_with_its_reason(sim, login, reason, code):
    token = login.redeem(login.code()).json()["refresh_token"]
    assert sim.post(f"mailboxes/{login.address}/revoke", reason=reason)["count"] == 1
    assert_refused(login.refresh(token), code, "invalid_grant")
    again = login.redeem(login.code()).json()["refresh_token"]
    assert login.refresh(again).status_code == 200


CODES = {
    "invalid_grant": (
        65001, 50173, 700082, 70008, 700084, 70043, 70000, 50089, 54005, 501481, 700005, 50057, 50034, 50074,
        50076, 50078, 53003, 50196,
    ),
    "interaction_required": (50072, 50079, 50158, 53000, 53001, 53002, 53004),
    "invalid_client": (7000215, 7000222, 700027),
    "unauthorized_client": (700016, 7000112),
    "invalid_request": (900144, 9002313, 90002),
    "invalid_scope": (70011,),
    "temporarily_unavailable": (90033, 90024, 90006),
    "server_error": (50033,),
}  # fmt: skip
STATUSES = {"invalid_client": 401, "temporarily_unavailable": 503, "server_error": 500}


@pytest.mark.parametrize("error, code", [(error, code) for error, codes in CODES.items() for code in codes])
def test_every_kind_of_refusal_can_be_planned_once(sim, login, error, code):
    token = login.redeem(login.code()).json()["refresh_token"]
    sim.post("microsoft/refusals", code=code, mailbox=login.address, times=1)
    assert_refused(login.refresh(token), code, error, STATUSES.get(error, 400))
    assert login.refresh(token).status_code == 200
    assert sim.get("microsoft/refusals") == []


def test_a_refusal_lasts_until_cancelled_and_affects_only_the_named_account(sim, login, microsoft):
    mine = login.redeem(login.code()).json()["refresh_token"]
    other = f"other-{login.address}"
    theirs = microsoft.connect(sim, other).tokens["refresh_token"]
    ordered = sim.post("microsoft/refusals", code=53003, mailbox=login.address)
    default = EntraLogin(login.browser, sim.ready["clients"]["outlook"], other)
    for _ in range(3):
        assert_refused(login.refresh(mine), 53003, "invalid_grant")
        assert default.refresh(theirs).status_code == 200
    sim.delete(f"microsoft/refusals/{ordered['number']}")
    assert login.refresh(mine).status_code == 200


def test_a_refusal_by_application_affects_all_its_users(sim, login):
    sim.post("microsoft/refusals", code=7000222, application=login.application["client_id"])
    tenant = login.application["tenant"]
    answer = login.token("client_credentials", tenant, scope="https://graph.microsoft.com/.default")
    assert_refused(answer, 7000222, "invalid_client", 401)
    sim.delete("microsoft/refusals")


def test_a_refusal_at_the_authorize_endpoint_redirects_to_the_application(sim, login):
    sim.post("microsoft/refusals", code=90094, where="authorize", mailbox=login.address, times=1)
    assert redirect_parameters(login.decide())["error"] == "access_denied"
    assert "code" in redirect_parameters(login.decide())


def test_scheduled_faults_apply_to_the_token_endpoint(sim, login):
    token = login.redeem(login.code()).json()["refresh_token"]
    sim.fault("token_error", mailbox=login.address, code="AADSTS90033", times=1)
    assert_refused(login.refresh(token), 90033, "temporarily_unavailable", 503)
    assert login.refresh(token).status_code == 200
    sim.fault("consent_revoked", mailbox=login.address, times=1)
    assert_refused(login.refresh(token), 65001, "invalid_grant")
    assert_refused(login.refresh(token), 65001, "invalid_grant")
    assert sim.meter(login.address)["calls"]["token"] == 5


def test_client_credentials_require_a_concrete_tenant(login):
    scope = "https://graph.microsoft.com/.default"
    for tenant in ("common", "organizations", "consumers"):
        assert_refused(login.token("client_credentials", tenant, scope=scope), 9001023, "invalid_request")
    for tenant in (login.application["tenant"], "example.com"):
        body = login.token("client_credentials", tenant, scope=scope).json()
        assert set(body) == {"token_type", "expires_in", "ext_expires_in", "access_token"}
        assert body["expires_in"] == 3599
    wrong = login.token("client_credentials", "example.com", scope="Mail.Read")
    assert_refused(wrong, 70011, "invalid_scope")


def test_the_client_authenticates_by_form_or_basic_header(login):
    form = {"grant_type": "client_credentials", "scope": "https://graph.microsoft.com/.default"}
    client = login.application
    url = f"/{client['tenant']}/oauth2/v2.0/token"
    basic = login.browser.post(url, data=form, auth=(client["client_id"], client["client_secret"]))
    assert basic.status_code == 200
    assert_refused(
        login.token("client_credentials", client["tenant"], client_secret=None),
        7000218,
        "invalid_client",
        401,
    )
    assert_refused(
        login.token("client_credentials", client["tenant"], client_secret="x"), 7000215, "invalid_client", 401
    )


@pytest.mark.parametrize(
    "form, code, error",
    [
        ({"grant_type": None}, 900144, "invalid_request"),
        ({"grant_type": "password"}, 70003, "unsupported_grant_type"),
        ({"client_id": None}, 900144, "invalid_request"),
        ({"client_id": "nobody"}, 700016, "unauthorized_client"),
        ({"refresh_token": None}, 900144, "invalid_request"),
        ({"refresh_token": "0.garbage"}, 70000, "invalid_grant"),
    ],
)
def test_a_malformed_token_request_is_refused(login, form, code, error):
    fields = {"refresh_token": "x", "client_id": login.application["client_id"], **form}
    assert_refused(login.token(fields.pop("grant_type", "refresh_token"), **fields), code, error)


def test_an_unknown_tenant_is_refused_everywhere(login):
    assert_refused(
        login.token("refresh_token", "nowhere.example", refresh_token="x"), 90002, "invalid_request"
    )
    assert_refused(
        login.browser.get("/nowhere.example/v2.0/.well-known/openid-configuration"), 90002, "invalid_request"
    )


def test_a_disabled_application_and_a_disabled_user_are_refused(sim, login):
    token = login.redeem(login.code()).json()["refresh_token"]
    sim.post(f"microsoft/accounts/{login.address}", disabled=True)
    assert_refused(login.refresh(token), 50057, "invalid_grant")
    sim.post(f"microsoft/accounts/{login.address}", disabled=False)
    where = f"microsoft/applications/{login.application['client_id']}"
    sim.control.patch(where, json={"disabled": True})
    assert_refused(login.refresh(token), 7000112, "unauthorized_client")
    sim.control.patch(where, json={"disabled": False})
    assert login.refresh(token).status_code == 200


def test_a_user_with_a_closed_mailbox_does_not_exist(sim, login):
    token = login.redeem(login.code()).json()["refresh_token"]
    sim.delete(f"mailboxes/{login.address}")
    assert_refused(login.refresh(token), 50034, "invalid_grant")


def test_a_personal_account_belongs_to_the_consumers_tenant(sim, login):
    address = login.address.replace("example.com", "outlook.test")
    sim.create("outlook", address)
    login.address = address
    claims = jwt.decode(login.redeem(login.code()).json()["id_token"], options={"verify_signature": False})
    assert claims["tid"] == "9188040d-6c67-4c5b-b112-36a304b66dad"
    assert address in login.page("consumers", prompt="select_account").text
    assert address not in login.page("organizations", prompt="select_account").text


def test_a_code_is_not_valid_at_another_tenant(sim, login):
    other = sim.create("outlook", login.address.replace("example.com", "example.net"))
    assert other
    assert_refused(login.redeem(login.code(), tenant="example.net"), 700005, "invalid_grant")


def test_admin_consent_admits_an_application_to_a_tenant(sim, login):
    client = login.application
    where = f"microsoft/applications/{client['client_id']}"
    sim.control.patch(where, json={"consented": []})
    address = login.address.replace("example.com", "example.org")
    sim.create("outlook", address)
    scope = "https://graph.microsoft.com/.default"
    assert_refused(
        login.token("client_credentials", "example.org", scope=scope), 700016, "unauthorized_client"
    )
    query = {"client_id": client["client_id"], "redirect_uri": REDIRECT, "state": "x"}
    page = login.browser.get("/example.org/adminconsent", params=query)
    assert "Mail.Read" in page.text
    decision = {"decision": "allow", "account": address}
    answer = redirect_parameters(login.browser.post("/example.org/adminconsent", params=query, data=decision))
    assert (answer["admin_consent"], answer["state"]) == ("True", "x")
    token = login.token("client_credentials", answer["tenant"], scope=scope).json()["access_token"]
    assert "Mail.Read" in jwt.decode(token, options={"verify_signature": False})["roles"]
    denied = redirect_parameters(
        login.browser.post("/example.org/adminconsent", params=query, data={"decision": "deny"})
    )
    assert denied["error"] == "access_denied"


def test_discovery_returns_endpoints_on_the_requested_host(sim, login):
    found = login.browser.get("/common/v2.0/.well-known/openid-configuration").json()
    assert found["issuer"] == f"{sim.http}/{{tenantid}}/v2.0"
    assert found["token_endpoint"] == f"{sim.http}/common/oauth2/v2.0/token"
    assert login.browser.get(found["jwks_uri"]).json()["keys"][0]["kty"] == "RSA"
    token = login.redeem(login.code()).json()["access_token"]
    headers = {"authorization": f"Bearer {token}"}
    assert login.browser.get(found["userinfo_endpoint"], headers=headers).json()["email"] == login.address
    assert login.browser.get(found["userinfo_endpoint"]).status_code == 401
    instance = login.browser.get("/common/discovery/instance", params={"api-version": "1.1"}).json()
    assert instance["tenant_discovery_endpoint"] == f"{sim.http}/common/v2.0/.well-known/openid-configuration"


def test_access_tokens_expire_by_the_simulators_clock(sim, login):
    body = login.redeem(login.code()).json()
    headers = {"authorization": f"Bearer {body['access_token']}"}
    assert login.browser.get("/v1.0/me/messages/$count", headers=headers).text == "2"
    sim.move_clock(body["expires_in"] + 1)
    answer = login.browser.get("/v1.0/me/messages/$count", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "InvalidAuthenticationToken"


def test_the_issuer_of_an_access_token_fits_its_version(sim, microsoft, address):
    """Graph's tokens have version 1.0.

    "Access token claims reference", https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
    """
    user = microsoft.connect(sim, address)
    claims = jwt.decode(user.tokens["access_token"], options={"verify_signature": False})
    assert (claims["ver"], claims["iss"]) == ("1.0", f"https://sts.windows.net/{claims['tid']}/")
