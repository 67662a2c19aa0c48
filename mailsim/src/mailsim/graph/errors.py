"""GraphError (status, code, message), its JSON body, and the errors that several modules raise.

Throttling errors are in `throttle`.
"""

from datetime import UTC, datetime
from typing import Any

from mailsim.errors import explain_unsimulated


class GraphError(Exception):
    """A failed request. With `bare`, the body has no innerError, as in Exchange's throttling responses."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        bare: bool = False,
        inner: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}
        self.bare = bare
        self.inner = inner


def error_body(error: GraphError, *, now: float, request_id: str, client_request_id: str) -> dict[str, Any]:
    response: dict[str, Any] = {"code": error.code, "message": error.message}
    if not error.bare:
        response["innerError"] = {
            **(error.inner or {}),
            "date": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            "request-id": request_id,
            "client-request-id": client_request_id,
        }
    return {"error": response}


def bad_request(message: str, code: str = "BadRequest") -> GraphError:
    return GraphError(400, code, message)


def unknown_property(name: str, kind: str) -> GraphError:
    """Return the error of Graph's parser for a property that the entity type does not have."""
    return GraphError(
        400,
        "RequestBroker--ParseUri",
        f"Could not find a property named '{name}' on type 'microsoft.graph.{kind}'.",
    )


def undefined_property(name: str, kind: str) -> GraphError:
    """Return the error for a property in a request's JSON that the type does not have."""
    return GraphError(
        400,
        "RequestBodyRead",
        f"The property '{name[:100]}' does not exist on type 'microsoft.graph.{kind}'. Make sure to only use "
        "property names that are defined by the type or mark the type as open type.",
    )


def unsimulated_property(name: str, kind: str) -> GraphError:
    """Return the error for a property that only the real Graph has. It is not one of Graph's errors."""
    return unsimulated_value(f"the property '{name}' of a {kind}")


def unsimulated_value(subject: str) -> GraphError:
    """Return the error for a value in a request that only the real Graph accepts."""
    return GraphError(501, "NotImplemented", explain_unsimulated(subject))


def malformed_id() -> GraphError:
    return GraphError(400, "ErrorInvalidIdMalformed", "Id is malformed.")


def not_found() -> GraphError:
    return GraphError(404, "ErrorItemNotFound", "The specified object was not found in the store.")


def access_denied(message: str = "Access is denied. Check credentials and try again.") -> GraphError:
    return GraphError(403, "ErrorAccessDenied", message)


def no_such_path(segment: str) -> GraphError:
    return GraphError(400, "BadRequest", f"Resource not found for the segment '{segment}'.")


def not_simulated(method: str, path: str) -> GraphError:
    """Return the error for an endpoint that only the real Graph has. It is not one of Graph's errors."""
    return GraphError(501, "NotImplemented", explain_unsimulated(f"{method} {path[:200]}"))


def method_not_allowed(method: str) -> GraphError:
    return GraphError(
        405, "Request_BadRequest", f"Specified HTTP method is not allowed for the request target: {method}."
    )


def sync_state_gone(message: str, headers: dict[str, str]) -> GraphError:
    return GraphError(410, "SyncStateNotFound", message, headers=headers)
