"""The attachment routes of Graph: list, count, get as JSON or bytes, and expansion into messages.

`mime_attachments` finds the attachments in the MIME tree.
"""

import re
from typing import Any

from mailsim import mime
from mailsim.graph import entity_types, message_json, messages, mime_attachments, odata
from mailsim.graph.errors import GraphError, bad_request, malformed_id, not_found
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.message_json import MessageView
from mailsim.graph.mime_attachments import OutlookAttachment
from mailsim.graph.request import GraphCall, GraphResponse

_CAST = re.compile(
    r"microsoft\.graph\.fileattachment/(contentId|contentLocation|contentBytes)", re.IGNORECASE
)
_ITEM = re.compile(r"microsoft\.graph\.itemattachment/item", re.IGNORECASE)
_FILE_PROPERTIES = {
    "contentid": "contentId",
    "contentlocation": "contentLocation",
    "contentbytes": "contentBytes",
}
_ALWAYS = frozenset({"@odata.type", "@odata.mediaContentType", "id"})
MAX_ITEM_DEPTH = 30
AttachedFile = tuple[MessageView, OutlookAttachment]


def _parse_select(text: str | None) -> frozenset[str] | None:
    """Return the selected properties. Those of file attachments need a cast to be known to the parser."""
    if text is None:
        return None
    chosen: set[str] = set()
    for name in (part.strip() for part in text.split(",")):
        cast = _CAST.fullmatch(name)
        chosen.add(_FILE_PROPERTIES[cast[1].lower()] if cast else entity_types.ATTACHMENT.spelling(name))
    return frozenset(chosen)


def _attachment_id(call: GraphCall, view: MessageView, attachment: OutlookAttachment) -> str:
    return call.ids.attachment_id(view.id, attachment.position)


def _to_json(
    call: GraphCall, view: MessageView, attachment: OutlookAttachment, chosen: frozenset[str] | None
) -> dict[str, Any]:
    modified = message_json.BUILDERS["lastModifiedDateTime"](view)
    content = chosen is None or "contentBytes" in chosen
    response = mime_attachments.to_json(
        attachment, _attachment_id(call, view, attachment), modified, content=content
    )
    return response if chosen is None else {k: v for k, v in response.items() if k in chosen or k in _ALWAYS}


def expand(call: GraphCall, view: MessageView, options: str) -> list[dict[str, Any]]:
    """Return the JSON for $expand=attachments; `options` are those in its parentheses."""
    select: str | None = None
    for option in options.split(";"):
        name, equals, value = option.strip().partition("=")
        if equals and name.lower() in {"$select", "select"}:
            select = value
        elif name and name.lower() not in {"$expand", "$top", "expand", "top"}:
            raise bad_request(f"The query option '{name[:50]}' is not supported inside $expand.")
    chosen = _parse_select(select)
    return [_to_json(call, view, attachment, chosen) for attachment in view.attachments]


async def list_page(call: GraphCall) -> GraphResponse:
    assert call.user is not None
    view = messages.find_in_path(call)
    chosen = _parse_select(call.raw.get("$select"))
    query = odata.parse_query(
        {name: text for name, text in call.raw.items() if name != "$select"}, entity_types.ATTACHMENT
    )
    size = query.top or call.graph.options.attachments_page or len(view.attachments)
    part = view.attachments[query.skip : query.skip + size]
    values = [_to_json(call, view, attachment, chosen) for attachment in part]
    if _expands_item(call):
        values = [
            _add_item(call, view, attachment, value) for attachment, value in zip(part, values, strict=True)
        ]
    tail = f"users('{call.user.oid}')/messages('{view.id}')/attachments"
    response: dict[str, Any] = {"@odata.context": call.context(tail)}
    if query.count:
        response["@odata.count"] = len(view.attachments)
    response["value"] = values
    if query.skip + size < len(view.attachments):
        response["@odata.nextLink"] = odata.build_link(
            call.url, {**call.raw, "$skip": str(query.skip + size)}
        )
    return GraphResponse(200, response)


async def count(call: GraphCall) -> GraphResponse:
    return GraphResponse(200, str(len(messages.find_in_path(call).attachments)).encode(), "text/plain")


def find(call: GraphCall) -> AttachedFile:
    """Return the attachment of the path, with its message."""
    view = messages.find_in_path(call)
    try:
        number, position = call.ids.parse_attachment_id(call.names[-1])
    except MalformedIdError as error:
        raise malformed_id() from error
    found = next((one for one in view.attachments if one.position == position), None)
    if number != view.number or found is None:
        raise not_found()
    return view, found


def _expands_item(call: GraphCall) -> bool:
    text = call.raw.get("$expand")
    if text is None:
        return False
    if not _ITEM.match(text):
        raise bad_request(f"Parsing OData Select and Expand failed: '{text[:80]}' is not known.")
    return True


async def get(call: GraphCall) -> GraphResponse:
    return entity_response(call, find(call), 200)


def entity_response(call: GraphCall, found: AttachedFile, status: int) -> GraphResponse:
    assert call.user is not None
    view, attachment = found
    response = _to_json(call, view, attachment, _parse_select(call.raw.get("$select")))
    if _expands_item(call):
        response = _add_item(call, view, attachment, response)
    tail = f"users('{call.user.oid}')/messages('{view.id}')/attachments/$entity"
    return GraphResponse(status, {"@odata.context": call.context(tail), **response})


async def get_content(call: GraphCall) -> GraphResponse:
    """Return the bytes of a file or the MIME of an item; a reference has neither."""
    _, attachment = find(call)
    if attachment.type == "reference":
        raise GraphError(405, "ErrorInvalidOperation", "The $value of a reference attachment cannot be read.")
    kind = "text/plain" if attachment.type == "item" else attachment.content_type
    return GraphResponse(200, attachment.content, kind or "application/octet-stream")


def _add_item(
    call: GraphCall, view: MessageView, attachment: OutlookAttachment, response: dict[str, Any]
) -> dict[str, Any]:
    """Add the attached message for $expand of an item attachment; its ID is empty."""
    if attachment.message is None:
        return response
    assert call.user is not None
    tail = f"users('{call.user.oid}')/messages('{view.id}')/attachments('{response['id']}')/item"
    return {
        **response,
        "item@odata.context": call.context(tail),
        "item": _item_json(attachment.message, view, 1),
    }


def _item_json(tree: mime.MimePart, outer: MessageView, depth: int) -> dict[str, Any]:
    inner = MessageView(outer.mailbox, outer.number, outer.state, outer.ids, outer.prefer)
    inner.__dict__["tree"] = tree
    names = [
        name
        for name in message_json.DEFAULT
        if name not in {"parentFolderId", "changeKey", "webLink", "flag"}
    ]
    properties = {name: message_json.BUILDERS[name](inner) for name in names}
    response: dict[str, Any] = {"@odata.type": "#microsoft.graph.message", **properties, "id": ""}
    nested = [
        (attachment, attachment.message) for attachment in inner.attachments if attachment.message is not None
    ]
    if nested and depth < MAX_ITEM_DEPTH:
        modified = message_json.BUILDERS["lastModifiedDateTime"](outer)
        response["attachments"] = [
            {
                **mime_attachments.to_json(attachment, "", modified, content=False),
                "item": _item_json(message, outer, depth + 1),
            }
            for attachment, message in nested
        ]
    return response
