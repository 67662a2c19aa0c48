"""The overrides of the Focused Inbox in Graph: which senders' mail is focused, and which is other.

Follows the resource type inferenceClassificationOverride. `rule_matching` applies them to arriving mail.
"""

from typing import Any

from mailsim.graph import message_composer, rule_matching
from mailsim.graph.errors import bad_request, not_found
from mailsim.graph.request import GraphCall, GraphResponse

_CHOICES = ("focused", "other")


def _get_overrides(call: GraphCall) -> dict[str, dict[str, Any]]:
    return call.graph.profile(call.mailbox).overrides


def _context(call: GraphCall, tail: str = "") -> str:
    assert call.user is not None
    return call.context(f"users('{call.user.oid}')/inferenceClassification{tail}")


def _find(call: GraphCall) -> dict[str, Any]:
    override = _get_overrides(call).get(call.names[0])
    if override is None:
        raise not_found()
    return override


async def get_container(call: GraphCall) -> GraphResponse:
    body = {"@odata.context": _context(call), "id": "inferenceClassification"}
    return GraphResponse(200, body | {"overrides": list(_get_overrides(call).values())})


async def update_container(call: GraphCall) -> GraphResponse:
    """Accept a change of the container, which has no property of its own."""
    call.json()
    return await get_container(call)


async def list_page(call: GraphCall) -> GraphResponse:
    value = list(_get_overrides(call).values())
    return GraphResponse(200, {"@odata.context": _context(call, "/overrides"), "value": value})


async def count(call: GraphCall) -> GraphResponse:
    return GraphResponse(200, str(len(_get_overrides(call))).encode(), "text/plain")


async def get(call: GraphCall) -> GraphResponse:
    return _entity_response(call, _find(call), 200)


async def create(call: GraphCall) -> GraphResponse:
    """Add an override. One for the same sender is changed instead, as Graph does."""
    body = call.json()
    sender = message_composer.parse_address(
        {"emailAddress": body.get("senderEmailAddress")}, "senderEmailAddress"
    )
    person = {"name": sender.display_name, "address": sender.addr_spec}
    overrides = _get_overrides(call)
    for override in overrides.values():
        if override["senderEmailAddress"]["address"].lower() == sender.addr_spec.lower():
            override |= {"classifyAs": _get_choice(body), "senderEmailAddress": person}
            return _entity_response(call, override, 201)
    identifier = call.graph.sim.registry.new_guid(f"override of {call.mailbox.address}")
    overrides[identifier] = {
        "id": identifier,
        "classifyAs": _get_choice(body),
        "senderEmailAddress": person,
    }
    rule_matching.apply_to_arrivals(call.graph, call.mailbox)
    return _entity_response(call, overrides[identifier], 201)


async def update(call: GraphCall) -> GraphResponse:
    """Change the classification; the sender of an override cannot change."""
    override = _find(call)
    override["classifyAs"] = _get_choice(call.json())
    return _entity_response(call, override, 200)


async def delete(call: GraphCall) -> GraphResponse:
    del _get_overrides(call)[_find(call)["id"]]
    return GraphResponse(204)


def _get_choice(body: dict[str, Any]) -> str:
    choice = str(body.get("classifyAs", "")).lower()
    if choice not in _CHOICES:
        raise bad_request("The property 'classifyAs' must be focused or other.", "ErrorInvalidRequest")
    return choice


def _entity_response(call: GraphCall, override: dict[str, Any], status: int) -> GraphResponse:
    return GraphResponse(status, {"@odata.context": _context(call, "/overrides/$entity"), **override})
