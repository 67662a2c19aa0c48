"""The endpoints and user properties that Microsoft Graph has and mailsim does not simulate. They answer 501.

Mail, `outlook`, and users and groups themselves are listed operation by operation, everything else by the
first name of its path. Paths and methods that Graph lacks too get Graph's own error.
"""

_NONE: frozenset[str] = frozenset()
_GET, _POST = frozenset({"GET"}), frozenset({"POST"})
_EVERY_METHOD = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
# Functions whose path has them in place of a user's or group's ID.
_DIRECTORY_FUNCTIONS = {
    "$count": _GET,
    "delta": _GET,
    "getavailableextensionproperties": _POST,
    "getbyids": _POST,
    "validateproperties": _POST,
}
_OUTLOOK_FUNCTIONS = frozenset({"supportedlanguages", "supportedtimezones"})
_USER_SEGMENTS = frozenset(
    {
        "activities", "adhoccalls", "agreementacceptances", "appcatalogs", "approleassignments",
        "assignlicense", "authentication", "calendar", "calendargroups", "calendars", "calendarview",
        "changepassword", "chats", "checkmembergroups", "checkmemberobjects", "cloudclipboard", "cloudpcs",
        "contactfolders", "contacts", "createdobjects", "datasecurityandgovernance",
        "devicemanagementtroubleshootingevents", "devices", "directreports", "drive", "drives",
        "employeeexperience", "events", "exportdeviceandappmanagementdata", "exportpersonaldata",
        "extensions", "findmeetingtimes", "followedsites", "getmailtips", "getmanagedappdiagnosticstatuses",
        "getmanagedapppolicies", "getmanageddeviceswithappfailures", "getmembergroups", "getmemberobjects",
        "insights", "joinedteams", "licensedetails", "managedappregistrations", "manageddevices", "manager",
        "memberof", "notes", "oauth2permissiongrants", "onenote", "onlinemeetings",
        "onpremisessyncbehavior", "owneddevices", "ownedobjects", "people", "permissiongrants",
        "photo", "photos", "planner", "presence", "registereddevices", "reminderview",
        "removealldevicesfrommanagement", "reprocesslicenseassignment", "restore",
        "retryserviceprovisioning", "revokesigninsessions", "scopedrolememberof",
        "serviceprovisioningerrors", "settings", "solutions", "sponsorof", "sponsors", "teamwork", "todo",
        "transitivememberof", "wipemanagedappregistrationsbydevicetag",
    }
)  # fmt: skip
_TOP_SEGMENTS = frozenset(
    {
        "$metadata", "admin", "agreementacceptances", "agreements", "appcatalogs", "applications",
        "applicationtemplates", "auditlogs", "authenticationmethodconfigurations",
        "authenticationmethodspolicy", "certificatebasedauthconfiguration", "chats", "communications",
        "compliance", "connections", "contacts", "contracts", "copilot", "datapolicyoperations",
        "deviceappmanagement", "devicemanagement", "devices", "directory", "directoryobjects",
        "directoryroles", "directoryroletemplates", "domaindnsrecords", "domains", "drives", "education",
        "employeeexperience", "external", "filteroperators", "functions", "grouplifecyclepolicies",
        "groups", "groupsettings", "groupsettingtemplates", "identity", "identitygovernance",
        "identityprotection", "identityproviders", "informationprotection", "invitations",
        "oauth2permissiongrants", "organization", "permissiongrants", "places", "planner", "policies",
        "print", "privacy", "reports", "rolemanagement", "schemaextensions", "scopedrolememberships",
        "search", "security", "serviceprincipals", "shares", "sites", "solutions", "storage",
        "subscribedskus", "teams", "teamstemplates", "teamwork", "tenantrelationships", "users",
    }
)  # fmt: skip

# What only the version `beta` has.
_BETA_MESSAGE_ACTIONS = frozenset({"markasjunk", "markasnotjunk", "reportmessage", "unsubscribe"})
_BETA_OUTLOOK_SEGMENTS = frozenset({"taskfolders", "taskgroups", "tasks"})
_BETA_FOLDER_SEGMENTS = frozenset({"operations", "updateallmessagesreadstate", "userconfigurations"})
_BETA_USER_SEGMENTS = frozenset(
    {
        "analytics", "appconsentrequestsforapproval", "approleassignedresources", "approvals",
        "cloudpcpools", "communications", "convertexternaltointernalmemberuser",
        "deletepasswordsinglesignoncredentials", "deviceenrollmentconfigurations", "findmeetinglocations",
        "findroomlists", "findrooms", "geteffectivedeviceenrollmentconfigurations",
        "getloggedonmanageddevices", "getmanageddeviceswithfailedorpendingapps",
        "getpasswordsinglesignoncredentials", "informationprotection", "invalidateallrefreshtokens",
        "invitedby", "ismanagedappuserblocked", "joinedgroups", "managedapplogcollectionrequests",
        "mobileappintentandstates", "mobileapptroubleshootingevents", "notifications",
        "pendingaccessreviewinstances", "profile", "retrievemanageddeviceswithappinstallationissues",
        "security", "transitivereports", "unblockmanagedapps", "usagerights", "virtualevents",
        "windowsinformationprotectiondeviceregistrations", "wipeandblockmanagedapps",
        "wipemanagedappregistrationbydevicetag", "wipemanagedappregistrationsbyazureaddeviceid",
    }
)  # fmt: skip
_BETA_TOP_SEGMENTS = frozenset(
    {
        "accessreviewdecisions", "accessreviews", "activitystatistics", "administrativeunits",
        "alloweddatalocations", "app", "approleassignments", "approvalworkflowproviders",
        "bookingbusinesses", "bookingcurrencies", "businessflowtemplates", "commands",
        "dataclassification", "devicelocalcredentials", "directorysettingtemplates", "filteringpolicies",
        "financials", "governanceresources", "governanceroleassignmentrequests",
        "governanceroleassignments", "governanceroledefinitions", "governancerolesettings",
        "governancesubjects", "messageevents", "messagerecipients", "messagetraces",
        "mobilitymanagementpolicies", "monitoring", "network", "networkaccess",
        "onpremisespublishingprofiles", "payloadresponse", "privilegedaccess", "privilegedapproval",
        "privilegedoperationevents", "privilegedroleassignmentrequests", "privilegedroleassignments",
        "privilegedroles", "privilegedsignupstatus", "programcontrols", "programcontroltypes", "programs",
        "riskdetections", "riskyusers", "settings", "teamtemplatedefinition", "termstore",
        "threatsubmission", "trustframework", "workplace",
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


# Properties that only the version `beta` has, by entity type.
BETA_PROPERTIES = {
    "message": frozenset({"mentions", "mentionspreview", "unsubscribedata", "unsubscribeenabled"}),
    "mailFolder": frozenset({"operations", "userconfigurations"}),
    "user": _BETA_USER_SEGMENTS
    | {"cloudrealtimecommunicationinfo", "devicekeys", "infocatalogs", "refreshtokensvalidfromdatetime"},
}


def is_directory_function(parts: list[str]) -> bool:
    """Return whether a path ends in a function of Graph that looks like the ID of an object."""
    return len(parts) == 2 and parts[0] in {"users", "groups"} and parts[1] in _DIRECTORY_FUNCTIONS


def get_unsimulated_methods(parts: list[str], version: str) -> frozenset[str]:
    """Return the methods that Graph has on a path and mailsim has not.

    `parts` are in lower case, and begin with `users` for `me`.
    """
    beta = version == "beta"
    if not parts:
        return _GET  # the service document
    if parts[0] in {"users", "groups"} and len(parts) <= 2:
        return _get_directory_methods(parts)
    if parts[0] != "users":
        known = parts[0] in _TOP_SEGMENTS or (beta and parts[0] in _BETA_TOP_SEGMENTS)
        return _EVERY_METHOD if known else _NONE
    rest = parts[2:]
    if rest[0] in {"mailfolders", "messages"}:
        return _get_mail_methods(rest, beta=beta)
    if rest[0] == "outlook":
        return _get_outlook_methods(rest[1:], beta=beta)
    known = rest[0] in _USER_SEGMENTS or (beta and rest[0] in _BETA_USER_SEGMENTS)
    return _EVERY_METHOD if known else _NONE


def _get_directory_methods(parts: list[str]) -> frozenset[str]:
    if is_directory_function(parts):
        return _DIRECTORY_FUNCTIONS[parts[1]]
    return _POST if len(parts) == 1 else frozenset({"PATCH", "DELETE"})


def _get_mail_methods(rest: list[str], *, beta: bool) -> frozenset[str]:
    if rest[0] == "mailfolders":
        if rest[2:] == ["childfolders", "delta"]:
            return _GET
        if beta and len(rest) > 2 and rest[2] in _BETA_FOLDER_SEGMENTS:
            return _EVERY_METHOD
        if len(rest) > 3 and rest[2] == "messages":
            rest = rest[2:]
    if rest[0] != "messages" or len(rest) < 3:
        return _NONE
    if beta and rest[2] == "mentions":
        return _EVERY_METHOD
    if rest[2:] == ["$value"]:
        return frozenset({"PUT", "DELETE"})
    return _POST if beta and len(rest) == 3 and rest[2] in _BETA_MESSAGE_ACTIONS else _NONE


def _get_outlook_methods(rest: list[str], *, beta: bool) -> frozenset[str]:
    if not rest:
        return _GET
    if beta and rest[0] in _BETA_OUTLOOK_SEGMENTS:
        return _EVERY_METHOD
    # supportedTimeZones has an argument in parentheses, which is a part of its own.
    return _GET if rest[0] in _OUTLOOK_FUNCTIONS and len(rest) <= 2 else _NONE
