"""From a response of a directory service to Postroom's error. Both providers answer alike."""

from typing import Any, Final, cast

from postroom.errors import (
    NotFound,
    OperatorError,
    PostroomError,
    ProviderServerError,
    RateLimited,
    TokenRejected,
)
from postroom.providers.transport import ErrorMapping, HttpResponse

_RATE_REASONS: Final = {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"}


def make_mapping(denied: str) -> ErrorMapping:
    """The mapping of one provider; `denied` says which permission is missing."""

    def to_error(response: HttpResponse) -> PostroomError | None:
        match response.status:
            case status if status < 400:
                return None
            case 401:
                return TokenRejected("The directory rejects the access token, even a fresh one.")
            case 429:
                return _rate_limited(response)
            case 403 if _RATE_REASONS & _list_reasons(response):
                return _rate_limited(response)
            case 403:
                return OperatorError(denied)
            case 404:
                return NotFound("The directory does not have this item")
            case status if status >= 500:
                return ProviderServerError(f"The directory returned a server error (status {status}).")
            case status:
                return OperatorError(f"The directory rejected the request (status {status}).")

    return to_error


def _rate_limited(response: HttpResponse) -> RateLimited:
    header = response.headers.get("retry-after", "")
    return RateLimited(
        "The directory limits the request rate.", retry_after=float(header) if header.isdecimal() else None
    )


def _list_reasons(response: HttpResponse) -> set[str]:
    error = response.error_body().get("error")
    entries = cast("dict[str, Any]", error).get("errors") if isinstance(error, dict) else None
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    return {str(cast("dict[str, Any]", entry).get("reason")) for entry in listed if isinstance(entry, dict)}
