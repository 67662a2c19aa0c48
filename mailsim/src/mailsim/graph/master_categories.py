"""The outlook/masterCategories routes of Graph: the names and colors that a user defined for categories.

Messages may carry other categories too. A new mailbox has Outlook's six default categories.
"""

from typing import Any

from mailsim.graph.errors import GraphError, bad_request, not_found
from mailsim.graph.outlook_profile import DEFAULT_CATEGORIES
from mailsim.graph.request import GraphCall, GraphResponse, get_text
from mailsim.registry import guid

_COLORS = frozenset({"none", *(f"preset{number}" for number in range(25))})
_MAX_NAME = 255


def _get_categories(call: GraphCall) -> dict[str, dict[str, Any]]:
    profile = call.graph.profile(call.mailbox)
    if not profile.has_categories:
        profile.has_categories = True
        for name, color in DEFAULT_CATEGORIES.items():
            _put(profile.categories, guid(call.mailbox.account.key, "category", name), name, color)
    return profile.categories


def _put(categories: dict[str, dict[str, Any]], identifier: str, name: str, color: str) -> dict[str, Any]:
    categories[identifier] = {"id": identifier, "displayName": name, "color": color}
    return categories[identifier]


async def list_page(call: GraphCall) -> GraphResponse:
    return GraphResponse(
        200, {"@odata.context": _context(call), "value": list(_get_categories(call).values())}
    )


async def count(call: GraphCall) -> GraphResponse:
    return GraphResponse(200, str(len(_get_categories(call))).encode(), "text/plain")


async def get(call: GraphCall) -> GraphResponse:
    return _entity_response(call, _find(call), 200)


async def create(call: GraphCall) -> GraphResponse:
    body = call.json()
    name, categories = get_text(body, "displayName"), _get_categories(call)
    if not name.strip() or len(name) > _MAX_NAME:
        raise bad_request("A category needs a displayName.", "ErrorInvalidRequest")
    if any(category["displayName"].lower() == name.lower() for category in categories.values()):
        raise GraphError(409, "CategoryNameDuplicate", "A category with this name already exists.")
    identifier = call.graph.sim.registry.new_guid(f"category of {call.mailbox.address}")
    return _entity_response(call, _put(categories, identifier, name, _parse_color(body, "none")), 201)


async def update(call: GraphCall) -> GraphResponse:
    """Change the color; the name of a category cannot be changed."""
    category, body = _find(call), call.json()
    if get_text(body, "displayName") not in {"", category["displayName"]}:
        raise bad_request("The displayName of a category cannot be changed.", "ErrorInvalidRequest")
    category["color"] = _parse_color(body, category["color"])
    return _entity_response(call, category, 200)


async def delete(call: GraphCall) -> GraphResponse:
    del _get_categories(call)[_find(call)["id"]]
    return GraphResponse(204)


def _find(call: GraphCall) -> dict[str, Any]:
    category = _get_categories(call).get(call.names[0].lower())
    if category is None:
        raise not_found()
    return category


def _parse_color(body: dict[str, Any], default: str) -> str:
    color = get_text(body, "color") or default
    if color not in _COLORS:
        raise bad_request("The color of a category is none or preset0 to preset24.", "ErrorInvalidRequest")
    return color


def _context(call: GraphCall) -> str:
    assert call.user is not None
    return call.context(f"users('{call.user.oid}')/outlook/masterCategories")


def _entity_response(call: GraphCall, category: dict[str, Any], status: int) -> GraphResponse:
    return GraphResponse(status, {"@odata.context": f"{_context(call)}/$entity", **category})
