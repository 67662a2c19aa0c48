"""Workspace: the Google Workspace of each domain, with its customer ID, administrators and groups.

Every domain of a Gmail mailbox is a Workspace of its own, except Google's consumer domains.
"""

import string
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from mailsim.hashing import stable_hash

MemberRole = Literal["OWNER", "MANAGER", "MEMBER"]
_ALPHABET = string.digits + string.ascii_lowercase


class GroupMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    email: str
    role: MemberRole = "MEMBER"


class WorkspaceGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group; a member may be a user, another group or an address outside the domain."""

    email: str
    name: str = ""
    description: str = ""
    members: tuple[GroupMember, ...] = ()


@dataclass(slots=True)
class Workspace:
    """Administrators, by address in lower case, and groups, by address, of all Workspaces."""

    seed: int
    admins: set[str] = field(default_factory=set[str])
    groups: dict[str, WorkspaceGroup] = field(default_factory=dict[str, WorkspaceGroup])

    def get_customer_id(self, domain: str) -> str:
        number = stable_hash(self.seed, "customer", domain.lower())
        return "C" + _to_base36(number, 8)

    def get_group_id(self, email: str) -> str:
        return _to_base36(stable_hash(self.seed, "group", email.lower()), 12)


def _to_base36(number: int, length: int) -> str:
    return "".join(_ALPHABET[number // 36**place % 36] for place in range(length))
