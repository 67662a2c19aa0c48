"""Authentication and authorization of Graph requests: token, addressed user, permission.

Failures are raised as Graph's own errors.
"""

import base64
from collections.abc import Mapping
from typing import Literal

import msgspec

from mailsim.entra.directory import EntraUser
from mailsim.entra.grants import EntraAccessToken
from mailsim.entra.scopes import GRAPH_APP_ID
from mailsim.graph.context import GraphContext
from mailsim.graph.errors import GraphError, access_denied

RequiredPermission = Literal["read", "full", "write", "send", "settings", "settings write", "user", "nothing"]
_ALLOWED = {
    "write": frozenset({"Mail.ReadWrite"}),
    "send": frozenset({"Mail.Send"}),
    "settings": frozenset({"MailboxSettings.Read", "MailboxSettings.ReadWrite"}),
    "settings write": frozenset({"MailboxSettings.ReadWrite"}),
}
_FULL = frozenset({"Mail.Read", "Mail.ReadWrite"})
_BASIC = frozenset({"Mail.ReadBasic", "Mail.ReadBasic.All"})
_RAOP = "Access to OData is disabled: [RAOP] : Blocked by tenant configured AppOnly AccessPolicy settings."


def reject_token(
    message: str, challenge: str = "", *, headers: Mapping[str, str] | None = None
) -> GraphError:
    """Return the error for a missing or invalid token, with the challenge that RFC 6750 requires."""
    header = (
        'Bearer realm="", authorization_uri="https://login.microsoftonline.com/common/oauth2/authorize", '
        f'client_id="{GRAPH_APP_ID}"'
    )
    challenged = {**(headers or {}), "www-authenticate": header + challenge}
    return GraphError(401, "InvalidAuthenticationToken", message, headers=challenged)


def authenticate(graph: GraphContext, authorization: str) -> EntraAccessToken:
    scheme, _, token = authorization.partition(" ")
    if not token.strip() or scheme.lower() != "bearer":
        raise reject_token("Access token is empty.")
    access = graph.entra.grants.find_access_token(token.strip())
    if access is None:
        is_jwt = token.count(".") == 2
        raise reject_token(
            "Access token validation failure. Invalid signature."
            if is_jwt
            else "CompactToken parsing failed with error code: 80049217"
        )
    if access.expires <= graph.sim.clock.time():
        raise reject_token("Lifetime validation failed, the token is expired.")
    if access.challenged:
        since = str(int(graph.sim.clock.time()))
        claims = {"access_token": {"nbf": {"essential": True, "value": since}}}
        encoded = base64.b64encode(msgspec.json.encode(claims)).decode()
        raise reject_token(
            "Continuous access evaluation resulted in challenge with result: InteractionRequired "
            "and code: TokenIssuedBeforeRevocationTimestamp",
            f', error="insufficient_claims", claims="{encoded}"',
        )
    return access


def resolve_user(graph: GraphContext, access: EntraAccessToken, name: str, *, mail: bool) -> EntraUser:
    """Return the user of `me` or `users/{id}`. `mail` means that the path continues into the mailbox."""
    if name == "me":
        if access.user is None:
            raise GraphError(
                400, "BadRequest", "/me request is only valid with delegated authentication flow."
            )
        user = graph.entra.directory.find_user(access.user.oid)
    else:
        user = graph.entra.directory.find_user(name)
        if user is not None and user.tid != access.tid:
            user = None
    if user is None:
        if mail:
            raise GraphError(404, "ResourceNotFound", "Resource could not be discovered.")
        raise GraphError(
            404,
            "Request_ResourceNotFound",
            f"Resource '{name[:100]}' does not exist or one of its queried reference-property objects "
            "are not present.",
        )
    if mail and user.upn.lower() in graph.without_mailbox:
        raise GraphError(
            404,
            "MailboxNotEnabledForRESTAPI",
            "The mailbox is either inactive, soft-deleted, or is hosted on-premise.",
        )
    return user


def check_permission(
    graph: GraphContext, access: EntraAccessToken, user: EntraUser, required: RequiredPermission
) -> bool:
    """Raise unless the token has the permission.

    Return True if it may only read what Mail.ReadBasic shows.
    """
    held = access.scopes if access.user else access.roles
    if access.user is not None and access.user.oid != user.oid:
        if required != "user":
            raise access_denied()
        check_directory_permission(access)
    if required == "user":
        if not any(name.startswith("User.Read") for name in held):
            raise _directory_denied()
        return False
    settings = graph.entra.directory.get_settings(access.application)
    if access.user is None and settings.mailboxes is not None and user.upn.lower() not in settings.mailboxes:
        raise access_denied(_RAOP)
    if held & _ALLOWED.get(required, _FULL):
        return False
    if required == "read" and held & _BASIC:
        return True
    raise access_denied()


def check_directory_permission(access: EntraAccessToken) -> None:
    """Raise unless the token may read all users: reading the own profile is not enough."""
    held = access.scopes if access.user else access.roles
    if not held & {"User.Read.All", "User.ReadBasic.All"}:
        raise _directory_denied()


def check_group_permission(access: EntraAccessToken) -> None:
    """Raise unless the token may read groups and their members."""
    held = access.scopes if access.user else access.roles
    if not held & {"Group.Read.All", "GroupMember.Read.All"}:
        raise _directory_denied()


def _directory_denied() -> GraphError:
    message = "Insufficient privileges to complete the operation."
    return GraphError(403, "Authorization_RequestDenied", message)
