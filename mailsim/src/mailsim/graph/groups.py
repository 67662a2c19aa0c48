"""The group routes of Graph: get and list groups, and list their members, direct or transitive.

Read only. A path that ends with microsoft.graph.user returns the users among the members.
"""

from typing import Any

from mailsim.entra.directory import EntraGroup, EntraUser
from mailsim.graph import authorization, entity_types, users
from mailsim.graph.errors import GraphError, not_simulated
from mailsim.graph.request import GraphCall, GraphResponse

GroupMember = EntraUser | EntraGroup


async def list_page(call: GraphCall) -> GraphResponse:
    authorization.check_group_permission(call.access)
    query = call.query(entity_types.GROUP)
    groups = call.graph.entra.directory.list_groups(call.access.tid)
    found = users.select_objects(call, query, groups, lambda group: _get_properties(call, group))
    return users.make_page(
        call, query, "groups", found, lambda group: _to_group_json(call, group, query.select)
    )


async def get(call: GraphCall) -> GraphResponse:
    group = _find_group(call)
    query = call.query(entity_types.GROUP)
    tail = f"groups({','.join(query.select)})/$entity" if query.select else "groups/$entity"
    response = {"@odata.context": call.context(tail), **_to_group_json(call, group, query.select)}
    return GraphResponse(200, response)


async def list_members(call: GraphCall) -> GraphResponse:
    group = _find_group(call)
    return _make_member_page(call, _list_direct(call, group))


async def list_all_members(call: GraphCall) -> GraphResponse:
    return _make_member_page(call, _list_transitive(call, _find_group(call)))


def _find_group(call: GraphCall) -> EntraGroup:
    authorization.check_group_permission(call.access)
    group = call.graph.entra.directory.find_group(call.access.tid, call.names[0].lower())
    if group is None:
        text = (
            f"Resource '{call.names[0][:100]}' does not exist or one of its queried reference-property"
            " objects are not present."
        )
        raise GraphError(404, "Request_ResourceNotFound", text)
    return group


def _list_direct(call: GraphCall, group: EntraGroup) -> list[GroupMember]:
    directory = call.graph.entra.directory
    found: list[GroupMember] = []
    for address in group.members:
        inner = directory.groups.get(address.lower())
        user = None if inner else directory.find_user(address)
        if inner is not None:
            found.append(inner)
        elif user is not None and user.tid == call.access.tid:
            found.append(user)
    return found


def _list_transitive(call: GraphCall, group: EntraGroup) -> list[GroupMember]:
    """List the members, then those of the groups among them, each once."""
    found: dict[str, GroupMember] = {}
    waiting = _list_direct(call, group)
    while waiting:
        member = waiting.pop(0)
        key = member.mail if isinstance(member, EntraGroup) else member.upn
        if key.lower() not in found:
            found[key.lower()] = member
            waiting += _list_direct(call, member) if isinstance(member, EntraGroup) else []
    return list(found.values())


def _make_member_page(call: GraphCall, members: list[GroupMember]) -> GraphResponse:
    only_users = call.path.lower().endswith("/microsoft.graph.user")
    if call.raw.keys() & {"$filter", "$orderby", "$search"}:
        raise not_simulated(call.method, f"{call.full_path}?$filter")
    query = call.query(entity_types.USER)
    if only_users:
        return users.make_page(
            call,
            query,
            "users",
            [member for member in members if isinstance(member, EntraUser)],
            lambda user: users.to_json(call, user, query.select),
        )
    return users.make_page(
        call, query, "directoryObjects", members, lambda member: _to_member_json(call, member, query.select)
    )


def _to_member_json(call: GraphCall, member: GroupMember, select: tuple[str, ...] | None) -> dict[str, Any]:
    """Return a member with its type. Properties that its type does not have are left out."""
    if isinstance(member, EntraUser):
        return {"@odata.type": "#microsoft.graph.user", **users.to_json(call, member, select)}
    known = _get_properties(call, member)
    wanted = None if select is None else tuple(name for name in select if name in known)
    return {"@odata.type": "#microsoft.graph.group", **_to_group_json(call, member, wanted)}


def _to_group_json(call: GraphCall, group: EntraGroup, select: tuple[str, ...] | None) -> dict[str, Any]:
    properties = _get_properties(call, group)
    return {name: properties[name] for name in (properties if select is None else select)}


def _get_properties(call: GraphCall, group: EntraGroup) -> dict[str, Any]:
    nickname = group.mail.partition("@")[0]
    return {
        "id": call.graph.entra.directory.get_group_id(group),
        "description": group.description or None,
        "displayName": group.name or nickname,
        "groupTypes": ["Unified"],
        "mail": group.mail,
        "mailEnabled": True,
        "mailNickname": nickname,
        "securityEnabled": False,
    }
