"""GmailError, its JSON body in Google's format, and the errors that several modules raise.

The body has the legacy `errors[]` and the current `status` and `details[]`. Errors for exceeded
quotas are in `quota`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mailsim.errors import explain_unsimulated

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    413: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
_INVALID = f"Request had invalid authentication credentials. {_EXPECTED}"
_MISSING = f"Request is missing required authentication credential. {_EXPECTED}"


@dataclass(frozen=True, slots=True)
class GmailErrorBody:
    """The content of an error response."""

    code: int
    reason: str
    message: str
    domain: str = "global"
    status: str = ""
    short: str = ""  # the legacy text inside errors[], if it differs
    location: str = ""
    details: tuple[dict[str, Any], ...] = ()
    scopes: tuple[str, ...] = ()  # any of which a 403 asks for

    def to_json(self, *, legacy: bool = True) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if legacy:
            error["errors"] = [self._to_legacy_json()]
        error["status"] = self.status or _STATUS.get(self.code, "UNKNOWN")
        if self.details:
            error["details"] = list(self.details)
        return {"error": error}

    def list_challenges(self) -> tuple[tuple[str, str], ...]:
        """List the headers of a missing, invalid or insufficient token: RFC 6750, section 3."""
        if self.code != 401 and not self.scopes:
            return ()
        error = ', error="invalid_token"' if self.reason == "authError" else ""
        if self.scopes:
            error = f', error="insufficient_scope", scope="{" ".join(self.scopes)}"'
        return (("www-authenticate", f'Bearer realm="https://accounts.google.com/"{error}'),)

    def _to_legacy_json(self) -> dict[str, str]:
        entry = {"message": self.short or self.message, "domain": self.domain, "reason": self.reason}
        if self.location:
            kind = "header" if self.location == "Authorization" else "parameter"
            entry |= {"location": self.location, "locationType": kind}
        return entry


class GmailError(Exception):
    """An error response, raised by a method."""

    def __init__(self, body: GmailErrorBody) -> None:
        super().__init__(body.message)
        self.body = body


def bad_request(message: str, reason: str = "invalidArgument") -> GmailError:
    return GmailError(GmailErrorBody(400, reason, message))


def bad_field(field: str, description: str, message: str = "") -> GmailError:
    """A parameter or property of the wrong type, rejected before the method runs."""
    detail = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": field, "description": description}],
    }
    return GmailError(GmailErrorBody(400, "invalid", message or description, details=(detail,)))


def precondition(message: str = "Precondition check failed.") -> GmailError:
    return GmailError(GmailErrorBody(400, "failedPrecondition", message, status="FAILED_PRECONDITION"))


def not_found(message: str = "Requested entity was not found.") -> GmailError:
    return GmailError(GmailErrorBody(404, "notFound", message))


def not_simulated(endpoint: str) -> GmailError:
    """The error for a method that only the real Gmail has. It is not one of Gmail's errors."""
    return GmailError(GmailErrorBody(501, "notImplemented", explain_unsimulated(endpoint)))


def forbidden(message: str) -> GmailError:
    return GmailError(GmailErrorBody(403, "forbidden", message))


def no_token() -> GmailError:
    reason = _make_error_info("CREDENTIALS_MISSING", method="")
    return GmailError(
        GmailErrorBody(
            401, "required", _MISSING, short="Login Required.", location="Authorization", details=(reason,)
        )
    )


def bad_token() -> GmailError:
    return GmailError(
        GmailErrorBody(401, "authError", _INVALID, short="Invalid Credentials", location="Authorization")
    )


def missing_scope(method: str, scopes: Iterable[str]) -> GmailError:
    detail = _make_error_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", method=f"caribou.api.proto.{method}")
    message = "Request had insufficient authentication scopes."
    return GmailError(
        GmailErrorBody(
            403,
            "insufficientPermissions",
            message,
            short="Insufficient Permission",
            details=(detail,),
            scopes=tuple(sorted(scopes)),
        )
    )


def domain_policy() -> GmailError:
    return GmailError(
        GmailErrorBody(403, "domainPolicy", "The domain administrators have disabled Gmail apps.")
    )


def api_disabled(project_number: str) -> GmailError:
    message = (
        f"Gmail API has not been used in project {project_number} before or it is disabled. "
        "Enable it by visiting https://console.developers.google.com/apis/api/gmail.googleapis.com/overview"
        f"?project={project_number} then retry."
    )
    detail = _make_error_info("SERVICE_DISABLED", consumer=f"projects/{project_number}")
    return GmailError(
        GmailErrorBody(403, "accessNotConfigured", message, domain="usageLimits", details=(detail,))
    )


def _make_error_info(reason: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "gmail.googleapis.com"}
        | {key: value for key, value in metadata.items() if value},
    }
