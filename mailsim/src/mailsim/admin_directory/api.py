"""Users, groups and members of the Directory API: routes, authorization, selection and paging.

Only administrators may read, and only the Workspace of their own domain.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim.admin_directory import resources, user_search
from mailsim.admin_directory.resources import get_domain, with_etag
from mailsim.errors import explain_unsimulated
from mailsim.gmail import errors, field_mask, parameters
from mailsim.gmail.api import JSON, GmailApi, encode_json
from mailsim.gmail.errors import GmailError, GmailErrorBody
from mailsim.gmail.parameters import QueryParameter
from mailsim.google.grants import GoogleAccount
from mailsim.google.workspace import GroupMember, WorkspaceGroup
from mailsim.middleware import get_exchange

_PREFIX = "https://www.googleapis.com/auth/admin.directory."
_USER = frozenset({f"{_PREFIX}user", f"{_PREFIX}user.readonly"})
_GROUP = frozenset({f"{_PREFIX}group", f"{_PREFIX}group.readonly"})
_MEMBER = _GROUP | {f"{_PREFIX}group.member", f"{_PREFIX}group.member.readonly"}
_CLOUD = "https://www.googleapis.com/auth/cloud-platform"
_TEXT = QueryParameter()
_PAGE = {"maxResults": QueryParameter("uint32"), "pageToken": _TEXT}
_ORDER = QueryParameter(choices=("ASCENDING", "DESCENDING"))
_VIEW = {
    "projection": QueryParameter(choices=("basic", "custom", "full")),
    "viewType": QueryParameter(choices=("admin_view", "domain_public")),
    "customFieldMask": _TEXT,
}
_USERS = (
    _PAGE
    | _VIEW
    | {
        "customer": _TEXT,
        "domain": _TEXT,
        "event": QueryParameter(choices=("add", "delete", "makeAdmin", "undelete", "update")),
        "orderBy": QueryParameter(choices=("email", "familyName", "givenName")),
        "query": _TEXT,
        "showDeleted": _TEXT,
        "sortOrder": _ORDER,
    }
)
_GROUPS = _PAGE | {
    "customer": _TEXT,
    "domain": _TEXT,
    "orderBy": QueryParameter(choices=("email",)),
    "query": _TEXT,
    "sortOrder": _ORDER,
    "userKey": _TEXT,
}
_MEMBERS = _PAGE | {"includeDerivedMembership": QueryParameter("bool"), "roles": _TEXT}
_ENDED = frozenset({"suspended", "account_deleted"})
_FORBIDDEN = "Not Authorized to access this resource/api"
Arguments = dict[str, Any]
DirectoryMethod = Callable[["DirectoryApi", GoogleAccount, Arguments], dict[str, Any]]


class DirectoryApi:
    def __init__(self, gmail: GmailApi) -> None:
        self.gmail = gmail
        self.google = gmail.google

    def routes(self) -> list[Route]:
        at = "/admin/directory/v1"
        return [
            self._route(f"{at}/users", "directory.users.list", list_users, "Users", _USER | {_CLOUD}, _USERS),
            self._route(at + "/users/{key}", "directory.users.get", get_user, "User", _USER, _VIEW),
            self._route(f"{at}/groups", "directory.groups.list", list_groups, "Groups", _GROUP, _GROUPS),
            self._route(
                at + "/groups/{key}/members",
                "directory.members.list",
                list_members,
                "Members",
                _MEMBER,
                _MEMBERS,
            ),
            Route(
                "/admin/{rest:path}",
                _reject_unsimulated,
                name="directory.unsimulated",
                methods=list(_METHODS),
            ),
        ]

    def _route(
        self,
        path: str,
        name: str,
        method: DirectoryMethod,
        response_type: str,
        scopes: frozenset[str],
        known: dict[str, QueryParameter],
    ) -> Route:
        async def respond(request: Request) -> Response:
            try:
                if request.method not in {"GET", "HEAD"}:
                    return await _reject_unsimulated(request)
                pairs = parameters.parse_query(request.url.query)
                common = dict(pairs)
                token = self.gmail.find_token(request.headers, common)
                get_exchange(request).mailbox = token.account.email
                self.gmail.find_client(token)
                if self.google.grants.account_problems.get(token.account.sub) in _ENDED:
                    raise errors.bad_token()
                if not scopes & token.scopes:
                    raise errors.missing_scope(name, scopes)
                args = parameters.convert_arguments(pairs, known) | dict(request.path_params)
                mask = field_mask.parse_mask(common["fields"], response_type) if common.get("fields") else {}
                if token.account.email.lower() not in self.google.workspace.admins:
                    raise errors.forbidden(_FORBIDDEN)
                body = method(self, token.account, args)
            except GmailError as error:
                return _make_error_response(error)
            return _make_response(200, field_mask.apply_mask(mask, body) if mask else body)

        return Route(path, respond, name=name, methods=list(_METHODS))

    def check_workspace(self, admin: GoogleAccount, args: Arguments) -> None:
        """Raise unless `customer` or `domain` is the Workspace of the administrator."""
        domain = get_domain(admin.email)
        customer, wanted = args.get("customer", ""), args.get("domain", "")
        if not customer and not wanted:
            raise errors.bad_request("Bad Request", "badRequest")
        if customer and customer not in {"my_customer", self.google.workspace.get_customer_id(domain)}:
            raise errors.bad_request("Bad Request", "badRequest")
        if wanted and wanted.lower() != domain:
            raise errors.not_found("Domain not found.")

    def list_own_accounts(self, admin: GoogleAccount) -> list[GoogleAccount]:
        domain, problems = get_domain(admin.email), self.google.grants.account_problems
        return [
            account
            for account in self.google.list_accounts()
            if get_domain(account.email) == domain and problems.get(account.sub) != "account_deleted"
        ]

    def find_group(self, admin: GoogleAccount, key: str) -> WorkspaceGroup:
        for group in self.google.workspace.groups.values():
            named = key.lower() == group.email.lower() or key == self.google.workspace.get_group_id(
                group.email
            )
            if named and get_domain(group.email) == get_domain(admin.email):
                return group
        raise errors.not_found("Resource Not Found: groupKey")


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def list_users(api: DirectoryApi, admin: GoogleAccount, args: Arguments) -> dict[str, Any]:
    api.check_workspace(admin, args)
    tests = user_search.parse_query(args.get("query", ""))
    deleted = args.get("showDeleted", "").lower() == "true"
    users = [] if deleted else [resources.to_user_json(api.google, a) for a in api.list_own_accounts(admin)]
    found = [user for user in users if all(test(user) for test in tests)]
    order = args.get("orderBy", "email")
    found.sort(key=lambda user: (_get_sort_text(user, order), user["primaryEmail"].lower()))
    if args.get("sortOrder") == "DESCENDING":
        found.reverse()
    return _make_page("users", "admin#directory#users", found, args, default=100, most=500)


def _get_sort_text(user: dict[str, Any], order: str) -> str:
    return str(user["primaryEmail"] if order == "email" else user["name"][order]).lower()


def get_user(api: DirectoryApi, admin: GoogleAccount, args: Arguments) -> dict[str, Any]:
    for account in api.list_own_accounts(admin):
        if args["key"] == account.sub or args["key"].lower() == account.email.lower():
            return resources.to_user_json(api.google, account)
    raise errors.not_found("Resource Not Found: userKey")


def list_groups(api: DirectoryApi, admin: GoogleAccount, args: Arguments) -> dict[str, Any]:
    groups = [
        group
        for group in api.google.workspace.groups.values()
        if get_domain(group.email) == get_domain(admin.email)
    ]
    if "query" in args:
        raise GmailError(GmailErrorBody(501, "notImplemented", explain_unsimulated("query of groups.list")))
    if user := args.get("userKey", "").lower():
        account = next((a for a in api.list_own_accounts(admin) if user in {a.sub, a.email.lower()}), None)
        address = account.email.lower() if account else user
        groups = [group for group in groups if address in {m.email.lower() for m in group.members}]
    else:
        api.check_workspace(admin, args)
    groups.sort(key=lambda group: group.email.lower(), reverse=args.get("sortOrder") == "DESCENDING")
    entries = [resources.to_group_json(api.google, group) for group in groups]
    return _make_page("groups", "admin#directory#groups", entries, args, default=200, most=200)


def list_members(api: DirectoryApi, admin: GoogleAccount, args: Arguments) -> dict[str, Any]:
    group = api.find_group(admin, args["key"])
    roles = set(args["roles"].upper().split(",")) if args.get("roles") else {"OWNER", "MANAGER", "MEMBER"}
    members = group.members
    if args.get("includeDerivedMembership"):
        members = tuple(_flatten_members(api, group))
    entries = [resources.to_member_json(api.google, member) for member in members if member.role in roles]
    return _make_page("members", "admin#directory#members", entries, args, default=200, most=200)


def _flatten_members(api: DirectoryApi, group: WorkspaceGroup) -> list[GroupMember]:
    """List the direct members, then those of the groups among them, each once."""
    found: dict[str, GroupMember] = {}
    waiting = list(group.members)
    while waiting:
        member = waiting.pop(0)
        if member.email.lower() not in found:
            found[member.email.lower()] = member
            inner = api.google.workspace.groups.get(member.email.lower())
            waiting += inner.members if inner else ()
    return list(found.values())


def _make_page(
    key: str, kind: str, entries: Sequence[dict[str, Any]], args: Arguments, *, default: int, most: int
) -> dict[str, Any]:
    size = args.get("maxResults") or default
    if size > most:
        raise GmailError(GmailErrorBody(400, "invalid", "Invalid Input: maxResults"))
    start = _parse_page_token(args["pageToken"]) if args.get("pageToken") else 0
    page = list(entries[start : start + size])
    body: dict[str, Any] = {"kind": kind}
    if page:
        body[key] = page
    if start + size < len(entries):
        body["nextPageToken"] = base64.urlsafe_b64encode(f"page:{start + size}".encode()).decode()
    return with_etag(body)


def _parse_page_token(token: str) -> int:
    try:
        name, _, number = base64.urlsafe_b64decode(token).decode().partition(":")
    except (binascii.Error, ValueError):
        name, number = "", ""
    if name != "page" or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise GmailError(GmailErrorBody(400, "invalid", "Invalid Input: pageToken"))
    return int(number)


async def _reject_unsimulated(request: Request) -> Response:
    return _make_error_response(errors.not_simulated(f"{request.method} {request.url.path[:200]}"))


def _make_error_response(error: GmailError) -> Response:
    response = _make_response(error.body.code, error.body.to_json())
    response.headers.update(dict(error.body.list_challenges()))
    return response


def _make_response(status: int, body: dict[str, Any]) -> Response:
    return Response(encode_json(body, pretty=True), status, dict(JSON))
