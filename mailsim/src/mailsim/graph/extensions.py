"""The open extensions of messages in Graph: list, count, get, create, change, delete and $expand.

Follows "Use open extensions with messages" and the resource type openTypeExtension.
"""

from collections.abc import Mapping
from typing import Any

from mailsim.graph import messages
from mailsim.graph.errors import GraphError, not_found
from mailsim.graph.extended_properties import (
    extension_exists,
    get_extension_data,
    parse_extension,
    to_extension_json,
    to_extension_key,
)
from mailsim.graph.message_json import MessageView
from mailsim.graph.request import GraphCall, GraphResponse


def _get_all(view: MessageView) -> dict[str, dict[str, Any]]:
    """Return the extensions of a message by name in lower case."""
    return view.details.extensions


def _find(view: MessageView, name: str) -> dict[str, Any]:
    found = _get_all(view).get(to_extension_key(name))
    if found is None:
        raise GraphError(404, "ErrorItemNotFound", "The specified extension was not found.")
    return found


def _context(call: GraphCall, view: MessageView) -> str:
    assert call.user is not None
    return call.context(f"users('{call.user.oid}')/messages('{view.id}')/extensions")


def _get_name(call: GraphCall) -> str:
    return call.names[-1]


async def list_page(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    value = [to_extension_json(extension) for extension in _get_all(view).values()]
    return GraphResponse(200, {"@odata.context": _context(call, view), "value": value})


async def count(call: GraphCall) -> GraphResponse:
    number = len(_get_all(messages.find_in_path(call)))
    return GraphResponse(200, str(number).encode(), "text/plain")


async def get(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    return _entity_response(call, view, _find(view, _get_name(call)), 200)


async def create(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    extension = parse_extension(call.json())
    key = extension["extensionName"].lower()
    details = call.graph.edit_details(call.mailbox, view.number)
    if key in details.extensions:
        raise extension_exists(extension["extensionName"])
    details.extensions[key] = extension
    return _entity_response(call, view, extension, 201)


async def update(call: GraphCall) -> GraphResponse:
    """Change an extension; null removes a property."""
    view = messages.find_in_path(call)
    extension = _find(view, _get_name(call))
    for name, value in get_extension_data(call.json()).items():
        if value is None:
            extension.pop(name, None)
        else:
            extension[name] = value
    return _entity_response(call, view, extension, 200)


async def delete(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    if _get_all(view).pop(to_extension_key(_get_name(call)), None) is None:
        raise not_found()
    return GraphResponse(204)


def _entity_response(
    call: GraphCall, view: MessageView, extension: Mapping[str, Any], status: int
) -> GraphResponse:
    context = f"{_context(call, view)}/$entity"
    return GraphResponse(status, {"@odata.context": context, **to_extension_json(extension)})
