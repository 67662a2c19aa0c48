"""Checks sign-in responses of Google and Microsoft: discovery, keys, tokens, userinfo."""

import json
from typing import Any

from cryptography import x509

from simulator.conformance_google import list_type_problems
from simulator.json_schemas import list_violations

_GOOGLE = {
    "oauth.discovery": "openidConfiguration",
    "oauth.token": "googleToken",
    "oauth.device_code": "googleDeviceCode",
    "oauth.userinfo": "userinfo",
    "oauth.tokeninfo": "tokeninfo",
}
_ENTRA = {
    "configuration": "openidConfiguration",
    "keys": "keys",
    "token": "entraToken",
    "devicecode": "entraDeviceCode",
    "userinfo": "userinfo",
}

_PAGES = {"oauth.authorize", "oauth.device"}


def google(exchange: dict[str, Any]) -> list[str]:
    """Return what is wrong with a sign-in response of Google."""
    if not exchange["status"] or exchange.get("fault"):
        return []
    endpoint, path, text = exchange["endpoint"], exchange["path"], exchange.get("response_body", "")
    silent = not text or exchange["method"] == "HEAD"
    if not endpoint.startswith("oauth.") or endpoint in _PAGES or silent:
        return []
    value = json.loads(text)
    if exchange["status"] >= 400:
        return list_violations("sign-in", "googleRefusal", value)
    if endpoint == "oauth.revoke":
        return [] if value == {} else [f"unexpected body: {value}"]
    if path == "/oauth2/v1/certs":
        for certificate in value.values():
            x509.load_pem_x509_certificate(certificate.encode())
        return list_violations("sign-in", "certificates", value)
    if path == "/oauth2/v3/certs":
        return list_violations("sign-in", "keys", value)
    if path in {"/oauth2/v2/userinfo", "/oauth2/v1/userinfo", "/userinfo/v2/me"}:
        return list_type_problems("oauth2.v2", "Userinfo", value)
    if path in {"/oauth2/v2/tokeninfo", "/oauth2/v1/tokeninfo"}:
        return list_type_problems("oauth2.v2", "Tokeninfo", value)
    return list_violations("sign-in", _GOOGLE[endpoint], value)


def entra(exchange: dict[str, Any]) -> list[str]:
    """Return what is wrong with a sign-in response of Microsoft."""
    name = _ENTRA.get(exchange["endpoint"])
    text = exchange.get("response_body", "")
    if name is None or exchange.get("fault") or not text or exchange["method"] == "HEAD":
        return []
    value = json.loads(text)
    if exchange["status"] == 200:
        return list_violations("sign-in", name, value)
    if exchange["endpoint"] == "userinfo":
        return [] if set(value["error"]) == {"code", "message"} else [f"refusal {value}"]
    return list_violations("sign-in", "entraRefusal", value)
