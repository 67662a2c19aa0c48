"""May this token do that? Authentication, whose mailbox, which permission. Raises Graph's own refusals."""

import base64
from typing import Literal

import msgspec

from mailsim.entra.directory import User
from mailsim.entra.grants import Access
from mailsim.graph.context import Graph
from mailsim.graph.errors import GraphError, access_denied

Need = Literal["read", "full", "write", "send", "user", "nothing"]
_FULL = frozenset({"Mail.Read", "Mail.ReadWrite"})
_BASIC = frozenset({"Mail.ReadBasic", "Mail.ReadBasic.All"})
_RAOP = "Access to OData is disabled: [RAOP] : Blocked by tenant configured AppOnly AccessPolicy settings."


def _unauthenticated(message: str, challenge: str = "") -> GraphError:
    header = 'Bearer realm="", authorization_uri="https://login.microsoftonline.com/common/oauth2/authorize"'
    headers = {"www-authenticate": header + challenge}
    return GraphError(401, "InvalidAuthenticationToken", message, headers=headers)


def authenticate(graph: Graph, authorization: str) -> Access:
    scheme, _, token = authorization.partition(" ")
    if not token.strip() or scheme.lower() != "bearer":
        raise _unauthenticated("Access token is empty.")
    access = graph.entra.grants.find_access(token.strip())
    if access is None:
        shown = token.count(".") == 2
        raise _unauthenticated(
            "Access token validation failure. Invalid signature."
            if shown
            else "CompactToken parsing failed with error code: 80049217"
        )
    if access.expires <= graph.sim.clock.time():
        raise _unauthenticated("Lifetime validation failed, the token is expired.")
    if access.challenged:
        since = str(int(graph.sim.clock.time()))
        claims = {"access_token": {"nbf": {"essential": True, "value": since}}}
        encoded = base64.b64encode(msgspec.json.encode(claims)).decode()
        raise _unauthenticated(
            "Continuous access evaluation resulted in challenge with result: InteractionRequired "
            "and code: TokenIssuedBeforeRevocationTimestamp",
            f', error="insufficient_claims", claims="{encoded}"',
        )
    return access


def owner(graph: Graph, access: Access, name: str, *, mail: bool) -> User:
    """The user that `me` or `users/{id}` means. `mail`: the path goes on into the mailbox."""
    if name == "me":
        if access.user is None:
            raise GraphError(
                400, "BadRequest", "/me request is only valid with delegated authentication flow."
            )
        found = graph.entra.directory.find(access.user.oid)
    else:
        found = graph.entra.directory.find(name)
        if found is not None and found.tid != access.tid:
            found = None
    if found is None:
        if mail:
            raise GraphError(404, "ResourceNotFound", "Resource could not be discovered.")
        raise GraphError(
            404,
            "Request_ResourceNotFound",
            f"Resource '{name[:100]}' does not exist or one of its queried reference-property objects "
            "are not present.",
        )
    if mail and found.upn.lower() in graph.without_mailbox:
        raise GraphError(
            404,
            "MailboxNotEnabledForRESTAPI",
            "The mailbox is either inactive, soft-deleted, or is hosted on-premise.",
        )
    return found


def permit(graph: Graph, access: Access, user: User, need: Need) -> bool:
    """Raise unless the token may; True when it may see only what Mail.ReadBasic shows."""
    if access.user is not None and access.user.oid != user.oid:
        raise access_denied() if need != "user" else _denied_directory()
    held = access.scopes if access.user else access.roles
    if need == "user":
        if not any(name.startswith("User.Read") for name in held):
            raise _denied_directory()
        return False
    settings = graph.entra.directory.settings(access.application)
    if access.user is None and settings.mailboxes is not None and user.upn.lower() not in settings.mailboxes:
        raise access_denied(_RAOP)
    allowed = {"write": {"Mail.ReadWrite"}, "send": {"Mail.Send"}}.get(need, _FULL)
    if held & allowed:
        return False
    if need == "read" and held & _BASIC:
        return True
    raise access_denied()


def _denied_directory() -> GraphError:
    message = "Insufficient privileges to complete the operation."
    return GraphError(403, "Authorization_RequestDenied", message)
