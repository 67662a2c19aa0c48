"""The messageRules routes of Graph, for the rules of the Inbox: list, get, create, change, delete.

`rule_matching` applies the rules to arriving mail.
"""

from collections.abc import Mapping
from typing import Any, cast

from mailsim.graph import folders, message_composer, rule_matching
from mailsim.graph.errors import GraphError, bad_request, not_found, not_simulated, unknown_property
from mailsim.graph.request import GraphCall, GraphResponse, get_text

_IMPORTANCE = ("low", "normal", "high")
_CONDITIONS: dict[str, Any] = {
    **dict.fromkeys(
        (
            "subjectContains",
            "bodyContains",
            "bodyOrSubjectContains",
            "senderContains",
            "recipientContains",
            "headerContains",
        ),
        "texts",
    ),
    "fromAddresses": "recipients",
    "sentToAddresses": "recipients",
    **dict.fromkeys(
        ("hasAttachments", "sentToMe", "sentCcMe", "sentOnlyToMe", "sentToOrCcMe", "notSentToMe"), "flag"
    ),
    "importance": _IMPORTANCE,
}
_ACTIONS: dict[str, Any] = {
    "moveToFolder": "folder",
    "copyToFolder": "folder",
    "delete": "flag",
    "markAsRead": "flag",
    "markImportance": _IMPORTANCE,
    "assignCategories": "texts",
    "stopProcessingRules": "flag",
}
_OTHER_CONDITIONS = frozenset(
    {
        "categories", "isApprovalRequest", "isAutomaticForward", "isAutomaticReply", "isEncrypted",
        "isMeetingRequest", "isMeetingResponse", "isNonDeliveryReport", "isPermissionControlled",
        "isReadReceipt", "isSigned", "isVoicemail", "messageActionFlag", "sensitivity", "withinSizeRange",
    }
)  # fmt: skip
_OTHER_ACTIONS = frozenset({"forwardAsAttachmentTo", "forwardTo", "permanentDelete", "redirectTo"})


def _get_rules(call: GraphCall) -> dict[str, dict[str, Any]]:
    if folders.find(call, call.names[0]).key != "inbox":
        # An inference: Microsoft documents rules of the Inbox only, and no error for other folders.
        # "messageRule resource type", https://learn.microsoft.com/graph/api/resources/messagerule
        raise bad_request("Only the Inbox has message rules.", "ErrorInvalidOperation")
    return call.graph.profile(call.mailbox).rules


def _find(call: GraphCall) -> dict[str, Any]:
    rule = _get_rules(call).get(call.names[1])
    if rule is None:
        raise not_found()
    return rule


async def list_page(call: GraphCall) -> GraphResponse:
    rules = sorted(_get_rules(call).values(), key=lambda rule: rule["sequence"])
    return GraphResponse(200, {"@odata.context": _context(call), "value": rules})


async def count(call: GraphCall) -> GraphResponse:
    return GraphResponse(200, str(len(_get_rules(call))).encode(), "text/plain")


async def get(call: GraphCall) -> GraphResponse:
    return _entity_response(call, _find(call), 200)


async def create(call: GraphCall) -> GraphResponse:
    rules, body = _get_rules(call), call.json()
    identifier = call.graph.sim.registry.new_guid(f"rule of {call.mailbox.address}").replace("-", "")
    rule = {"id": identifier, "sequence": 1, "isEnabled": True, "hasError": False, "isReadOnly": False}
    rules[identifier] = _check_rule({**rule, **_parse_rule(call, body)})
    rule_matching.apply_to_arrivals(call.graph, call.mailbox)
    return _entity_response(call, rules[identifier], 201)


async def update(call: GraphCall) -> GraphResponse:
    rule = _find(call)
    changed = _check_rule({**rule, **_parse_rule(call, call.json())})
    rule.update(changed)
    return _entity_response(call, rule, 200)


async def delete(call: GraphCall) -> GraphResponse:
    del _get_rules(call)[_find(call)["id"]]
    return GraphResponse(204)


def _check_rule(rule: dict[str, Any]) -> dict[str, Any]:
    if not rule.get("displayName") or not rule.get("actions"):
        raise bad_request("A rule needs a displayName and actions.", "ErrorInvalidRequest")
    return rule


def _parse_rule(call: GraphCall, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given properties of a rule."""
    rule: dict[str, Any] = {}
    for name, value in body.items():
        if name == "displayName":
            rule[name] = get_text(body, name)
        elif name in {"sequence", "isEnabled"} and _is_valid(name, value):
            rule[name] = value
        elif name in {"conditions", "exceptions"}:
            rule[name] = _parse_part(call, value, _CONDITIONS, _OTHER_CONDITIONS, "messageRulePredicates")
        elif name == "actions":
            rule[name] = _parse_part(call, value, _ACTIONS, _OTHER_ACTIONS, "messageRuleActions")
        elif not name.startswith("@odata."):
            raise bad_request(f"The property '{name[:50]}' is not valid.", "ErrorInvalidRequest")
    return rule


def _is_valid(name: str, value: Any) -> bool:
    if name == "isEnabled":
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31


def _parse_part(
    call: GraphCall, value: Any, known: Mapping[str, Any], unsimulated: frozenset[str], type_name: str
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise bad_request("Conditions and actions of a rule are objects.", "ErrorInvalidRequest")
    part: dict[str, Any] = {}
    for name, item in cast("Mapping[str, Any]", value).items():
        if name in unsimulated and item not in (None, False, []):
            raise not_simulated(call.method, f"{call.full_path} with {name}")
        if name not in known and name not in unsimulated and not name.startswith("@odata."):
            raise unknown_property(name[:100], type_name)
        if name in known and item is not None:
            _check_value(call, name, item, known[name])
            part[name] = item
    return part


def _check_value(call: GraphCall, name: str, value: Any, expected: Any) -> None:
    texts = cast("list[Any]", value) if isinstance(value, list) else []
    if expected == "folder":
        folders.find_destination(call, value if isinstance(value, str) else "")
    elif expected == "recipients" and isinstance(value, list):
        for person in texts:
            message_composer.parse_address(person, name)
    elif not (
        (expected == "flag" and isinstance(value, bool))
        or (expected == "texts" and isinstance(value, list) and all(isinstance(text, str) for text in texts))
        or (isinstance(expected, tuple) and value in expected)
    ):
        raise GraphError(400, "ErrorInvalidRequest", f"The property '{name}' does not have a valid value.")


def _context(call: GraphCall) -> str:
    assert call.user is not None
    return call.context(f"users('{call.user.oid}')/mailFolders('inbox')/messageRules")


def _entity_response(call: GraphCall, rule: dict[str, Any], status: int) -> GraphResponse:
    return GraphResponse(status, {"@odata.context": f"{_context(call)}/$entity", **rule})
