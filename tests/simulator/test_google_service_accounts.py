"""Service accounts with domain-wide delegation.

Follows "Using OAuth 2.0 for Server to Server Applications"
(developers.google.com/identity/protocols/oauth2/service-account), whose table of JWT errors is the source of
the expected errors.
"""

import time

import google.auth.exceptions
import google.auth.transport.requests
import httpx2
import jwt
import pytest
from google.oauth2 import service_account

from simulator.google_user import MODIFY, READONLY

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GOOGLE = "https://oauth2.googleapis.com/token"


@pytest.fixture
def key_file(sim, address):
    sim.create("gmail", address)
    return sim.post("google/service-accounts", name=address.partition("@")[0])


@pytest.fixture
def delegated(sim, key_file):
    sim.post(
        "google/delegations", client_id=key_file["client_id"], domain="example.com", scopes=[READONLY, MODIFY]
    )
    return key_file


@pytest.fixture
def http(sim):
    with httpx2.Client(base_url=sim.http, trust_env=False) as client:
        yield client


def make_claims(key_file, address, **more):
    now = int(time.time())
    claims = {
        "iss": key_file["client_email"],
        "sub": address,
        "scope": READONLY,
        "aud": GOOGLE,
        "iat": now,
        "exp": now + 3600,
    } | more
    return {name: value for name, value in claims.items() if value is not None}


def sign(key_file, claims, **more):
    arguments = {"algorithm": "RS256", "headers": {"kid": key_file["private_key_id"]}} | more
    return jwt.encode(claims, key_file["private_key"], **arguments)


def exchange(http, assertion):
    return http.post("/token", data={"grant_type": GRANT, "assertion": assertion})


def read_profile(http, token, user="me"):
    return http.get(f"/gmail/v1/users/{user}/profile", headers={"authorization": f"Bearer {token}"})


def test_a_delegated_token_reads_the_mailbox_of_its_subject(sim, http, delegated, address):
    answer = exchange(http, sign(delegated, make_claims(delegated, address)))
    tokens = answer.json()
    assert (answer.status_code, tokens["token_type"], tokens["expires_in"]) == (200, "Bearer", 3599)
    assert "refresh_token" not in tokens
    for user in ("me", address):
        assert read_profile(http, tokens["access_token"], user).json()["emailAddress"] == address
    assert read_profile(http, tokens["access_token"], "other@example.com").status_code == 403


def test_the_url_of_the_key_file_is_an_audience_too(sim, http, delegated, address):
    assert delegated["token_uri"] == f"{sim.http}/token"
    claims = make_claims(delegated, address, aud=delegated["token_uri"])
    assert exchange(http, sign(delegated, claims)).status_code == 200


def test_googles_library_delegates_with_the_key_file(sim, delegated, address):
    credentials = service_account.Credentials.from_service_account_info(delegated, scopes=[READONLY])
    request = google.auth.transport.requests.Request()
    delegated_credentials = credentials.with_subject(address)
    delegated_credentials.refresh(request)
    with httpx2.Client(base_url=sim.http, trust_env=False) as client:
        assert read_profile(client, delegated_credentials.token).json()["emailAddress"] == address
    with pytest.raises(google.auth.exceptions.RefreshError, match="unauthorized_client"):
        credentials.with_subject("ann@other.example").refresh(request)


def test_a_token_without_a_subject_has_no_mailbox(sim, http, key_file, address):
    tokens = exchange(http, sign(key_file, make_claims(key_file, None))).json()
    error = read_profile(http, tokens["access_token"]).json()["error"]
    assert (error["code"], error["status"]) == (400, "FAILED_PRECONDITION")


@pytest.mark.parametrize(
    "more, status, error, description",
    [
        ({"scope": "https://mail.google.com/"}, 401, "unauthorized_client", "Client is unauthorized"),
        ({"scope": f"{READONLY} openid"}, 401, "unauthorized_client", "Client is unauthorized"),
        ({"sub": "ann@other.example"}, 401, "unauthorized_client", "Client is unauthorized"),
        ({"sub": "missing@example.com"}, 400, "invalid_grant", "Invalid email or User ID"),
        ({"iss": "x@y.iam.gserviceaccount.com"}, 400, "invalid_grant", "Invalid grant: account not found"),
        ({"aud": "https://example.com/token"}, 400, "invalid_grant", "Failed audience check"),
        ({"aud": [GOOGLE]}, 400, "invalid_grant", "Failed audience check"),
        ({"exp": 2**33}, 400, "invalid_grant", "Token must be a short-lived token"),
        ({"iat": 1, "exp": 3601}, 400, "invalid_grant", "Token must be a short-lived token"),
        ({"iat": None}, 400, "invalid_grant", "Token must be a short-lived token"),
        ({"scope": None}, 400, "invalid_scope", "Empty or missing scope"),
    ],
)
def test_wrong_assertions_get_googles_errors(sim, http, delegated, address, more, status, error, description):
    answer = exchange(http, sign(delegated, make_claims(delegated, address, **more)))
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert description in answer.json()["error_description"]


def test_only_the_accounts_own_keys_sign(sim, http, delegated, address):
    claims = make_claims(delegated, address)
    other = sim.post("google/service-accounts", name="other")
    forged = sign(other, claims, headers={"kid": delegated["private_key_id"]})
    symmetric = jwt.encode(claims, "secret-that-is-long-enough-for-hs256", algorithm="HS256")
    for assertion in (forged, sign(other, claims), symmetric):
        assert exchange(http, assertion).json()["error_description"] == "Invalid JWT Signature."
    for assertion in ("x", "a.b.c", ""):
        assert exchange(http, assertion).status_code == 400


def test_a_deleted_key_and_a_removed_delegation_end_access(sim, http, delegated, address):
    email, key_id = delegated["client_email"], delegated["private_key_id"]
    newer = sim.post("google/service-accounts", name=address.partition("@")[0])
    assert newer["client_id"] == delegated["client_id"]
    sim.delete(f"google/service-accounts/{email}/keys/{key_id}")
    answer = exchange(http, sign(delegated, make_claims(delegated, address)))
    assert answer.json()["error_description"] == "Invalid JWT Signature."
    assert exchange(http, sign(newer, make_claims(newer, address))).status_code == 200
    sim.delete(f"google/delegations?client_id={newer['client_id']}&domain=example.com")
    assert exchange(http, sign(newer, make_claims(newer, address))).status_code == 401
    sim.delete(f"google/service-accounts/{email}")
    assert email not in {account["email"] for account in sim.get("google/service-accounts")}
    assert exchange(http, sign(newer, make_claims(newer, address))).status_code == 400


def test_suspended_users_cannot_be_impersonated(sim, http, delegated, address):
    token = exchange(http, sign(delegated, make_claims(delegated, address))).json()["access_token"]
    sim.post(f"google/accounts/{address}", trouble="suspended")
    answer = exchange(http, sign(delegated, make_claims(delegated, address)))
    assert answer.json() == {"error": "invalid_grant", "error_description": "Invalid email or User ID"}
    assert read_profile(http, token).json()["error"]["status"] == "FAILED_PRECONDITION"


def test_token_faults_reach_delegated_tokens(sim, http, delegated, address):
    sim.fault("token_error", mailbox=address, code="temporarily_unavailable", times=1)
    assertion = sign(delegated, make_claims(delegated, address))
    assert exchange(http, assertion).status_code == 503
    assert exchange(http, assertion).status_code == 200


def test_consumer_domains_cannot_delegate(sim, key_file):
    body = {"client_id": key_file["client_id"], "domain": "gmail.com", "scopes": [READONLY]}
    answer = sim.control.post("google/delegations", json=body)
    assert answer.status_code == 400
    assert "not a Workspace" in answer.json()["error"]


def test_consumer_domains_have_no_administrators(sim):
    sim.create("gmail", "consumer.administrator@gmail.com")
    answer = sim.control.post("google/accounts/consumer.administrator@gmail.com/admin", json={"admin": True})
    assert answer.status_code == 400
    assert "not a Workspace" in answer.json()["error"]
