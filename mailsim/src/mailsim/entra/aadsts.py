"""EntraError, the table of AADSTS errors, and the formats of their messages and JSON bodies."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AadstsError:
    """One AADSTS error: its OAuth error code, message template, HTTP status and `suberror`."""

    error: str
    text: str
    status: int = 400
    suberror: str | None = None


_REVOKED = "The provided grant has expired due to it being revoked, a fresh auth token is needed. "
_MFA = "Due to a configuration change made by your administrator, or because you moved to a new location, "

ERRORS: dict[int, AadstsError] = {
    # Consent and revocation: the user must connect again.
    65001: AadstsError(
        "invalid_grant",
        "The user or administrator has not consented to use the application with ID '{app}' named "
        "'{name}'. Send an interactive authorization request for this user and resource.",
        suberror="consent_required",
    ),
    65004: AadstsError("access_denied", "User declined to consent to access the app."),
    50173: AadstsError(
        "invalid_grant",
        _REVOKED + "The user might have changed or reset their password.",
        suberror="bad_token",
    ),
    700082: AadstsError(
        "invalid_grant",
        "The refresh token has expired due to inactivity. The token was issued on {issued} "
        "and was inactive for {idle}.",
        suberror="token_expired",
    ),
    70008: AadstsError(
        "invalid_grant",
        "The provided authorization code or refresh token has expired due to inactivity. "
        "Send a new interactive authorization request for this user and resource.",
        suberror="token_expired",
    ),
    700084: AadstsError(
        "invalid_grant",
        "The refresh token was issued to a single page app (SPA), and therefore has a fixed, limited "
        "lifetime of 1.00:00:00, which can't be extended. It is now expired and a new sign in "
        "request must be sent by the SPA to the sign in page. The token was issued on {issued}.",
        suberror="token_expired",
    ),
    70043: AadstsError(
        "invalid_grant",
        "The refresh token has expired or is invalid due to sign-in frequency checks by conditional access.",
        suberror="bad_token",
    ),
    70000: AadstsError("invalid_grant", "Provided grant is invalid or malformed.", suberror="bad_token"),
    50089: AadstsError(
        "invalid_grant", "Authentication failed due to flow token expired.", suberror="bad_token"
    ),
    # Authorization code: start again.
    54005: AadstsError(
        "invalid_grant", "OAuth2 Authorization code was already redeemed, please retry with a new valid code."
    ),
    501481: AadstsError(
        "invalid_grant",
        "The Code_Verifier does not match the code_challenge supplied in the authorization request.",
    ),
    700005: AadstsError(
        "invalid_grant",
        "Provided Authorization Code is intended to use against other tenant, thus rejected.",
    ),
    500112: AadstsError(
        "invalid_client",
        "The reply address '{uri}' does not match the reply address provided when requesting "
        "Authorization code.",
        status=401,
    ),
    # Multi-factor authentication and Conditional Access: the user must act.
    50072: AadstsError(
        "interaction_required",
        _MFA + "you must enroll in multi-factor authentication to access the resource.",
        suberror="basic_action",
    ),
    50074: AadstsError("invalid_grant", "Strong Authentication is required.", suberror="basic_action"),
    50076: AadstsError(
        "invalid_grant",
        _MFA + "you must use multi-factor authentication to access the resource.",
        suberror="basic_action",
    ),
    50078: AadstsError(
        "invalid_grant",
        "Presented multi-factor authentication has expired due to policies configured by your "
        "administrator, you must refresh your multi-factor authentication to access the resource.",
        suberror="basic_action",
    ),
    50079: AadstsError(
        "interaction_required",
        _MFA + "you must enroll in multi-factor authentication.",
        suberror="basic_action",
    ),
    50158: AadstsError(
        "interaction_required",
        "External security challenge not satisfied. User will be redirected to another page or "
        "authentication provider to satisfy additional authentication challenges.",
        suberror="basic_action",
    ),
    53000: AadstsError(
        "interaction_required",
        "Device is not in required device state: compliant. Conditional Access policy requires a "
        "compliant device.",
        suberror="message_only",
    ),
    53001: AadstsError(
        "interaction_required",
        "Device is not in required device state: domain_joined. Conditional Access policy requires a "
        "domain joined device.",
        suberror="message_only",
    ),
    53002: AadstsError(
        "interaction_required",
        "The app used is not an approved app for Conditional Access.",
        suberror="message_only",
    ),
    53003: AadstsError(
        "invalid_grant",
        "Access has been blocked by Conditional Access policies. The access policy does not allow "
        "token issuance.",
        suberror="message_only",
    ),
    53004: AadstsError(
        "interaction_required",
        "The user needs to complete the multi-factor authentication registration process before "
        "accessing this content.",
        suberror="additional_action",
    ),
    # Account.
    50057: AadstsError("invalid_grant", "The user account is disabled."),
    50034: AadstsError("invalid_grant", "The user account {user} does not exist in the {tenant} directory."),
    50058: AadstsError("login_required", "A silent sign-in request was sent but no user is signed in."),
    50105: AadstsError(
        "interaction_required",
        "Your administrator has configured the application {name} ('{app}') to block users unless they are "
        "specifically granted ('assigned') access to the application.",
    ),
    90094: AadstsError(
        "access_denied", "Admin consent is required for the permissions requested by this application."
    ),
    # Client.
    7000215: AadstsError(
        "invalid_client",
        "Invalid client secret provided. Ensure the secret being sent in the request is the client "
        "secret value, not the client secret ID, for a secret added to app '{app}'.",
        status=401,
    ),
    7000222: AadstsError(
        "invalid_client", "The provided client secret keys for app '{app}' are expired.", status=401
    ),
    7000218: AadstsError(
        "invalid_client",
        "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.",
        status=401,
    ),
    700025: AadstsError(
        "invalid_client",
        "Client is public so neither 'client_assertion' nor 'client_secret' should be presented.",
        status=401,
    ),
    700027: AadstsError(
        "invalid_client",
        "The certificate with identifier used to sign the client assertion is not registered on "
        "application. {why}",
        status=401,
    ),
    700024: AadstsError("invalid_client", "Client assertion is not within its valid time range.", status=401),
    700023: AadstsError(
        "invalid_client", "Client assertion audience claim does not match Realm issuer.", status=401
    ),
    700016: AadstsError(
        "unauthorized_client",
        "Application with identifier '{app}' was not found in the directory '{tenant}'. This can "
        "happen if the application has not been installed by the administrator of the tenant or "
        "consented to by any user in the tenant. You may have sent your authentication request to "
        "the wrong tenant.",
    ),
    7000112: AadstsError("unauthorized_client", "Application '{app}'({name}) is disabled."),
    # Request.
    900144: AadstsError(
        "invalid_request", "The request body must contain the following parameter: '{parameter}'."
    ),
    9002313: AadstsError("invalid_request", "Invalid request. Request is malformed or invalid."),
    9002325: AadstsError(
        "invalid_request",
        "Proof Key for Code Exchange is required for cross-origin authorization code redemption.",
    ),
    90002: AadstsError(
        "invalid_request",
        "Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and are "
        "signing into the correct cloud.",
    ),
    90023: AadstsError("invalid_request", "The value of the input parameter '{parameter}' is not valid."),
    50011: AadstsError(
        "invalid_request",
        "The redirect URI '{uri}' specified in the request does not match the redirect URIs "
        "configured for the application '{app}'.",
    ),
    700054: AadstsError(
        "unsupported_response_type",
        "response_type '{type}' is not enabled for the application.",
    ),
    70003: AadstsError("unsupported_grant_type", "The app requested an unsupported grant type '{type}'."),
    9001023: AadstsError(
        "invalid_request",
        "The grant type is not supported over the /common or /consumers endpoints. Please use the "
        "/organizations or tenant-specific endpoint.",
    ),
    70011: AadstsError(
        "invalid_scope",
        "The provided request must include a 'scope' input parameter. The provided value for the "
        "input parameter 'scope' is not valid. The scope {scope} is not valid.",
    ),
    500011: AadstsError(
        "invalid_resource", "The resource principal named {resource} was not found in the tenant."
    ),
    # Device codes: poll again, or start again.
    70016: AadstsError(
        "authorization_pending",
        "OAuth 2.0 device flow error. Authorization is pending. Continue polling.",
    ),
    70018: AadstsError(
        "bad_verification_code", "The provided value for the input parameter 'device_code' is not valid."
    ),
    70020: AadstsError(
        "expired_token",
        "The provided value for the input parameter 'device_code' is not valid. This device code has "
        "expired.",
    ),
    # Outages at Microsoft: retry later.
    90033: AadstsError(
        "temporarily_unavailable", "A transient error has occurred. Please try again.", status=503
    ),
    90006: AadstsError(
        "temporarily_unavailable", "An external service returned a retryable error.", status=503
    ),
    90024: AadstsError(
        "temporarily_unavailable",
        "A service request budget has been exceeded and has been temporarily throttled.",
        status=503,
    ),
    50033: AadstsError("server_error", "A transient error has occurred. Please try again.", status=500),
    50196: AadstsError(
        "invalid_grant",
        "The server terminated an operation because it encountered a client request loop. "
        "Please contact your app vendor.",
    ),
}


class EntraError(Exception):
    """An AADSTS error; `facts` fill the placeholders of its message. `shown_as` replaces the OAuth error."""

    def __init__(self, code: int, *, shown_as: str = "", **facts: str) -> None:
        super().__init__(code)
        self.code = code
        self.shown_as = shown_as
        self.facts = facts


class _ErrorFacts(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def format_timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def describe_error(error: EntraError, *, now: float, trace: str, correlation: str) -> str:
    text = ERRORS[error.code].text.format_map(_ErrorFacts(error.facts))
    tail = f"Trace ID: {trace}\r\nCorrelation ID: {correlation}\r\nTimestamp: {format_timestamp(now)}"
    return f"AADSTS{error.code}: {text}\r\n{tail}"


def error_body(
    error: EntraError, *, now: float, trace: str, correlation: str, base_url: str
) -> dict[str, Any]:
    """Return the JSON body of a failed token request."""
    entry = ERRORS[error.code]
    response: dict[str, Any] = {
        "error": error.shown_as or entry.error,
        "error_description": describe_error(error, now=now, trace=trace, correlation=correlation),
        "error_codes": [error.code],
        "timestamp": format_timestamp(now),
        "trace_id": trace,
        "correlation_id": correlation,
        "error_uri": f"{base_url}/error?code={error.code}",
    }
    if entry.suberror:
        response["suberror"] = entry.suberror
    return response
