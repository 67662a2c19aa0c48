"""The endpoints and user properties that Microsoft Graph has and mailsim does not simulate. They answer 501.

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
        "activities", "agreementacceptances", "appcatalogs", "approleassignments", "assignlicense",
        "authentication", "calendar", "calendargroups", "calendars", "calendarview", "changepassword",
        "chats", "checkmembergroups", "checkmemberobjects", "cloudclipboard", "contactfolders", "contacts",
        "createdobjects", "devices", "directreports", "drive", "drives", "employeeexperience", "events",
        "exportpersonaldata", "extensions", "findmeetingtimes", "followedsites", "getmailtips",
        "getmembergroups", "getmemberobjects", "insights", "joinedteams", "licensedetails",
        "manageddevices", "manager", "memberof", "oauth2permissiongrants", "onenote", "onlinemeetings",
        "outlook", "owneddevices", "ownedobjects", "people", "photo", "photos", "planner", "presence",
        "registereddevices", "reminderview", "revokesigninsessions", "settings", "sponsors", "teamwork",
        "todo", "transitivememberof",
    }
)  # fmt: skip
_TOP_SEGMENTS = frozenset(
    {
        "$metadata", "admin", "agreements", "appcatalogs", "applications", "applicationtemplates",
        "auditlogs", "chats", "communications", "connections", "contacts", "contracts", "copilot",
        "deviceappmanagement", "devicemanagement", "devices", "directory", "directoryobjects",
        "directoryroles", "directoryroletemplates", "domaindnsrecords", "domains", "drives", "education",
        "external", "groups", "groupsettings", "groupsettingtemplates", "identity", "identitygovernance",
        "identityprotection", "identityproviders", "informationprotection", "invitations",
        "oauth2permissiongrants", "organization", "permissiongrants", "places", "planner", "policies",
        "print", "privacy", "reports", "rolemanagement", "schemaextensions", "search", "security",
        "serviceprincipals", "shares", "sites", "solutions", "storage", "subscribedskus", "teams",
        "teamwork", "tenantrelationships", "users",
    }
)  # fmt: skip


# Properties and navigation properties of a user.
USER_PROPERTIES = frozenset(
    {
        "aboutme", "agegroup", "approleassignments", "assignedlicenses", "assignedplans",
        "birthday", "calendar", "consentprovidedforminor", "createddatetime", "createdobjects",
        "creationtype", "customsecurityattributes", "deleteddatetime", "directreports", "drive",
        "employeehiredate", "employeeleavedatetime", "employeeorgdata", "extensions",
        "externaluserstate", "externaluserstatechangedatetime", "hiredate", "identities",
        "imaddresses", "interests", "ismanagementrestricted", "isresourceaccount",
        "lastpasswordchangedatetime", "legalagegroupclassification", "licenseassignmentstates",
        "licensedetails", "mailboxsettings", "manager", "memberof", "mysite",
        "oauth2permissiongrants", "onpremisesdistinguishedname", "onpremisesdomainname",
        "onpremisesextensionattributes", "onpremisesimmutableid", "onpremiseslastsyncdatetime",
        "onpremisesprovisioningerrors", "onpremisessamaccountname", "onpremisessecurityidentifier",
        "onpremisessyncenabled", "onpremisesuserprincipalname", "owneddevices", "ownedobjects",
        "passwordpolicies", "passwordprofile", "pastprojects", "photo", "preferreddatalocation",
        "preferredname", "provisionedplans", "registereddevices", "responsibilities", "schools",
        "securityidentifier", "serviceprovisioningerrors", "showinaddresslist", "signinactivity",
        "signinsessionsvalidfromdatetime", "skills", "sponsors", "transitivememberof",
    }
)  # fmt: skip


def is_directory_function(parts: Sequence[str]) -> bool:
    """Return whether a path ends in a function of Graph that looks like the ID of an object."""
    return len(parts) == 2 and parts[0] in {"users", "groups"} and parts[1] == "delta"


def is_unsimulated(method: str, parts: Sequence[str]) -> bool:
    """Return whether Graph has this endpoint. `parts` are in lower case, and begin with `users` for `me`."""
    if not parts:
        return method == "GET"  # the service document
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
