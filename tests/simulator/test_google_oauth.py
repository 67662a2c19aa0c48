"""Google sign-in: consent, codes, tokens, and every way they end."""

import base64
import hashlib

import httpx2
import jwt
import pytest

from simulator.google_user import READONLY

REDIRECT = "http://127.0.0.1:4711/callback"
EMAIL = "https://www.googleapis.com/auth/userinfo.email"
DAY = 86_400


@pytest.fixture(autouse=True)
def person(sim, address):
    sim.create("gmail", address, name="Ada Lovelace")
    return address


@pytest.fixture
def client(sim):
    return sim.post(
        "applications", provider="gmail", name="Postroom", project="mail-project", redirect_uris=[REDIRECT]
    )


@pytest.fixture
def browser(sim):
    with httpx2.Client(base_url=sim.http, trust_env=False) as http:
        yield http


@pytest.fixture
def oauth(sim, browser, client, person):
    return AuthorizationFlow(browser, client, person)


class AuthorizationFlow:
    """The steps of the authorization code flow for one client and one person."""

    def __init__(self, browser, client, person):
        self.browser, self.client, self.person = browser, client, person

    def parameters(self, **more):
        return {
            "client_id": self.client["client_id"],
            "redirect_uri": REDIRECT,
            "response_type": "code",
            "scope": f"openid {READONLY}",
            "access_type": "offline",
            "state": "s t&te",
        } | more

    def get_page(self, **more):
        return self.browser.get("/o/oauth2/v2/auth", params=self.parameters(**more))

    def submit_decision(self, *granted, decision="allow", duration="", **more):
        choice = {"account": self.person, "granted": list(granted or (READONLY,)), "decision": decision}
        answer = self.browser.post(
            "/o/oauth2/v2/auth", params=self.parameters(**more), data=choice | {"duration": duration}
        )
        return httpx2.URL(answer.headers["location"]).params if answer.status_code == 302 else answer

    def token(self, grant_type="authorization_code", **form):
        body = {
            "client_id": self.client["client_id"],
            "client_secret": self.client["client_secret"],
            "redirect_uri": REDIRECT,
            "grant_type": grant_type,
        } | form
        return self.browser.post(
            "/token", data={key: value for key, value in body.items() if value is not None}
        )

    def connect(self, *granted, **more):
        return self.token(code=self.submit_decision(*granted, **more)["code"]).json()

    def refresh(self, refresh_token, **form):
        return self.token("refresh_token", refresh_token=refresh_token, redirect_uri=None, **form)

    def profile(self, access_token):
        headers = {"authorization": f"Bearer {access_token}"}
        return self.browser.get("/gmail/v1/users/me/profile", headers=headers).status_code


def test_the_page_offers_accounts_and_scopes(oauth, person):
    page = oauth.get_page()
    assert page.status_code == 200
    assert f'value="{person}"' in page.text
    assert f'name="granted" value="{READONLY}" checked' in page.text
    assert "Ada Lovelace" in page.text


def test_allowing_gives_a_code_with_state_and_granted_scopes(oauth):
    back = oauth.submit_decision()
    assert back["code"].startswith("4/0A")
    assert (back["state"], back["scope"]) == ("s t&te", f"openid {READONLY}")


def test_denial_redirects_with_access_denied(oauth):
    assert dict(oauth.submit_decision(decision="deny")) == {"state": "s t&te", "error": "access_denied"}


def test_a_code_can_be_exchanged_once(oauth, person):
    code = oauth.submit_decision(nonce="abc")["code"]
    body = oauth.token(code=code).json()
    assert body["access_token"].startswith("ya29.")
    assert body["refresh_token"].startswith("1//0g")
    assert (body["expires_in"], body["token_type"], body["scope"]) == (3599, "Bearer", f"openid {READONLY}")
    assert "refresh_token_expires_in" not in body
    again = oauth.token(code=code)
    assert (again.status_code, again.json()) == (
        400,
        {"error": "invalid_grant", "error_description": "Bad Request"},
    )
    claims = jwt.decode(body["id_token"], options={"verify_signature": False})
    digest = hashlib.sha256(body["access_token"].encode()).digest()[:16]
    assert claims["at_hash"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert claims["nonce"] == "abc"
    assert claims["aud"] == claims["azp"] == oauth.client["client_id"]
    assert "email" not in claims
    assert oauth.profile(body["access_token"]) == 200


def test_identity_is_granted_with_openid(oauth):
    """Clients of Google report it: "Scope has changed from … to openid …".

    https://github.com/requests/requests-oauthlib/issues/387
    """
    body = oauth.connect(scope=f"email {READONLY}")
    assert sorted(body["scope"].split()) == sorted([EMAIL, READONLY, "openid"])
    assert body["id_token"]


def test_id_token_userinfo_and_tokeninfo_agree(oauth, browser, person):
    body = oauth.connect(scope=f"openid email profile {READONLY}")
    assert EMAIL in body["scope"].split()
    claims = jwt.decode(body["id_token"], options={"verify_signature": False})
    headers = {"authorization": f"Bearer {body['access_token']}"}
    info = browser.get("/v1/userinfo", headers=headers).json()
    assert info == browser.get("/oauth2/v3/userinfo", headers=headers).json()
    assert {key: claims[key] for key in info} == info
    assert (info["email"], info["name"], info["given_name"]) == (person, "Ada Lovelace", "Ada")
    for path in ("/oauth2/v2/userinfo", "/userinfo/v2/me"):  # of the discovery document of oauth2 v2
        assert browser.get(path, headers=headers).json()["id"] == claims["sub"]
    token_info = browser.get("/tokeninfo", params={"id_token": body["id_token"]}).json()
    assert (token_info["sub"], token_info["email_verified"]) == (claims["sub"], "true")
    token_info = browser.get("/oauth2/v3/tokeninfo", params={"access_token": body["access_token"]}).json()
    assert (token_info["sub"], token_info["access_type"]) == (claims["sub"], "offline")
    assert browser.get("/v1/userinfo").status_code == 401
    assert browser.get("/tokeninfo", params={"id_token": "x.y.z"}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/tokeninfo", "/oauth2/v3/tokeninfo", "/oauth2/v2/tokeninfo", "/oauth2/v1/tokeninfo"]
)
def test_tokeninfo_accepts_the_token_in_query_form_and_header(oauth, browser, person, path):
    """Versions 1 and 2 have the fields of the discovery document, version 3 the claims of an ID token.

    "Google OAuth2 API v2", https://www.googleapis.com/discovery/v1/apis/oauth2/v2/rest
    "Verify the Google ID token on your server side",
    https://developers.google.com/identity/gsi/web/guides/verify-google-id-token
    """
    body = oauth.connect(scope=f"openid email {READONLY}")
    token = body["access_token"]
    info = browser.get(path, params={"access_token": token}).json()
    assert (info["email"], info["scope"]) == (person, body["scope"])
    audience = info["audience"] if "user_id" in info else info["aud"]
    assert audience == info.get("issued_to", info.get("azp"))
    assert ("user_id" in info) == (path in {"/oauth2/v2/tokeninfo", "/oauth2/v1/tokeninfo"})
    posted = browser.post(path, data={"access_token": token})
    bearer = browser.get(path, headers={"authorization": f"Bearer {token}"})
    for answer in (posted, bearer):
        assert {**answer.json(), "expires_in": 0} == {**info, "expires_in": 0}
    by_id = browser.get(path, params={"id_token": body["id_token"]}).json()
    assert by_id["email"] == person
    for wrong in ({"access_token": "x"}, {"id_token": "x.y.z"}, {}):
        assert browser.get(path, params=wrong).status_code == 400
    assert browser.get(path, headers={"authorization": "Bearer x"}).status_code == 400


@pytest.mark.parametrize("method", ["S256", "plain"])
def test_a_code_needs_its_verifier(oauth, method):
    verifier = "v" * 43
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    challenge = {"code_challenge": digest if method == "S256" else verifier, "code_challenge_method": method}
    missing = oauth.token(code=oauth.submit_decision(**challenge)["code"])
    assert missing.json() == {"error": "invalid_grant", "error_description": "Missing code verifier."}
    wrong = oauth.token(code=oauth.submit_decision(**challenge)["code"], code_verifier="w" * 43)
    assert wrong.json() == {"error": "invalid_grant", "error_description": "Invalid code verifier."}
    assert (
        oauth.token(code=oauth.submit_decision(**challenge)["code"], code_verifier=verifier).status_code
        == 200
    )


def test_a_code_is_bound_to_redirect_uri_client_and_ten_minutes(sim, oauth):
    other = sim.post("applications", provider="gmail", name="other")
    mismatch = oauth.token(code=oauth.submit_decision()["code"], redirect_uri="http://127.0.0.1:1/x")
    assert (mismatch.status_code, mismatch.json()["error"]) == (400, "redirect_uri_mismatch")
    stolen = oauth.token(
        code=oauth.submit_decision()["code"],
        client_id=other["client_id"],
        client_secret=other["client_secret"],
    )
    assert stolen.json()["error"] == "invalid_grant"
    code = oauth.submit_decision()["code"]
    sim.move_clock(601)
    assert oauth.token(code=code).json()["error"] == "invalid_grant"


def test_deselected_scopes_are_not_granted(oauth):
    modify = "https://www.googleapis.com/auth/gmail.modify"
    back = oauth.submit_decision(READONLY, scope=f"openid {READONLY} {modify}")
    assert back["scope"] == f"openid {READONLY}"
    nothing = oauth.submit_decision("none", scope=READONLY)
    assert nothing["error"] == "access_denied"
    only_identity = oauth.connect("none")
    assert only_identity["scope"] == "openid"
    assert oauth.profile(only_identity["access_token"]) == 403


def test_a_second_consent_gives_no_refresh_token_unless_forced(oauth, person):
    assert "refresh_token" in oauth.connect()
    assert "refresh_token" not in oauth.connect()
    assert "refresh_token" in oauth.connect(prompt="consent")
    assert "refresh_token" not in oauth.connect(prompt="consent", access_type="online")
    silent = oauth.get_page(login_hint=person)
    assert silent.status_code == 302
    assert "code=" in silent.headers["location"]


def test_prompt_none_never_shows_a_page(oauth, person):
    assert "error=login_required" in oauth.get_page(prompt="none").headers["location"]
    assert "error=consent_required" in oauth.get_page(prompt="none", login_hint=person).headers["location"]
    oauth.connect(scope=f"openid email {READONLY}")
    silent = oauth.get_page(prompt="none", login_hint=person, scope=f"email {READONLY}")
    assert "code=" in silent.headers["location"]


def test_scopes_granted_before_are_included_on_request(oauth):
    oauth.connect()
    labels = "https://www.googleapis.com/auth/gmail.labels"
    alone = oauth.connect(labels, scope=labels)
    assert alone["scope"] == labels
    together = oauth.connect(labels, scope=labels, include_granted_scopes="true")
    assert set(together["scope"].split()) == {"openid", READONLY, labels}


def test_a_refresh_keeps_its_token_and_never_rotates(oauth):
    tokens = oauth.connect()
    fresh = oauth.refresh(tokens["refresh_token"]).json()
    assert set(fresh) == {"access_token", "expires_in", "scope", "token_type", "id_token"}
    assert fresh["access_token"] != tokens["access_token"]
    assert oauth.profile(tokens["access_token"]) == oauth.profile(fresh["access_token"]) == 200


def test_a_refresh_that_names_a_scope_keeps_everything_that_was_consented(oauth):
    """A refresh takes no scope, and the response has the scopes of the grant.

    "Using OAuth 2.0 for Web Server Applications", "Refreshing an access token (offline access)",
    https://developers.google.com/identity/protocols/oauth2/web-server
    """
    tokens = oauth.connect(scope=f"openid email {READONLY}")
    fresh = oauth.refresh(tokens["refresh_token"], scope="openid").json()
    assert set(fresh["scope"].split()) == set(tokens["scope"].split())
    assert oauth.profile(fresh["access_token"]) == 200
    refused = oauth.refresh(tokens["refresh_token"], scope="https://mail.google.com/").json()
    assert refused["error"] == "invalid_scope"


EXPIRED = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
@pytest.mark.parametrize("place", ["params", "data"])
def test_revoking_either_token_ends_the_grant_to_the_project(sim, oauth, browser, which, place):
    tokens = oauth.connect()
    sibling = sim.post("applications", provider="gmail", name="sibling", project="mail-project")
    others = AuthorizationFlow(browser, sibling, oauth.person).connect()
    revoked = browser.post("/revoke", **{place: {"token": tokens[which]}})
    assert revoked.status_code == 200
    assert oauth.refresh(tokens["refresh_token"]).json() == EXPIRED
    assert oauth.profile(tokens["access_token"]) == oauth.profile(others["access_token"]) == 401
    again = browser.post("/revoke", data={"token": tokens["refresh_token"]})
    assert (again.status_code, again.json()["error"]) == (400, "invalid_token")
    assert "refresh_token" in oauth.connect()


def test_a_password_change_revokes_only_tokens_with_mail_scopes(sim, oauth, person):
    mail = oauth.connect()
    identity = oauth.connect("none", prompt="consent", scope="openid")
    assert sim.post(f"mailboxes/{person}/revoke", reason="password")["count"] == 1
    assert oauth.refresh(mail["refresh_token"]).json() == EXPIRED
    assert oauth.refresh(identity["refresh_token"]).status_code == 200


def test_an_unknown_revocation_reason_is_rejected(sim, person):
    answer = sim.control.post(f"mailboxes/{person}/revoke", json={"reason": "whim"})
    assert answer.status_code == 400
    assert "password" in answer.json()["error"]


def test_unused_refresh_tokens_expire_after_six_months(sim, oauth):
    kept, left = oauth.connect(), oauth.connect(prompt="consent")
    sim.move_clock(150 * DAY)
    assert oauth.refresh(kept["refresh_token"]).status_code == 200
    sim.move_clock(40 * DAY)
    assert oauth.refresh(kept["refresh_token"]).status_code == 200
    assert oauth.refresh(left["refresh_token"]).json() == EXPIRED


def test_refresh_tokens_of_a_testing_client_expire_after_seven_days(sim, browser, person):
    client = sim.post(
        "applications", provider="gmail", name="testing", testing=True, redirect_uris=[REDIRECT]
    )
    oauth = AuthorizationFlow(browser, client, person)
    mail, identity = oauth.connect(), oauth.connect("none", prompt="consent", scope="openid email")
    assert "refresh_token_expires_in" not in mail
    sim.move_clock(7 * DAY - 60)
    assert oauth.refresh(mail["refresh_token"]).status_code == 200
    sim.move_clock(61)
    assert oauth.refresh(mail["refresh_token"]).json() == EXPIRED
    assert oauth.refresh(identity["refresh_token"]).status_code == 200


def test_time_limited_consent_announces_its_expiry(sim, oauth):
    tokens = oauth.connect(duration="3600")
    assert tokens["refresh_token_expires_in"] == 3599
    sim.move_clock(3601)
    assert oauth.refresh(tokens["refresh_token"]).json() == EXPIRED


def test_the_hundred_and_first_refresh_token_revokes_the_oldest(oauth):
    tokens = [oauth.connect(prompt="consent")["refresh_token"] for _ in range(101)]
    assert oauth.refresh(tokens[0]).json() == EXPIRED
    assert oauth.refresh(tokens[1]).status_code == oauth.refresh(tokens[-1]).status_code == 200


def test_account_problems_prevent_a_refresh(sim, oauth, person):
    tokens = oauth.connect()
    sim.post(f"google/accounts/{person}", trouble="invalid_rapt")
    assert oauth.refresh(tokens["refresh_token"]).json() == {
        "error": "invalid_grant",
        "error_description": "reauth related error (invalid_rapt)",
        "error_subtype": "invalid_rapt",
    }
    sim.post(f"google/accounts/{person}", trouble="admin_policy_enforced")
    assert oauth.refresh(tokens["refresh_token"]).json()["error"] == "admin_policy_enforced"
    assert "admin_policy_enforced" in oauth.submit_decision().text
    sim.post(f"google/accounts/{person}", trouble="")
    assert oauth.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize(
    "code, status, error",
    [
        ("invalid_grant", 400, "invalid_grant"),
        ("invalid_client", 401, "invalid_client"),
        ("internal_failure", 500, "internal_failure"),
    ],
)
def test_token_errors_can_be_injected(sim, oauth, person, code, status, error):
    tokens = oauth.connect()
    sim.fault("token_error", mailbox=person, code=code, times=1)
    answer = oauth.refresh(tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert oauth.refresh(tokens["refresh_token"]).status_code == 200
    sim.fault("consent_revoked", mailbox=person, times=1)
    assert oauth.refresh(tokens["refresh_token"]).json() == EXPIRED


@pytest.mark.parametrize(
    "form, status, error, words",
    [
        ({"client_id": None}, 400, "invalid_request", "Could not determine client ID from request."),
        ({"client_id": "nobody"}, 401, "invalid_client", "The OAuth client was not found."),
        ({"client_secret": "wrong"}, 401, "invalid_client", "Unauthorized"),
        ({"client_secret": None}, 400, "invalid_request", "client_secret is missing."),
        ({"grant_type": "password"}, 400, "unsupported_grant_type", "Invalid grant_type: password"),
        ({"grant_type": None}, 400, "invalid_request", "Required parameter is missing: grant_type"),
        ({}, 400, "invalid_request", "Missing required parameter: code"),
        ({"code": "4/0Anothing"}, 400, "invalid_grant", "Bad Request"),
        (
            {"grant_type": "refresh_token", "refresh_token": "1//0gnothing"},
            400,
            "invalid_grant",
            "Bad Request",
        ),
        (
            {"grant_type": "refresh_token"},
            400,
            "invalid_request",
            "Missing required parameter: refresh_token",
        ),
    ],
)
def test_the_token_endpoint_reports_invalid_requests(oauth, form, status, error, words):
    answer = oauth.token(**form)
    assert (answer.status_code, answer.json()) == (status, {"error": error, "error_description": words})


def test_a_client_may_authenticate_with_basic_auth(oauth):
    tokens = oauth.connect()
    pair = (oauth.client["client_id"], oauth.client["client_secret"])
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert oauth.browser.post("/token", data=form, auth=pair).status_code == 200
    assert oauth.browser.post("/token", data=form, auth=(pair[0], "wrong")).status_code == 401


@pytest.mark.parametrize(
    "more, status, error",
    [
        ({"redirect_uri": "https://elsewhere.example/callback"}, 400, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1:4711/other"}, 400, "redirect_uri_mismatch"),
        ({"redirect_uri": ""}, 400, "invalid_request"),
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"client_id": ""}, 400, "invalid_request"),
        ({"response_type": "token"}, 400, "invalid_request"),
        ({"scope": ""}, 400, "invalid_request"),
        ({"scope": "everything"}, 400, "invalid_scope"),
        ({"scope": "https://www.googleapis.com/auth/gmail.everything"}, 400, "invalid_scope"),
        ({"code_challenge": "short"}, 400, "invalid_request"),
        ({"code_challenge_method": "S512"}, 400, "invalid_request"),
    ],
)
def test_client_errors_are_shown_on_a_page(oauth, more, status, error):
    page = oauth.get_page(**more)
    assert page.status_code == status
    assert f"Error {status}: {error}" in page.text


def test_loopback_redirects_may_use_any_port(oauth):
    assert oauth.get_page(redirect_uri="http://127.0.0.1:9999/callback").status_code == 200


def test_deleted_and_internal_clients_and_embedded_browsers_are_blocked(sim, oauth, browser):
    client_id = oauth.client["client_id"]
    sim.post(f"google/clients/{client_id}", trouble="deleted")
    assert "Error 401: deleted_client" in oauth.get_page().text
    assert oauth.token(code="x").json()["error"] == "deleted_client"
    sim.post(f"google/clients/{client_id}", trouble="org_internal", internal_domain="corp.example")
    assert "Error 403: org_internal" in oauth.submit_decision().text
    sim.post(f"google/clients/{client_id}", trouble="")
    browser.headers["user-agent"] = "Mozilla/5.0 (Linux; Android 14; wv) AppleWebKit/537.36"
    assert "Error 403: disallowed_useragent" in oauth.get_page().text


def test_consent_can_be_automatic(sim, oauth, person):
    sim.control.patch("google/options", json={"auto_consent": True})
    answer = oauth.get_page(login_hint=person)
    sim.control.patch("google/options", json={"auto_consent": False})
    code = httpx2.URL(answer.headers["location"]).params["code"]
    assert oauth.token(code=code).status_code == 200


def test_the_discovery_document_has_local_endpoints_and_googles_issuer(sim, browser):
    known = browser.get("/.well-known/openid-configuration").json()
    assert known["issuer"] == "https://accounts.google.com"
    assert known["token_endpoint"] == f"{sim.http}/token"
    keys = browser.get(known["jwks_uri"].removeprefix(sim.http)).json()["keys"]
    assert {key["kid"] for key in keys} == set(browser.get("/oauth2/v1/certs").json())


def test_keys_rotate_and_the_old_one_stays_published(sim, browser, oauth):
    before = jwt.get_unverified_header(oauth.connect()["id_token"])["kid"]
    sim.post("google/keys/rotate")
    after = jwt.get_unverified_header(oauth.connect()["id_token"])["kid"]
    assert after != before
    assert {before, after} == set(browser.get("/oauth2/v1/certs").json())
