"""The errors of injected faults, as Graph and Exchange write them."""

from mailsim.graph import authorization, throttle
from mailsim.graph.errors import GraphError

_ERRORS = {
    403: ("ErrorAccessDenied", "Access is denied. Check credentials and try again."),
    404: ("BadRequest", "Resource not found."),
    500: ("ErrorInternalServerTransientError", "An internal server error occurred. Try again later."),
    503: ("serviceNotAvailable", "The service is temporarily unavailable."),
    509: ("activityLimitReached", "The app or user has been throttled."),
}


def make_fault_error(status: int, seconds: int) -> GraphError:
    """Return the error of a fault; with `seconds`, it asks to wait for so long."""
    headers = {"retry-after": str(seconds)} if seconds else {}
    if status == 401:
        return authorization.reject_token("Access token validation failure.", headers=headers)
    if status == 429:
        return throttle.too_many_requests(headers)
    code, message = _ERRORS.get(status, ("UnknownError", "An unknown error occurred."))
    return GraphError(status, code, message, headers=headers)
