"""The endpoints that Microsoft Graph has and mailsim does not simulate. They answer 501.

Mail is listed operation by operation, everything else by the first name of its path. Paths that Graph does
not have either get Graph's own error.
"""

from collections.abc import Sequence

_MESSAGE_OPERATIONS = {
    "markasjunk": "POST",
    "markasnotjunk": "POST",
    "unsubscribe": "POST",
    "$value": "PUT DELETE",
}
_USER_SEGMENTS = frozenset(
    {
        "activities", "agreementacceptances", "appcatalogs", "authentication", "calendar", "calendargroups",
        "calendars", "calendarview", "chats", "contactfolders", "contacts", "createdobjects", "devices",
        "directreports", "drive", "drives", "events", "extensions", "findmeetingtimes", "followedsites",
        "getmailtips", "getmembergroups", "getmemberobjects", "insights",
        "joinedteams", "licensedetails", "manager", "memberof", "onenote",
        "onlinemeetings", "outlook", "owneddevices", "ownedobjects", "people", "photo", "photos", "planner",
        "presence", "registereddevices", "reminderview", "revokesigninsessions", "settings", "teamwork",
        "todo", "transitivememberof",
    }
)  # fmt: skip
_TOP_SEGMENTS = frozenset(
    {
        "admin", "applications", "auditlogs", "chats", "communications", "contacts", "devices", "directory",
        "directoryobjects", "directoryroles", "domains", "drives", "education", "groups", "identity",
        "identitygovernance", "organization", "places", "planner", "policies", "reports", "search",
        "security", "serviceprincipals", "shares", "sites", "teams", "teamwork", "tenantrelationships",
        "users",
    }
)  # fmt: skip


def is_unsimulated(method: str, parts: Sequence[str]) -> bool:
    """Return whether Graph has this endpoint. `parts` are in lower case, and begin with `users` for `me`."""
    if not parts:
        return False
    if parts[0] != "users":
        return parts[0] in _TOP_SEGMENTS
    if len(parts) <= 2:
        return method in {"POST", "PATCH", "DELETE"}
    rest = list(parts[2:])
    if rest[0] == "mailfolders" and len(rest) > 3 and rest[2] == "messages":
        rest = rest[2:]
    if rest[0] == "messages":
        return len(rest) == 3 and method in _MESSAGE_OPERATIONS.get(rest[2], "").split()
    return rest[0] in _USER_SEGMENTS
