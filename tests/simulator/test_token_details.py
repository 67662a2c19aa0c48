"""Details of tokens that clients rely on: scopes after a refresh, and challenges for refused tokens."""

import httpx2
import jwt
import pytest

from simulator.driver import Simulation

SCOPES = ["offline_access", "User.Read", "Mail.ReadWrite", "Mail.Send"]


def test_a_refresh_for_one_scope_keeps_everything_that_was_consented(sim: Simulation, address: str):
    """A token holds all permissions consented for its resource.

    "Scopes and permissions in the Microsoft identity platform", https://learn.microsoft.com/entra/identity-platform/scopes-oidc
    """
    sim.create("outlook", address)
    tokens = sim.post("microsoft/tokens", address=address, scopes=SCOPES)
    client = sim.ready["clients"]["outlook"]
    form = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    form |= {
        "grant_type": "refresh_token",
        "refresh_token": tokens["refresh_token"],
        "scope": "Mail.ReadWrite",
    }
    answer = httpx2.post(f"{sim.http}/common/oauth2/v2.0/token", data=form, trust_env=False).json()
    claims = jwt.decode(answer["access_token"], options={"verify_signature": False})
    assert set(claims["scp"].split()) == set(SCOPES) - {"offline_access"}
    assert answer["scope"].split() == ["Mail.ReadWrite", "User.Read", "Mail.Send"]


def test_graph_challenges_a_refused_token(sim: Simulation):
    """RFC 6750, section 3: a 401 has a WWW-Authenticate header; Graph's names where to sign in.

    "Claims challenges, claims requests and client capabilities", https://learn.microsoft.com/entra/identity-platform/claims-challenge
    """
    headers = {"authorization": "Bearer refused"}
    answer = httpx2.get(f"{sim.http}/v1.0/me/messages", headers=headers, trust_env=False)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith('Bearer realm="", authorization_uri="https://')


@pytest.mark.parametrize(
    "path", ["/gmail/v1/users/me/profile", "/v1/projects/mailsim/topics", "/admin/directory/v1/users"]
)
def test_google_challenges_a_missing_and_a_refused_token(sim: Simulation, path: str):
    """RFC 6750, section 3: a 401 has a challenge, with an error code only if there was a token.

    "OpenID Connect", https://developers.google.com/identity/openid-connect/openid-connect
    """
    realm = 'Bearer realm="https://accounts.google.com/"'
    refused = {"authorization": "Bearer refused"}
    for headers, challenge in (({}, realm), (refused, f'{realm}, error="invalid_token"')):
        answer = httpx2.get(f"{sim.http}{path}", headers=headers, trust_env=False)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, challenge)
