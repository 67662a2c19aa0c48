"""The user routes of Graph: get the user, and translate IDs between formats (translateExchangeIds)."""

from typing import Any, cast

from mailsim.graph import entity_types
from mailsim.graph.errors import bad_request
from mailsim.graph.ids import FORMATS
from mailsim.graph.request import GraphCall, GraphResponse, get_argument

MAX_IDS = 1000


async def get(call: GraphCall) -> GraphResponse:
    user = call.user
    assert user is not None
    query = call.query(entity_types.USER)
    given_name, _, surname = user.name.rpartition(" ")
    properties: dict[str, Any] = {
        "businessPhones": [],
        "displayName": user.name,
        "givenName": given_name or surname,
        "jobTitle": None,
        "mail": user.upn,
        "mobilePhone": None,
        "officeLocation": None,
        "preferredLanguage": None,
        "surname": surname if given_name else None,
        "userPrincipalName": user.upn,
        "id": user.oid,
    }
    if query.select is not None:
        properties |= {
            "accountEnabled": user.oid not in call.graph.entra.directory.disabled,
            "userType": "Member",
        }
        properties = {name: properties[name] for name in query.select}
    tail = f"users({','.join(query.select)})/$entity" if query.select else "users/$entity"
    return GraphResponse(200, {"@odata.context": call.context(tail), **properties})


async def translate_ids(call: GraphCall) -> GraphResponse:
    """Convert IDs of one mailbox to another format; each invalid ID is returned with an error."""
    body = call.json()
    input_ids = get_argument(body, "inputIds")
    source, target = get_argument(body, "sourceIdType"), get_argument(body, "targetIdType")
    if not isinstance(input_ids, list) or not all(
        isinstance(text, str) for text in cast("list[Any]", input_ids)
    ):
        raise bad_request("The value of the parameter 'inputIds' must be a collection of strings.")
    texts = cast("list[str]", input_ids)
    if not 1 <= len(texts) <= MAX_IDS:
        raise bad_request(f"The number of ids must be between 1 and {MAX_IDS}.", "ErrorInvalidParameter")
    formats = {name.lower(): name for name in FORMATS}
    if str(source).lower() not in formats or str(target).lower() not in formats:
        raise bad_request("The id format is not supported.", "ErrorInvalidParameter")
    results = [
        _translate_id(call, text, formats[str(source).lower()], formats[str(target).lower()])
        for text in texts
    ]
    return GraphResponse(
        200, {"@odata.context": call.context("Collection(microsoft.graph.convertIdResult)"), "value": results}
    )


def _translate_id(call: GraphCall, text: str, source: str, target: str) -> dict[str, Any]:
    new = call.ids.translate(text, source, target)
    if new is not None:
        return {"sourceId": text, "targetId": new}
    details = {"code": "ErrorInvalidId", "message": "The id could not be translated."}
    return {"sourceId": text, "targetId": None, "errorDetails": details}
