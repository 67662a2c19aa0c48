"""The users of a Microsoft 365 tenant by Graph, as a `ports.RemoteDirectory`.

The application reads them with its own credential, and so needs User.Read.All, with groups also
GroupMember.Read.All.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from postroom.errors import NotFound, PermanentError
from postroom.model import Account, AppCredential
from postroom.ports import DirectoryUser
from postroom.providers.app_tokens import AppTokens
from postroom.providers.graph.login import EntraLogin
from postroom.providers.rate_limit import MailboxRateLimit
from postroom.providers.transport import HttpRequest, Transport

PER_PAGE: Final = "999"  # the most that Graph returns
DENIED: Final = (
    "Microsoft does not let the application read the directory. Grant it the application permissions"
    " User.Read.All and, to select by group, GroupMember.Read.All, with the consent of an administrator."
)
_MEMBERS_ONLY: Final = "userType eq 'Member'"  # and no guests, whose mailboxes are elsewhere
_SELECT: Final = "id,mail,userPrincipalName,accountEnabled,userType"
T = TypeVar("T")


class _TenantUser(msgspec.Struct, rename="camel"):
    id: str
    mail: str | None = None
    user_principal_name: str = ""
    account_enabled: bool | None = None
    user_type: str | None = None


class _TenantUsers(msgspec.Struct):
    value: list[_TenantUser] = []
    next_link: str | None = msgspec.field(name="@odata.nextLink", default=None)


class _Group(msgspec.Struct):
    id: str


class _Groups(msgspec.Struct):
    value: list[_Group] = []


@dataclass(frozen=True)
class TenantDirectory:
    transport: Transport
    url: str  # includes the version
    login: EntraLogin
    credential: AppCredential
    rate_limit: MailboxRateLimit

    async def list_users(self, groups: Sequence[str]) -> AsyncIterator[Sequence[DirectoryUser]]:
        tokens = AppTokens(lambda old: self.login.app_tokens(self.credential, "", frozenset(), replacing=old))
        tenant = await self.login.get_tenant_id(self.credential.tenant_id or "")
        query = {"$select": _SELECT, "$top": PER_PAGE}
        links = [f"users?{_encode({**query, '$filter': _MEMBERS_ONLY})}"]
        if groups:
            ids = [await self._find_group(tokens, group) for group in groups]
            kind = "transitiveMembers/microsoft.graph.user"
            links = [f"groups/{id_}/{kind}?{_encode(query)}" for id_ in ids]
        seen: set[str] = set()
        for first in links:
            link: str | None = first
            while link is not None:
                page = await self._get(tokens, link, _TenantUsers)
                users = [user for user in page.value if user.id not in seen and user.user_type != "Guest"]
                seen |= {user.id for user in users}
                yield [_to_user(tenant, user) for user in users]
                link = page.next_link and self._relative(page.next_link)

    async def _find_group(self, tokens: AppTokens, group: str) -> str:
        """The ID of a group by its address. Graph knows groups by ID only."""
        quoted = group.replace("'", "''")
        query = _encode({"$filter": f"mail eq '{quoted}'", "$select": "id"})
        found = (await self._get(tokens, f"groups?{query}", _Groups)).value
        if not found:
            raise NotFound(f"The directory has no group {group}.")
        return found[0].id

    async def _get(self, tokens: AppTokens, path: str, shape: type[T]) -> T:
        return await self.transport.read(
            HttpRequest("GET", f"{self.url}/{path}"),
            lambda response: response.read(shape),
            tokens=tokens,
            rate_limit=self.rate_limit,
        )

    def _relative(self, link: str) -> str:
        if not link.startswith(f"{self.url}/"):
            raise PermanentError("Microsoft returned a link to a host other than that of POSTROOM_GRAPH_URL.")
        return link.removeprefix(f"{self.url}/")


def _encode(query: dict[str, str]) -> str:
    return urlencode(query, quote_via=quote, safe="$")


def _to_user(tenant: str, user: _TenantUser) -> DirectoryUser:
    address = (user.mail or user.user_principal_name).lower()
    account = Account(f"{tenant}:{user.id}", user.id, address, f"{tenant}:{address}")
    if user.account_enabled is False:
        return DirectoryUser(account, "is disabled")
    return DirectoryUser(account, None if user.mail else "has no mailbox")
