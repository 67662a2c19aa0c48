"""The users of a Google Workspace by the Admin SDK Directory API, as a `ports.RemoteDirectory`.

A service account reads on behalf of an administrator. The ID of a user here is the `sub` of the user's
tokens, so a mailbox found here is the one that a sign-in of its owner finds.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from postroom.errors import NotFound
from postroom.model import Account, AppCredential
from postroom.ports import DirectoryUser, ProviderLogin
from postroom.providers.app_tokens import AppTokens
from postroom.providers.rate_limit import MailboxRateLimit
from postroom.providers.transport import HttpRequest, Transport

_PREFIX: Final = "https://www.googleapis.com/auth/admin.directory."
USER_SCOPE: Final = f"{_PREFIX}user.readonly"
MEMBER_SCOPE: Final = f"{_PREFIX}group.member.readonly"
USERS_PER_PAGE: Final = 500  # the most that Google returns
MEMBERS_PER_PAGE: Final = 200
DENIED: Final = (
    "Google does not let the service account read the directory. Check that the address of --admin belongs to"
    " an administrator who may read users and groups, and that the Admin SDK API is enabled in the project."
)
T = TypeVar("T")


class _WorkspaceUser(msgspec.Struct, rename="camel"):
    id: str
    primary_email: str
    suspended: bool = False
    archived: bool = False
    is_mailbox_setup: bool = True


class _WorkspaceUsers(msgspec.Struct, rename="camel"):
    users: list[_WorkspaceUser] = []
    next_page_token: str | None = None


class _Member(msgspec.Struct):
    id: str = ""
    type: str = ""


class _Members(msgspec.Struct, rename="camel"):
    members: list[_Member] = []
    next_page_token: str | None = None


@dataclass(frozen=True)
class WorkspaceDirectory:
    transport: Transport
    url: str
    login: ProviderLogin
    credential: AppCredential
    admin: str
    rate_limit: MailboxRateLimit

    async def list_users(self, groups: Sequence[str]) -> AsyncIterator[Sequence[DirectoryUser]]:
        # Least privilege: without groups, the scope to read their members is not requested.
        scopes = frozenset({USER_SCOPE, MEMBER_SCOPE} if groups else {USER_SCOPE})
        tokens = AppTokens(
            lambda old: self.login.app_tokens(self.credential, self.admin, scopes, replacing=old)
        )
        members: set[str] = set()
        for group in groups:
            members |= await self._list_members(tokens, group)
        token: str | None = ""
        while token is not None:
            query = {"customer": "my_customer", "maxResults": str(USERS_PER_PAGE), "pageToken": token}
            page = await self._get(tokens, "users", query, _WorkspaceUsers)
            yield [_to_user(user) for user in page.users if not groups or user.id in members]
            token = page.next_page_token

    async def _list_members(self, tokens: AppTokens, group: str) -> set[str]:
        """The IDs of the users in a group and in the groups in it."""
        found: set[str] = set()
        token: str | None = ""
        while token is not None:
            query = {
                "includeDerivedMembership": "true",
                "maxResults": str(MEMBERS_PER_PAGE),
                "pageToken": token,
            }
            try:
                page = await self._get(tokens, f"groups/{quote(group)}/members", query, _Members)
            except NotFound as error:
                raise NotFound(f"The directory has no group {group}.") from error
            found |= {member.id for member in page.members if member.type == "USER" and member.id}
            token = page.next_page_token
        return found

    async def _get(self, tokens: AppTokens, path: str, query: Mapping[str, str], shape: type[T]) -> T:
        given = {name: value for name, value in query.items() if value}
        request = HttpRequest("GET", f"{self.url}/admin/directory/v1/{path}?{urlencode(given)}")
        return await self.transport.read(
            request, lambda response: response.read(shape), tokens=tokens, rate_limit=self.rate_limit
        )


def _to_user(user: _WorkspaceUser) -> DirectoryUser:
    address = user.primary_email.lower()
    reason = (
        "is suspended"
        if user.suspended
        else "is archived"
        if user.archived
        else "has no Gmail mailbox"
        if not user.is_mailbox_setup
        else None
    )
    return DirectoryUser(Account(account_id=user.id, provider_user_id=address, address=address), reason)
