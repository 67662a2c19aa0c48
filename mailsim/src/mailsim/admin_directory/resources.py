"""The JSON of users, groups and members, as the Directory API describes them."""

import hashlib
from collections.abc import Mapping
from typing import Any

from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccount
from mailsim.google.workspace import GroupMember, WorkspaceGroup

_NEVER = "1970-01-01T00:00:00.000Z"


def to_user_json(google: GoogleContext, account: GoogleAccount) -> dict[str, Any]:
    problem = google.grants.account_problems.get(account.sub)
    given, _, family = account.name.partition(" ")
    suspended = problem == "suspended"
    user = {
        "kind": "admin#directory#user",
        "id": account.sub,
        "primaryEmail": account.email,
        "name": {"givenName": given, "familyName": family or given, "fullName": account.name},
        "isAdmin": account.email.lower() in google.workspace.admins,
        "isDelegatedAdmin": False,
        "lastLoginTime": _NEVER,
        "creationTime": "2020-01-01T00:00:00.000Z",
        "agreedToTerms": True,
        "suspended": suspended,
        "archived": False,
        "changePasswordAtNextLogin": False,
        "ipWhitelisted": False,
        "emails": [{"address": account.email, "primary": True}],
        "customerId": google.workspace.get_customer_id(get_domain(account.email)),
        "orgUnitPath": "/",
        "isMailboxSetup": problem != "mail_disabled",
        "isEnrolledIn2Sv": False,
        "isEnforcedIn2Sv": False,
        "includeInGlobalAddressList": True,
    } | ({"suspensionReason": "ADMIN"} if suspended else {})
    return with_etag(user)


def to_group_json(google: GoogleContext, group: WorkspaceGroup) -> dict[str, Any]:
    return with_etag(
        {
            "kind": "admin#directory#group",
            "id": google.workspace.get_group_id(group.email),
            "email": group.email,
            "name": group.name or group.email.partition("@")[0],
            "description": group.description,
            "directMembersCount": str(len(group.members)),
            "adminCreated": True,
        }
    )


def to_member_json(google: GoogleContext, member: GroupMember) -> dict[str, Any]:
    """Return a member. One outside the Workspace has no ID and no status."""
    entry: dict[str, Any] = {"kind": "admin#directory#member", "email": member.email, "role": member.role}
    account = google.find_account(member.email)
    if member.email.lower() in google.workspace.groups:
        entry |= {"id": google.workspace.get_group_id(member.email), "type": "GROUP", "status": "ACTIVE"}
    elif account is not None:
        suspended = google.grants.account_problems.get(account.sub) == "suspended"
        entry |= {"id": account.sub, "type": "USER", "status": "SUSPENDED" if suspended else "ACTIVE"}
    else:
        entry |= {"type": "USER"}
    return with_etag(entry)


def with_etag(entry: Mapping[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(repr(sorted(entry.items())).encode()).hexdigest()[:27]
    return {**entry, "etag": f'"{digest}"'}


def get_domain(email: str) -> str:
    return email.rpartition("@")[2].lower()
