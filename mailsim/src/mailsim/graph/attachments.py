"""Attachments: listed, read, opened, as bytes or as JSON, with the quirks of their three kinds."""

import re
from typing import Any

from mailsim import mime
from mailsim.graph import attached, kinds, messages, odata, wire
from mailsim.graph.attached import Attached
from mailsim.graph.context import Answer, Call
from mailsim.graph.errors import GraphError, bad_request, malformed_id, not_found
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.wire import View

_CAST = re.compile(
    r"microsoft\.graph\.fileattachment/(contentId|contentLocation|contentBytes)", re.IGNORECASE
)
_ITEM = re.compile(r"microsoft\.graph\.itemattachment/item", re.IGNORECASE)
_OF_FILES = {"contentid": "contentId", "contentlocation": "contentLocation", "contentbytes": "contentBytes"}
_ALWAYS = frozenset({"@odata.type", "@odata.mediaContentType", "id"})
DEEPEST = 30


def _selected(text: str | None) -> frozenset[str] | None:
    """What $select asks for. A property of file attachments needs the cast, or the parser knows it not."""
    if text is None:
        return None
    chosen: set[str] = set()
    for name in (part.strip() for part in text.split(",")):
        cast = _CAST.fullmatch(name)
        chosen.add(_OF_FILES[cast[1].lower()] if cast else kinds.ATTACHMENT.spelling(name))
    return frozenset(chosen)


def _id(call: Call, view: View, one: Attached) -> str:
    return call.ids.attachment(view.id, one.place)


def _shape(call: Call, view: View, one: Attached, chosen: frozenset[str] | None) -> dict[str, Any]:
    modified = wire.BUILDERS["lastModifiedDateTime"](view)
    content = chosen is None or "contentBytes" in chosen
    answer = attached.shape(one, _id(call, view, one), modified, content=content)
    return answer if chosen is None else {k: v for k, v in answer.items() if k in chosen or k in _ALWAYS}


def shapes(call: Call, view: View, options: str) -> list[dict[str, Any]]:
    """For $expand=attachments, whose own options stand in its parentheses, separated by semicolons."""
    select: str | None = None
    for option in options.split(";"):
        name, equals, value = option.strip().partition("=")
        if equals and name.lower() in {"$select", "select"}:
            select = value
        elif name and name.lower() not in {"$expand", "$top", "expand", "top"}:
            raise bad_request(f"The query option '{name[:50]}' is not supported inside $expand.")
    chosen = _selected(select)
    return [_shape(call, view, one, chosen) for one in view.attachments]


async def page(call: Call) -> Answer:
    assert call.user is not None
    view = messages.found(call)
    chosen = _selected(call.raw.get("$select"))
    query = odata.parse(
        {name: text for name, text in call.raw.items() if name != "$select"}, kinds.ATTACHMENT
    )
    size = query.top or call.graph.options.attachments_page or len(view.attachments)
    part = view.attachments[query.skip : query.skip + size]
    values = [_shape(call, view, one, chosen) for one in part]
    if _wants_item(call):
        values = [_with_item(call, view, one, value) for one, value in zip(part, values, strict=True)]
    tail = f"users('{call.user.oid}')/messages('{view.id}')/attachments"
    answer: dict[str, Any] = {"@odata.context": call.context(tail)}
    if query.count:
        answer["@odata.count"] = len(view.attachments)
    answer["value"] = values
    if query.skip + size < len(view.attachments):
        answer["@odata.nextLink"] = odata.link(call.url, {**call.raw, "$skip": str(query.skip + size)})
    return Answer(200, answer)


async def count(call: Call) -> Answer:
    return Answer(200, str(len(messages.found(call).attachments)).encode(), "text/plain")


def _find(call: Call) -> tuple[View, Attached]:
    view = messages.found(call)
    try:
        number, place = call.ids.read_attachment(call.names[-1])
    except MalformedIdError as error:
        raise malformed_id() from error
    if number != view.number or place >= len(view.attachments):
        raise not_found()
    return view, view.attachments[place]


def _wants_item(call: Call) -> bool:
    text = call.raw.get("$expand")
    if text is None:
        return False
    if not _ITEM.match(text):
        raise bad_request(f"Parsing OData Select and Expand failed: '{text[:80]}' is not known.")
    return True


async def get(call: Call) -> Answer:
    assert call.user is not None
    view, one = _find(call)
    answer = _shape(call, view, one, _selected(call.raw.get("$select")))
    if _wants_item(call):
        answer = _with_item(call, view, one, answer)
    tail = f"users('{call.user.oid}')/messages('{view.id}')/attachments/$entity"
    return Answer(200, {"@odata.context": call.context(tail), **answer})


async def value(call: Call) -> Answer:
    """The bytes of a file, the MIME of an item; a link has none."""
    _, one = _find(call)
    if one.sort == "reference":
        raise GraphError(405, "ErrorInvalidOperation", "The $value of a reference attachment cannot be read.")
    kind = "text/plain" if one.sort == "item" else one.content_type
    return Answer(200, one.content, kind or "application/octet-stream")


def _with_item(call: Call, view: View, one: Attached, answer: dict[str, Any]) -> dict[str, Any]:
    """$expand of an item attachment: the message inside, with an empty id."""
    if one.message is None:
        return answer
    assert call.user is not None
    tail = f"users('{call.user.oid}')/messages('{view.id}')/attachments('{answer['id']}')/item"
    return {**answer, "item@odata.context": call.context(tail), "item": _item(one.message, view, 1)}


def _item(tree: mime.Part, outer: View, depth: int) -> dict[str, Any]:
    inner = View(outer.mailbox, outer.number, outer.state, outer.ids, outer.prefer, drafts_received=True)
    inner.__dict__["tree"] = tree
    names = [name for name in wire.DEFAULT if name not in {"parentFolderId", "changeKey", "webLink", "flag"}]
    shown = {name: wire.BUILDERS[name](inner) for name in names}
    answer: dict[str, Any] = {"@odata.type": "#microsoft.graph.message", **shown, "id": ""}
    nested = [(one, one.message) for one in inner.attachments if one.message is not None]
    if nested and depth < DEEPEST:
        modified = wire.BUILDERS["lastModifiedDateTime"](outer)
        answer["attachments"] = [
            {
                **attached.shape(one, "", modified, content=False),
                "item": _item(message, outer, depth + 1),
            }
            for one, message in nested
        ]
    return answer
