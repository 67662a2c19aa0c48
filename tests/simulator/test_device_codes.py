"""Sign-in of devices without a browser: RFC 8628 as Google and Microsoft document it.

Google: "OAuth 2.0 for TV and Limited-Input Device Applications"
(developers.google.com/identity/protocols/oauth2/limited-input-device).
Microsoft: "OAuth 2.0 device authorization grant flow"
(learn.microsoft.com/entra/identity-platform/v2-oauth2-device-code).
"""

import re
import ssl
from collections.abc import Generator
from typing import Any

import httpx2
import jwt
import msal
import pytest
import requests

from simulator.driver import Simulation

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture
def http(sim: Simulation) -> Generator[httpx2.Client]:
    with httpx2.Client(base_url=sim.http, trust_env=False) as client:
        yield client


def start_google(sim: Simulation, http: httpx2.Client, scope: str = "openid email") -> dict[str, Any]:
    form = {"client_id": sim.ready["clients"]["gmail"]["client_id"], "scope": scope}
    answer = http.post("/device/code", data=form)
    assert answer.status_code == 200, answer.text
    return answer.json()


def poll_google(sim: Simulation, http: httpx2.Client, device_code: str) -> tuple[int, dict[str, Any]]:
    client = sim.ready["clients"]["gmail"]
    form = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    answer = http.post("/token", data={**form, "grant_type": GRANT, "device_code": device_code})
    return answer.status_code, answer.json()


@pytest.fixture
def device(sim: Simulation) -> dict[str, Any]:
    """Register a public client, as Microsoft requires of devices."""
    application = sim.post("applications", provider="outlook", name="Scanner")
    sim.control.patch(f"microsoft/applications/{application['client_id']}", json={"public": True})
    return application


def start_entra(
    http: httpx2.Client,
    device: dict[str, Any],
    tenant: str = "organizations",
    scope: str = "Mail.Read offline_access",
) -> dict[str, Any]:
    form = {"client_id": device["client_id"], "scope": scope}
    answer = http.post(f"/{tenant}/oauth2/v2.0/devicecode", data=form)
    assert answer.status_code == 200, answer.text
    return answer.json()


def poll_entra(
    http: httpx2.Client, device: dict[str, Any], device_code: str, **more: str
) -> tuple[int, dict[str, Any]]:
    form = {"client_id": device["client_id"], "grant_type": GRANT, "device_code": device_code, **more}
    answer = http.post("/organizations/oauth2/v2.0/token", data=form)
    return answer.status_code, answer.json()


def test_google_device_waits_until_its_user_approves_on_the_page(
    sim: Simulation, http: httpx2.Client, address: str
):
    """Google's guide, steps 2 to 6: the user opens `verification_url` and enters the code."""
    sim.create("gmail", address)
    started = start_google(sim, http)
    assert poll_google(sim, http, started["device_code"])[1]["error"] == "authorization_pending"
    assert "Enter the code" in http.get(started["verification_url"]).text
    page = http.post(started["verification_url"], data={"user_code": started["user_code"].lower()})
    assert address in page.text
    decision = {"user_code": started["user_code"], "account": address, "decision": "allow"}
    assert "Success" in http.post(started["verification_url"], data=decision).text
    status, tokens = poll_google(sim, http, started["device_code"])
    assert (status, tokens["token_type"]) == (200, "Bearer")
    assert tokens["refresh_token"]
    claims = jwt.decode(tokens["id_token"], options={"verify_signature": False})
    assert claims["email"] == address
    assert poll_google(sim, http, started["device_code"])[1]["error"] == "invalid_grant"


def test_google_polls_are_answered_with_the_documented_errors(
    sim: Simulation, http: httpx2.Client, address: str
):
    """Google's guide, section "Poll Google's authorization server", and RFC 8628, section 3.5."""
    sim.create("gmail", address)
    started = start_google(sim, http)
    code = started["device_code"]
    pending = (428, {"error": "authorization_pending", "error_description": "Precondition Required"})
    assert poll_google(sim, http, code) == pending
    assert poll_google(sim, http, code) == (403, {"error": "slow_down", "error_description": "Forbidden"})
    sim.move_clock(started["interval"])
    assert poll_google(sim, http, code) == pending
    sim.post(f"device-codes/{started['user_code']}", decision="deny")
    denied = {"error": "access_denied", "error_description": "Forbidden"}
    assert poll_google(sim, http, code) == (403, denied)
    late = start_google(sim, http)
    sim.move_clock(late["expires_in"])
    status, refusal = poll_google(sim, http, late["device_code"])
    assert (status, refusal["error"]) == (400, "expired_token")
    assert "unknown, used or expired" in http.get("/device", params={"user_code": late["user_code"]}).text


def test_a_google_device_is_granted_the_long_names_of_its_scopes(
    sim: Simulation, http: httpx2.Client, address: str
):
    """Google's guide, step 5: the response to `email profile` names these three."""
    sim.create("gmail", address)
    started = start_google(sim, http, "email profile")
    sim.post(f"device-codes/{started['user_code']}", address=address)
    _, tokens = poll_google(sim, http, started["device_code"])
    userinfo = "https://www.googleapis.com/auth/userinfo"
    assert sorted(tokens["scope"].split()) == [f"{userinfo}.email", f"{userinfo}.profile", "openid"]


def test_google_devices_may_not_ask_for_mail(sim: Simulation, http: httpx2.Client):
    """Google's guide, section "Allowed scopes": identity, some of Drive and of YouTube."""
    form = {
        "client_id": sim.ready["clients"]["gmail"]["client_id"],
        "scope": "https://www.googleapis.com/auth/gmail.readonly",
    }
    answer = http.post("/device/code", data=form)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_scope")


def test_entra_polls_are_answered_with_the_documented_errors(
    sim: Simulation, http: httpx2.Client, device: dict[str, Any], address: str
):
    """Microsoft's document, section "Expected errors"."""
    sim.create("outlook", address)
    started = start_entra(http, device)
    status, refusal = poll_entra(http, device, started["device_code"])
    assert (status, refusal["error"], refusal["error_codes"]) == (400, "authorization_pending", [70016])
    assert poll_entra(http, device, "unknown")[1]["error"] == "bad_verification_code"
    sim.post(f"device-codes/{started['user_code']}", decision="deny")
    assert poll_entra(http, device, started["device_code"])[1]["error"] == "authorization_declined"
    late = start_entra(http, device)
    sim.move_clock(late["expires_in"])
    assert poll_entra(http, device, late["device_code"])[1]["error"] == "expired_token"


def test_entra_device_reads_mail_once_its_user_signed_in_on_the_page(
    sim: Simulation, http: httpx2.Client, device: dict[str, Any], address: str
):
    sim.create("outlook", address, 2)
    started = start_entra(http, device)
    assert started["user_code"] in started["message"]
    assert "Enter code" in http.get(started["verification_uri"]).text
    page = http.post(started["verification_uri"], data={"otc": started["user_code"]}).text
    assert "Scanner" in page
    assert re.search(rf'name="account" value="{address}"', page)
    decision = {"otc": started["user_code"], "account": address, "decision": "allow"}
    assert "signed in on your device" in http.post(started["verification_uri"], data=decision).text
    status, tokens = poll_entra(http, device, started["device_code"])
    assert status == 200
    bearer = {"authorization": f"Bearer {tokens['access_token']}"}
    assert http.get("/v1.0/me/messages/$count", headers=bearer).text == "2"
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    again = http.post("/organizations/oauth2/v2.0/token", data={"client_id": device["client_id"], **refresh})
    assert again.status_code == 200


def test_entra_refuses_a_device_code_for_a_confidential_client_without_secret(
    sim: Simulation, http: httpx2.Client
):
    """Microsoft: a client that is not marked as public must authenticate."""
    client = {"client_id": sim.ready["clients"]["outlook"]["client_id"]}
    started = start_entra(http, client)
    assert poll_entra(http, client, started["device_code"])[1]["error_codes"] == [7000218]


def test_msal_signs_in_with_a_device_code(sim: Simulation, device: dict[str, Any], address: str):
    sim.create("outlook", address)
    with requests.Session() as session:
        session.verify, session.trust_env = sim.ca, False
        app: Any = msal.PublicClientApplication(
            device["client_id"],
            authority=f"{sim.https}/organizations",
            instance_discovery=False,
            http_client=session,
        )
        flow = app.initiate_device_flow(["Mail.Read"])
        [waiting] = [one for one in sim.get("device-codes") if one["user_code"] == flow["user_code"]]
        assert "Mail.Read" in waiting["scopes"]
        sim.post(f"device-codes/{flow['user_code']}", address=address)
        result = app.acquire_token_by_device_flow(flow)
    assert result["id_token_claims"]["preferred_username"] == address


def test_the_discovery_documents_name_the_device_endpoints(sim: Simulation):
    """RFC 8628, section 4: `device_authorization_endpoint`."""
    with httpx2.Client(verify=ssl.create_default_context(cafile=sim.ca), trust_env=False) as http:
        google = http.get(f"{sim.https}/.well-known/openid-configuration").json()
        entra = http.get(f"{sim.https}/common/v2.0/.well-known/openid-configuration").json()
    assert google["device_authorization_endpoint"] == f"{sim.https}/device/code"
    assert entra["device_authorization_endpoint"] == f"{sim.https}/common/oauth2/v2.0/devicecode"


def test_an_unknown_code_and_a_wrong_account_are_refused(
    sim: Simulation, http: httpx2.Client, device: dict[str, Any], address: str
):
    sim.create("gmail", address)
    answer = sim.control.post("device-codes/NOPE", json={"address": address})
    assert (answer.status_code, "no device waits" in answer.text) == (404, True)
    started = start_entra(http, device)
    answer = sim.control.post(f"device-codes/{started['user_code']}", json={"address": address})
    assert (answer.status_code, "no outlook mailbox" in answer.text) == (404, True)
    assert sim.control.post(f"device-codes/{started['user_code']}", json={}).status_code == 400
