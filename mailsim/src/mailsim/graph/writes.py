"""Changes of messages: read, flagged, moved, copied, deleted, drafted, sent."""

import base64
import binascii
from collections.abc import Mapping
from email.utils import format_datetime, getaddresses
from typing import Any, cast

from mailsim import mime
from mailsim.errors import SimulatorError
from mailsim.generated import arrival
from mailsim.graph import compose, folders, kinds, messages, wire
from mailsim.graph.context import Answer, Call, argument
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.wire import View
from mailsim.mailbox import Mailbox

_CONTENT = frozenset(
    {"subject", "body", "toRecipients", "ccRecipients", "bccRecipients", "replyTo", "from", "sender"}
)
_MARKS = frozenset({"isRead", "flag", "categories", "importance", "inferenceClassification"})


def _entity(call: Call, number: int, status: int) -> Answer:
    """The message after a change, under the id it has now."""
    assert call.user is not None
    view = call.graph.view(call.mailbox, number, call.prefer)
    assert view is not None
    tail = f"users('{call.user.oid}')/messages/$entity"
    shown = wire.message(view, wire.DEFAULT)
    return Answer(status, {"@odata.context": call.context(tail), **shown})


def _new_raw(call: Call, wanted: Mapping[str, Any]) -> bytes:
    sender = (call.mailbox.account.name, call.mailbox.address)
    unique = call.graph.sim.world.new_guid(f"message of {call.mailbox.address}").replace("-", "")
    message_id = f"<{unique}@{call.mailbox.account.domain}>"
    return compose.new(wanted, sender, message_id, format_datetime(call.graph.sim.clock.now()))


async def create(call: Call) -> Answer:
    """A draft, from JSON or from MIME in base64."""
    if call.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/plain":
        raw = _mime(call)
        return _entity(call, call.mailbox.draft(raw), 201)
    wanted = call.json()
    _known(wanted, _CONTENT | _MARKS | {"attachments"})
    number = call.mailbox.draft(_new_raw(call, wanted))
    _mark(call.mailbox, number, wanted)
    folder = folders.find(call, call.names[0]) if "/mailfolders" in call.path.lower() else None
    if folder is not None:
        call.mailbox.move(number, folder.key)
    return _entity(call, number, 201)


def _mime(call: Call) -> bytes:
    try:
        return base64.b64decode(call.body, validate=True)
    except binascii.Error as error:
        raise bad_request(
            "Invalid base64 string for MIME content.", "ErrorMimeContentInvalidBase64String"
        ) from error


def _known(wanted: Mapping[str, Any], names: frozenset[str]) -> None:
    for name in wanted:
        if name not in names and not name.startswith("@odata."):
            kinds.MESSAGE.spelling(name)
            raise bad_request(f"Update to property {name} is not supported.", "ErrorInvalidPropertySet")


async def update(call: Call) -> Answer:
    view = messages.found(call)
    _if_match(call, view)
    wanted = call.json()
    _known(wanted, _CONTENT | _MARKS)
    if _CONTENT & wanted.keys():
        if not view.state.draft:
            raise bad_request(
                "Update to this property is only supported on drafts.", "ErrorInvalidPropertySet"
            )
        call.mailbox.edit_draft(view.number, compose.changed(call.mailbox.raw(view.number), wanted))
    _mark(call.mailbox, view.number, wanted)
    return _entity(call, view.number, 200)


def _if_match(call: Call, view: View) -> None:
    wanted = call.headers.get("if-match", "*")
    if wanted not in {"*", f'W/"{view.change_key}"'}:
        message = "The send or update operation could not be performed because the change key passed in the "
        raise GraphError(
            412, "ErrorIrresolvableConflict", message + "request does not match the current change key."
        )


def _mark(mailbox: Mailbox, number: int, wanted: Mapping[str, Any]) -> None:
    read, flag, categories = wanted.get("isRead"), wanted.get("flag"), wanted.get("categories")
    if not isinstance(read, bool | None) or not isinstance(categories, list | None):
        raise bad_request("A property does not have the expected type.", "ErrorInvalidRequest")
    status = cast("Mapping[str, Any]", flag).get("flagStatus") if isinstance(flag, Mapping) else None
    importance = wanted.get("importance")
    try:
        mailbox.mark(
            number,
            read=read,
            flag=str(status) if status is not None else None,
            importance=str(importance).lower() if importance is not None else None,
            categories=[str(one) for one in cast("list[Any]", categories)]
            if categories is not None
            else None,
        )
    except SimulatorError as error:
        raise bad_request(str(error), "ErrorInvalidRequest") from error


async def delete(call: Call) -> Answer:
    view = messages.found(call)
    _if_match(call, view)
    call.mailbox.delete(view.number)
    return Answer(204)


def _destination(call: Call) -> str:
    name = argument(call.json(), "destinationId")
    if not isinstance(name, str) or not name:
        raise bad_request("The parameter 'destinationId' is required.", "ErrorInvalidRequest")
    folder = folders.find(call, name)
    if folder.kind == "search":
        raise bad_request("A search folder holds no messages of its own.", "ErrorInvalidOperation")
    return folder.key


async def move(call: Call) -> Answer:
    view, key = messages.found(call), _destination(call)
    call.mailbox.move(view.number, key)
    return _entity(call, view.number, 201)


async def copy(call: Call) -> Answer:
    view, key = messages.found(call), _destination(call)
    copied = call.mailbox.deliver(call.mailbox.raw(view.number), view.state)
    call.mailbox.move(copied, key)
    return _entity(call, copied, 201)


async def send(call: Call) -> Answer:
    view = messages.found(call)
    if not view.state.draft:
        raise bad_request("Only a draft can be sent.", "ErrorInvalidOperation")
    raw = call.mailbox.raw(view.number)
    call.mailbox.send_draft(view.number)
    _deliver(call, raw)
    return Answer(202)


async def send_mail(call: Call) -> Answer:
    """Straight from JSON or MIME; kept among the sent mail unless told not to."""
    keep = True
    if call.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/plain":
        raw = _mime(call)
    else:
        body = call.json()
        wanted = argument(body, "message")
        if not isinstance(wanted, Mapping):
            raise bad_request("The parameter 'Message' is required.", "ErrorInvalidRequest")
        raw = _new_raw(call, cast("Mapping[str, Any]", wanted))
        keep = argument(body, "saveToSentItems") is not False
    if not _recipients(raw):
        raise bad_request("At least one recipient is required.", "ErrorInvalidRecipients")
    if keep:
        call.mailbox.deliver(raw, arrival("outlook", sent=True))
    _deliver(call, raw)
    return Answer(202)


def _recipients(raw: bytes) -> list[str]:
    headers = [value for name, value in mime.read_headers(raw) if name.lower() in {"to", "cc", "bcc"}]
    return [address for _, address in getaddresses(headers) if address]


def _deliver(call: Call, raw: bytes) -> None:
    """To those who have a mailbox in this world."""
    for address in dict.fromkeys(one.lower() for one in _recipients(raw)):
        mailbox = call.graph.sim.world.find(address)
        if mailbox is not None:
            mailbox.deliver(raw)
