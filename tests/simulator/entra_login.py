"""Sign-in at Entra with a plain HTTP client: requests and expected refusals."""

import base64
import hashlib
import re
from urllib.parse import parse_qsl, urlsplit

REDIRECT = "https://app.example.com/callback"
SCOPE = "openid profile email offline_access https://graph.microsoft.com/Mail.Read"
VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class EntraLogin:
    """One application at the authorize and token endpoints."""

    def __init__(self, browser, application, address):
        self.browser, self.application, self.address = browser, application, address

    def request(self, **changes):
        defaults = {
            "client_id": self.application["client_id"],
            "response_type": "code",
            "redirect_uri": REDIRECT,
            "scope": SCOPE,
            "state": "s t/a=te",
        }
        return {name: value for name, value in {**defaults, **changes}.items() if value is not None}

    def page(self, tenant="common", **changes):
        return self.browser.get(f"/{tenant}/oauth2/v2.0/authorize", params=self.request(**changes))

    def decide(self, tenant="common", decision="allow", **changes):
        form = {"account": self.address, "decision": decision}
        return self.browser.post(
            f"/{tenant}/oauth2/v2.0/authorize", params=self.request(**changes), data=form
        )

    def code(self, **changes):
        return redirect_parameters(self.decide(**changes))["code"]

    def token(self, grant_type, tenant="common", **changes):
        form = {
            "client_id": self.application["client_id"],
            "client_secret": self.application["client_secret"],
            "grant_type": grant_type,
            **changes,
        }
        form = {name: value for name, value in form.items() if value is not None}
        return self.browser.post(f"/{tenant}/oauth2/v2.0/token", data=form)

    def redeem(self, code, **changes):
        return self.token("authorization_code", code=code, **{"redirect_uri": REDIRECT, **changes})

    def refresh(self, token, **changes):
        return self.token("refresh_token", refresh_token=token, **changes)


def redirect_parameters(answer):
    """Return the parameters with which the browser is redirected to the application."""
    assert answer.status_code == 302, answer.text
    parts = urlsplit(answer.headers["location"])
    return dict(parse_qsl(parts.query or parts.fragment))


def assert_refused(answer, code, error, status=400):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["error"], body["error_codes"]) == (error, [code])
    assert body["error_description"].startswith(f"AADSTS{code}: ")
    assert body["trace_id"] in body["error_description"]
    assert body["correlation_id"] in body["error_description"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", body["timestamp"])
    return body
