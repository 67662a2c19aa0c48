"""The admin console in the control API: service accounts, delegations, administrators and groups."""

from dataclasses import dataclass
from typing import Any

from mailsim.control.endpoint import ControlCall, ControlEndpoint
from mailsim.control.schemas import AffectedCount, ControlInput
from mailsim.errors import InvalidRequest, NotFound
from mailsim.google.clients import CONSUMER_DOMAINS
from mailsim.google.context import GoogleContext
from mailsim.google.workspace import WorkspaceGroup

KeyFile = dict[str, Any]  # Google's JSON key file


class NewServiceAccountKey(ControlInput, frozen=True):
    """The service account, which is created if it does not exist."""

    name: str
    project: str = "mailsim"


class ServiceAccountDescription(ControlInput, frozen=True):
    email: str
    client_id: str
    project: str
    keys: tuple[str, ...]


class Delegation(ControlInput, frozen=True):
    """The scopes that the administrator of a domain authorized a service account for."""

    client_id: str
    domain: str
    scopes: tuple[str, ...]


class DelegationName(ControlInput, frozen=True):
    client_id: str
    domain: str


class AdministratorChange(ControlInput, frozen=True):
    admin: bool


class GroupName(ControlInput, frozen=True):
    email: str


@dataclass(frozen=True, slots=True)
class WorkspaceControl:
    google: GoogleContext

    def endpoints(self) -> tuple[ControlEndpoint, ...]:
        return (*self._list_service_account_endpoints(), *self._list_directory_endpoints())

    def _list_service_account_endpoints(self) -> tuple[ControlEndpoint, ...]:
        accounts, delegations = "/google/service-accounts", "/google/delegations"
        issue, listing = "Issue a key of a service account as a JSON key file", "List service accounts"
        delegate = "Authorize or replace a service account's scopes in a domain"
        return (
            ControlEndpoint(
                "POST", accounts, issue, self.issue_key, KeyFile, NewServiceAccountKey, status=201
            ),
            ControlEndpoint(
                "GET", accounts, listing, self.list_service_accounts, list[ServiceAccountDescription]
            ),
            ControlEndpoint(
                "DELETE", accounts + "/{email}", "Delete a service account", self.delete_service_account
            ),
            ControlEndpoint(
                "DELETE", accounts + "/{email}/keys/{key}", "Delete a key", self.delete_service_account_key
            ),
            ControlEndpoint("GET", delegations, "List delegations", self.list_delegations, list[Delegation]),
            ControlEndpoint(
                "POST", delegations, delegate, self.add_delegation, Delegation, Delegation, status=201
            ),
            ControlEndpoint(
                "DELETE", delegations, "Remove a delegation", self.remove_delegation, query=DelegationName
            ),
        )

    def _list_directory_endpoints(self) -> tuple[ControlEndpoint, ...]:
        groups = "/google/groups"
        return (
            ControlEndpoint(
                "POST",
                "/google/accounts/{address}/admin",
                "Make an account an administrator of its domain, or end this",
                self.change_administrator,
                AffectedCount,
                AdministratorChange,
            ),
            ControlEndpoint("GET", groups, "List groups", self.list_groups, list[WorkspaceGroup]),
            ControlEndpoint(
                "POST",
                groups,
                "Create or replace a group",
                self.add_group,
                WorkspaceGroup,
                WorkspaceGroup,
                status=201,
            ),
            ControlEndpoint("DELETE", groups, "Delete a group", self.remove_group, query=GroupName),
        )

    async def issue_key(self, call: ControlCall) -> KeyFile:
        account, key_id = self.google.service_accounts.issue_key(call.body.name, call.body.project)
        return account.to_key_file(key_id, call.origin)

    async def list_service_accounts(self, _call: ControlCall) -> list[ServiceAccountDescription]:
        return [
            ServiceAccountDescription(account.email, account.client_id, account.project, tuple(account.keys))
            for account in self.google.service_accounts.accounts.values()
        ]

    async def delete_service_account(self, call: ControlCall) -> None:
        self.google.service_accounts.delete_account(call.path["email"])

    async def delete_service_account_key(self, call: ControlCall) -> None:
        self.google.service_accounts.delete_key(call.path["email"], call.path["key"])

    async def list_delegations(self, _call: ControlCall) -> list[Delegation]:
        return [
            Delegation(client_id, domain, tuple(sorted(scopes)))
            for (client_id, domain), scopes in self.google.service_accounts.delegations.items()
        ]

    async def add_delegation(self, call: ControlCall) -> Delegation:
        delegation: Delegation = call.body
        domain = delegation.domain.lower()
        _check_workspace(domain)
        self.google.service_accounts.delegations[delegation.client_id, domain] = frozenset(delegation.scopes)
        return delegation

    async def remove_delegation(self, call: ControlCall) -> None:
        key = (call.query.client_id, call.query.domain.lower())
        if self.google.service_accounts.delegations.pop(key, None) is None:
            raise NotFound(f"{key[1]} has no delegation for the client {key[0]}")

    async def change_administrator(self, call: ControlCall) -> AffectedCount:
        account = self.google.find_account(call.path["address"])
        if account is None:
            raise NotFound(f"there is no Gmail mailbox {call.path['address']}")
        _check_workspace(account.email.rpartition("@")[2].lower())
        admins = self.google.workspace.admins
        (admins.add if call.body.admin else admins.discard)(account.email.lower())
        return AffectedCount(1)

    async def list_groups(self, _call: ControlCall) -> list[WorkspaceGroup]:
        return list(self.google.workspace.groups.values())

    async def add_group(self, call: ControlCall) -> WorkspaceGroup:
        self.google.workspace.groups[call.body.email.lower()] = call.body
        return call.body

    async def remove_group(self, call: ControlCall) -> None:
        if self.google.workspace.groups.pop(call.query.email.lower(), None) is None:
            raise NotFound(f"there is no group {call.query.email}")


def _check_workspace(domain: str) -> None:
    if domain in CONSUMER_DOMAINS:
        raise InvalidRequest(f"{domain} is not a Workspace: it has no administrator")
