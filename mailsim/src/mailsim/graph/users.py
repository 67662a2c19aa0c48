"""The user itself, and ids in other formats."""

from typing import Any, cast

from mailsim.graph import kinds
from mailsim.graph.context import Answer, Call, argument
from mailsim.graph.errors import bad_request
from mailsim.graph.ids import FORMATS

MOST_IDS = 1000


async def get(call: Call) -> Answer:
    user = call.user
    assert user is not None
    query = call.query(kinds.USER)
    given, _, family = user.name.rpartition(" ")
    known: dict[str, Any] = {
        "businessPhones": [],
        "displayName": user.name,
        "givenName": given or family,
        "jobTitle": None,
        "mail": user.upn,
        "mobilePhone": None,
        "officeLocation": None,
        "preferredLanguage": None,
        "surname": family if given else None,
        "userPrincipalName": user.upn,
        "id": user.oid,
    }
    if query.select is not None:
        known |= {"accountEnabled": user.oid not in call.graph.entra.directory.disabled, "userType": "Member"}
        known = {name: known[name] for name in query.select}
    tail = f"users({','.join(query.select)})/$entity" if query.select else "users/$entity"
    return Answer(200, {"@odata.context": call.context(tail), **known})


async def translate(call: Call) -> Answer:
    """Ids of one mailbox in another format; those that cannot be read come back with an error each."""
    wanted = call.json()
    given = argument(wanted, "inputIds")
    source, target = argument(wanted, "sourceIdType"), argument(wanted, "targetIdType")
    if not isinstance(given, list) or not all(isinstance(one, str) for one in cast("list[Any]", given)):
        raise bad_request("The value of the parameter 'inputIds' must be a collection of strings.")
    texts = cast("list[str]", given)
    if not 1 <= len(texts) <= MOST_IDS:
        raise bad_request(f"The number of ids must be between 1 and {MOST_IDS}.", "ErrorInvalidParameter")
    formats = {name.lower(): name for name in FORMATS}
    if str(source).lower() not in formats or str(target).lower() not in formats:
        raise bad_request("The id format is not supported.", "ErrorInvalidParameter")
    results = [
        _translated(call, text, formats[str(source).lower()], formats[str(target).lower()]) for text in texts
    ]
    return Answer(
        200, {"@odata.context": call.context("Collection(microsoft.graph.convertIdResult)"), "value": results}
    )


def _translated(call: Call, text: str, source: str, target: str) -> dict[str, Any]:
    new = call.ids.translate(text, source, target)
    if new is not None:
        return {"sourceId": text, "targetId": new}
    details = {"code": "ErrorInvalidId", "message": "The id could not be translated."}
    return {"sourceId": text, "targetId": None, "errorDetails": details}
