"""Microsoft's own msal and azure-identity sign in to the simulator over HTTPS."""

import functools
import re
import ssl
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jwt
import msal
import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import AuthorizationCodeCredential, CertificateCredential, ClientSecretCredential
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from simulator.certificates import make_certificate
from simulator.driver import running

DEFAULT = ["https://graph.microsoft.com/.default"]
REDIRECT = "https://app.example.com/callback"


@pytest.fixture(scope="module")
def key_and_certificate():
    return make_certificate()


@pytest.fixture(scope="module")
def shared():
    with running() as simulation:
        yield simulation
        _session(simulation.ca).close()


@pytest.fixture
def application(sim):
    """Register a confidential client of the tenant example.com."""
    return sim.post("applications", provider="outlook", name="Referee", redirect_uris=[REDIRECT])


def authority(sim, tenant):
    return f"{sim.https}/{tenant}"


def client(sim, application, credential=None, tenant=None):
    return msal.ConfidentialClientApplication(
        application["client_id"],
        authority=authority(sim, tenant or application["tenant"]),
        client_credential=credential or application["client_secret"],
        instance_discovery=False,
        http_client=_session(sim.ca),
    )


@functools.cache
def _session(ca):
    """A session that trusts the simulator's CA, whatever the environment."""
    session = requests.Session()
    session.verify, session.trust_env = ca, False
    return session


def agree(sim, url, address, decision="allow"):
    """Submit the consent page and return the parameters sent to the application."""
    with httpx2.Client(verify=ssl.create_default_context(cafile=sim.ca), trust_env=False) as browser:
        page = browser.get(url)
        assert page.status_code == 200
        assert address in page.text
        answer = browser.post(url, data={"account": address, "decision": decision})
    if "location" in answer.headers:
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', answer.text)
    return {name: unescape(value) for name, value in fields}


def signed_in(sim, application, address, decision="allow"):
    app = client(sim, application, tenant="organizations")
    flow = app.initiate_auth_code_flow(
        ["Mail.Read"], redirect_uri=REDIRECT, login_hint=address, response_mode="form_post"
    )
    return app, app.acquire_token_by_auth_code_flow(flow, agree(sim, flow["auth_uri"], address, decision))


def graph(sim, token, path):
    with httpx2.Client(verify=ssl.create_default_context(cafile=sim.ca), trust_env=False) as http:
        return http.get(f"{sim.https}/v1.0{path}", headers={"authorization": f"Bearer {token}"})


def test_msal_gets_an_application_token_by_secret_for_every_mailbox(sim, application, address):
    sim.create("outlook", address, messages=3)
    result = client(sim, application).acquire_token_for_client(DEFAULT)
    assert result["token_type"] == "Bearer"
    assert "refresh_token" not in result
    claims = jwt.decode(result["access_token"], options={"verify_signature": False})
    assert claims["tid"] == application["tenant"]
    assert "Mail.Read" in claims["roles"]
    listed = graph(sim, result["access_token"], f"/users/{address}/messages/$count")
    assert listed.text == "3"


@pytest.mark.parametrize("thumbprint", ["thumbprint", "public_certificate"])
def test_msal_gets_an_application_token_by_certificate(sim, key_and_certificate, thumbprint):
    private, certificate = key_and_certificate
    application = sim.post("applications", provider="outlook", certificate=certificate)
    shown = (
        {"thumbprint": x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA1()).hex()}
        if thumbprint == "thumbprint"
        else {"public_certificate": certificate}
    )
    result = client(sim, application, {"private_key": private, **shown}).acquire_token_for_client(DEFAULT)
    assert (
        jwt.decode(result["access_token"], options={"verify_signature": False})["appid"]
        == application["client_id"]
    )


def test_msal_reports_a_certificate_that_is_not_registered(sim, application, key_and_certificate):
    private, certificate = key_and_certificate
    credential = {"private_key": private, "public_certificate": certificate}
    result = client(sim, application, credential).acquire_token_for_client(DEFAULT)
    assert (result["error"], result["error_codes"]) == ("invalid_client", [700027])


def test_msal_reports_a_wrong_secret_with_microsofts_message(sim, application):
    result = client(sim, application, "not the secret").acquire_token_for_client(DEFAULT)
    assert (result["error"], result["error_codes"]) == ("invalid_client", [7000215])
    assert result["error_description"].startswith("AADSTS7000215: ")
    assert {"trace_id", "correlation_id", "timestamp", "error_uri"} <= set(result)


def test_msal_signs_in_a_user_with_pkce_and_reads_the_identity(sim, application, address):
    sim.create("outlook", address)
    _, result = signed_in(sim, application, address)
    claims = result["id_token_claims"]
    assert claims["preferred_username"] == address
    assert claims["tid"] == application["tenant"]
    assert claims["ver"] == "2.0"
    assert claims["iss"] == f"{sim.https}/{claims['tid']}/v2.0"
    assert result["scope"].split() == ["Mail.Read", "openid", "profile"]
    assert graph(sim, result["access_token"], f"/users/{claims['oid']}/messages/$count").text == "0"


def test_the_id_token_is_signed_by_the_published_key(sim, application, address):
    sim.create("outlook", address)
    _, result = signed_in(sim, application, address)
    with httpx2.Client(verify=ssl.create_default_context(cafile=sim.ca), trust_env=False) as http:
        found = http.get(
            f"{authority(sim, application['tenant'])}/v2.0/.well-known/openid-configuration"
        ).json()
        keys = jwt.PyJWKSet.from_dict(http.get(found["jwks_uri"]).json())
    head = jwt.get_unverified_header(result["id_token"])
    claims = jwt.decode(
        result["id_token"],
        keys[head["kid"]],
        algorithms=["RS256"],
        audience=application["client_id"],
        issuer=found["issuer"],
    )
    assert claims["oid"]


def test_msal_gets_a_new_refresh_token_while_the_old_one_still_works(sim, application, address):
    sim.create("outlook", address, messages=2)
    app, first = signed_in(sim, application, address)
    second = app.acquire_token_by_refresh_token(first["refresh_token"], ["Mail.Read"])
    third = app.acquire_token_by_refresh_token(first["refresh_token"], ["Mail.Read"])
    assert len({first["refresh_token"], second["refresh_token"], third["refresh_token"]}) == 3
    assert graph(sim, third["access_token"], "/me/messages/$count").text == "2"


def test_msal_uses_the_cache_and_requests_a_new_token_when_forced(sim, application, address):
    sim.create("outlook", address)
    app, first = signed_in(sim, application, address)
    account = app.get_accounts(username=address)[0]
    kept = app.acquire_token_silent(["Mail.Read"], account)
    forced = app.acquire_token_silent(["Mail.Read"], account, force_refresh=True)
    assert kept["access_token"] == first["access_token"]
    assert forced["access_token"] != first["access_token"]


def test_msal_reports_consent_required_after_revocation(sim, application, address):
    sim.create("outlook", address)
    app, first = signed_in(sim, application, address)
    sim.post(f"mailboxes/{address}/revoke", reason="consent")
    result = app.acquire_token_by_refresh_token(first["refresh_token"], ["Mail.Read"])
    assert (result["error"], result["error_codes"], result["suberror"]) == (
        "invalid_grant",
        [65001],
        "consent_required",
    )


def test_msal_reports_that_the_user_declined(sim, application, address):
    sim.create("outlook", address)
    _, result = signed_in(sim, application, address, "deny")
    assert result["error"] == "access_denied"
    assert "AADSTS65004" in result["error_description"]


def test_azure_identity_gets_application_tokens_by_secret_and_by_certificate(sim, key_and_certificate):
    private, certificate = key_and_certificate
    application = sim.post("applications", provider="outlook", certificate=certificate)
    where = {"authority": sim.https, "disable_instance_discovery": True, "connection_verify": sim.ca}
    by_secret = ClientSecretCredential(
        application["tenant"], application["client_id"], application["client_secret"], **where
    )
    by_certificate = CertificateCredential(
        application["tenant"],
        application["client_id"],
        certificate_data=(private + certificate).encode(),
        **where,
    )
    with by_secret, by_certificate:
        tokens = [
            credential.get_token(*DEFAULT, enable_cae=True) for credential in (by_secret, by_certificate)
        ]
    assert all(re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token.token) for token in tokens)
    assert tokens[0].token != tokens[1].token


def test_azure_identity_raises_when_the_secret_has_expired(sim):
    application = sim.post("applications", provider="outlook")
    expired = {"secret": application["client_secret"], "seconds": -1}
    sim.control.patch(f"microsoft/applications/{application['client_id']}", json={"secrets": [expired]})
    credential = ClientSecretCredential(
        application["tenant"],
        application["client_id"],
        application["client_secret"],
        authority=sim.https,
        disable_instance_discovery=True,
        connection_verify=sim.ca,
    )
    with credential, pytest.raises(ClientAuthenticationError, match="AADSTS7000222"):
        credential.get_token(*DEFAULT)


def test_azure_identity_redeems_an_authorization_code(sim, application, address):
    sim.create("outlook", address, messages=4)
    query = httpx2.QueryParams(
        client_id=application["client_id"],
        response_type="code",
        redirect_uri=REDIRECT,
        scope="openid offline_access https://graph.microsoft.com/Mail.Read",
    )
    answer = agree(sim, f"{authority(sim, 'common')}/oauth2/v2.0/authorize?{query}", address)
    credential = AuthorizationCodeCredential(
        application["tenant"],
        application["client_id"],
        answer["code"],
        REDIRECT,
        client_secret=application["client_secret"],
        authority=sim.https,
        disable_instance_discovery=True,
        connection_verify=sim.ca,
    )
    with credential:
        token = credential.get_token("https://graph.microsoft.com/Mail.Read").token
    assert graph(sim, token, "/me/messages/$count").text == "4"
