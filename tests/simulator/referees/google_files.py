"""The files that Gmail programs read: the client secret of Google's console, and stored credentials."""

from typing import Any

from simulator.driver import Simulation

TOKEN_URI = "https://oauth2.googleapis.com/token"
_PAST = "2020-01-01T00:00:00Z"


def make_client_secret(sim: Simulation) -> dict[str, Any]:
    """The file of a desktop application, as downloaded from Google's console."""
    client = sim.ready["clients"]["gmail"]
    return {
        "installed": {
            "client_id": client["client_id"],
            "project_id": client["project"],
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": TOKEN_URI,
            "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
            "client_secret": client["client_secret"],
            "redirect_uris": ["http://localhost"],
        }
    }


def make_authorized_user(sim: Simulation, address: str, *scopes: str) -> dict[str, Any]:
    """The file that google-auth writes after a sign-in, with an expired access token to refresh."""
    client = sim.ready["clients"]["gmail"]
    tokens = sim.post("google/tokens", address=address, scopes=scopes)
    return {
        "token": "expired",
        "refresh_token": tokens["refresh_token"],
        "token_uri": TOKEN_URI,
        "client_id": client["client_id"],
        "client_secret": client["client_secret"],
        "scopes": scopes,
        "expiry": _PAST,
    }


def make_oauth2client_credentials(sim: Simulation, address: str, *scopes: str) -> dict[str, Any]:
    """The same in the format of oauth2client, the library before google-auth."""
    user = make_authorized_user(sim, address, *scopes)
    return {
        "_class": "OAuth2Credentials",
        "_module": "oauth2client.client",
        "access_token": user["token"],
        "client_id": user["client_id"],
        "client_secret": user["client_secret"],
        "refresh_token": user["refresh_token"],
        "token_expiry": user["expiry"],
        "token_uri": user["token_uri"],
        "user_agent": None,
        "revoke_uri": "https://oauth2.googleapis.com/revoke",
        "id_token": None,
        "id_token_jwt": None,
        "token_response": None,
        "scopes": list(scopes),
        "token_info_uri": "https://oauth2.googleapis.com/tokeninfo",
        "invalid": False,
    }
