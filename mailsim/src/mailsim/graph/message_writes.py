"""The routes of Graph that change messages: create, update, move, copy, delete, send.

`messages` has those that read; `message_composer` writes the bytes.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from email.utils import format_datetime, getaddresses
from typing import Any, cast

from mailsim import mime, sending
from mailsim.errors import SimulatorError
from mailsim.graph import entity_types, folders, message_composer, message_json, messages
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.message_json import MessageView
from mailsim.graph.request import GraphCall, GraphResponse, get_argument
from mailsim.initial_states import get_arrival_state
from mailsim.mailbox import Mailbox

_CONTENT_PROPERTIES = frozenset(
    {
        "subject",
        "body",
        "toRecipients",
        "ccRecipients",
        "bccRecipients",
        "replyTo",
        "from",
        "sender",
        "internetMessageId",
        "isReadReceiptRequested",
        "isDeliveryReceiptRequested",
    }
)
_STATE_PROPERTIES = frozenset({"isRead", "flag", "categories", "importance", "inferenceClassification"})


def entity_response(call: GraphCall, number: int, status: int) -> GraphResponse:
    """Return the message after a change, with its current ID."""
    assert call.user is not None
    view = call.graph.make_view(call.mailbox, number, call.prefer)
    assert view is not None
    tail = f"users('{call.user.oid}')/messages/$entity"
    properties = message_json.to_json(view, message_json.DEFAULT)
    return GraphResponse(status, {"@odata.context": call.context(tail), **properties})


def compose(call: GraphCall, body: Mapping[str, Any], more_headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return a new message of the mailbox's owner."""
    sender = (call.mailbox.account.name, call.mailbox.address)
    date = format_datetime(call.graph.sim.clock.now())
    return message_composer.compose_message(body, sender, _make_message_id(call), date, more_headers)


def _make_message_id(call: GraphCall) -> str:
    unique = call.graph.sim.registry.new_guid(f"message of {call.mailbox.address}").replace("-", "")
    return f"<{unique}@{call.mailbox.account.domain}>"


async def create(call: GraphCall) -> GraphResponse:
    """Create a draft from JSON or from base64 MIME."""
    if has_mime(call):
        raw = decode_mime(call)
        return entity_response(call, call.mailbox.save_draft(raw), 201)
    body = call.json()
    check_new_message(body)
    number = call.mailbox.save_draft(compose(call, body))
    set_state_properties(call.mailbox, number, body)
    folder = folders.find(call, call.names[0]) if "/mailfolders" in call.path.lower() else None
    if folder is not None:
        call.mailbox.move(number, folder.key)
    return entity_response(call, number, 201)


def has_mime(call: GraphCall) -> bool:
    """Return whether the body is base64 MIME instead of JSON."""
    return call.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/plain"


def decode_mime(call: GraphCall) -> bytes:
    try:
        return base64.b64decode(call.body, validate=True)
    except binascii.Error as error:
        raise bad_request(
            "Invalid base64 string for MIME content.", "ErrorMimeContentInvalidBase64String"
        ) from error


def check_new_message(body: Mapping[str, Any]) -> None:
    """Raise for properties that a new message does not accept."""
    _check_properties(
        body, _CONTENT_PROPERTIES | _STATE_PROPERTIES | {"attachments", "internetMessageHeaders"}
    )


def _check_properties(body: Mapping[str, Any], allowed: frozenset[str]) -> None:
    for name in body:
        if name not in allowed and not name.startswith("@odata."):
            entity_types.MESSAGE.spelling(name)
            raise bad_request(f"Update to property {name} is not supported.", "ErrorInvalidPropertySet")


async def update(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    _check_if_match(call, view)
    body = call.json()
    _check_properties(body, _CONTENT_PROPERTIES | _STATE_PROPERTIES)
    if _CONTENT_PROPERTIES & body.keys() and not view.state.draft:
        raise bad_request("Update to this property is only supported on drafts.", "ErrorInvalidPropertySet")
    if view.state.draft and (_CONTENT_PROPERTIES | {"importance"}) & body.keys():
        call.mailbox.edit_draft(
            view.number, message_composer.edit_message(call.mailbox.raw(view.number), body)
        )
    set_state_properties(call.mailbox, view.number, body)
    return entity_response(call, view.number, 200)


def _check_if_match(call: GraphCall, view: MessageView) -> None:
    etag = call.headers.get("if-match", "*")
    if etag not in {"*", f'W/"{view.change_key}"'}:
        message = "The send or update operation could not be performed because the change key passed in the "
        raise GraphError(
            412, "ErrorIrresolvableConflict", message + "request does not match the current change key."
        )


def set_state_properties(mailbox: Mailbox, number: int, body: Mapping[str, Any]) -> None:
    read, flag, categories = body.get("isRead"), body.get("flag"), body.get("categories")
    if not isinstance(read, bool | None) or not isinstance(categories, list | None):
        raise bad_request("A property does not have the expected type.", "ErrorInvalidRequest")
    status = cast("Mapping[str, Any]", flag).get("flagStatus") if isinstance(flag, Mapping) else None
    importance, classification = body.get("importance"), body.get("inferenceClassification")
    try:
        mailbox.mark(
            number,
            read=read,
            flag=str(status) if status is not None else None,
            importance=str(importance).lower() if importance is not None else None,
            classification=str(classification) if classification is not None else None,
            categories=[str(category) for category in cast("list[Any]", categories)]
            if categories is not None
            else None,
        )
    except SimulatorError as error:
        raise bad_request(str(error), "ErrorInvalidRequest") from error


async def delete(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    _check_if_match(call, view)
    call.mailbox.delete(view.number)
    return GraphResponse(204)


def _get_destination(call: GraphCall) -> str:
    name = get_argument(call.json(), "destinationId")
    if not isinstance(name, str) or not name:
        raise bad_request("The parameter 'destinationId' is required.", "ErrorInvalidRequest")
    return folders.find_destination(call, name).key


async def move(call: GraphCall) -> GraphResponse:
    view, key = messages.find_in_path(call), _get_destination(call)
    call.mailbox.move(view.number, key)
    return entity_response(call, view.number, 201)


async def copy(call: GraphCall) -> GraphResponse:
    view, key = messages.find_in_path(call), _get_destination(call)
    copied = call.mailbox.deliver(call.mailbox.raw(view.number), view.state)
    call.mailbox.move(copied, key)
    return entity_response(call, copied, 201)


async def send(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    if not view.state.draft:
        raise bad_request("Only a draft can be sent.", "ErrorInvalidOperation")
    raw = _prepare(call, call.mailbox.raw(view.number))
    call.mailbox.send_draft(view.number, raw)
    sending.deliver(call.graph.sim.registry, raw)
    return GraphResponse(202)


async def send_mail(call: GraphCall) -> GraphResponse:
    """Send a message from JSON or MIME, and save it to Sent Items unless the request says otherwise."""
    save = True
    if has_mime(call):
        raw = decode_mime(call)
    else:
        body = call.json()
        message = get_argument(body, "message")
        if not isinstance(message, Mapping):
            raise bad_request("The parameter 'Message' is required.", "ErrorInvalidRequest")
        raw = compose(call, cast("Mapping[str, Any]", message))
        save = get_argument(body, "saveToSentItems") is not False
    send_message(call, raw, save=save)
    return GraphResponse(202)


def send_message(call: GraphCall, raw: bytes, *, save: bool = True) -> None:
    """Send a message to its recipients and save it to Sent Items."""
    raw = _prepare(call, raw)
    if save:
        call.mailbox.deliver(raw, get_arrival_state("outlook", sent=True))
    sending.deliver(call.graph.sim.registry, raw)


def _prepare(call: GraphCall, raw: bytes) -> bytes:
    """Check that the message may be sent, and complete its headers."""
    if not sending.list_recipients(raw):
        raise bad_request("At least one recipient is required.", "ErrorInvalidRecipients")
    raw = sending.complete_headers(
        raw, call.mailbox.account, _make_message_id(call), call.graph.sim.clock.now()
    )
    senders = [value for name, value in mime.parse_headers(raw) if name.lower() in {"from", "sender"}]
    if {address.lower() for _, address in getaddresses(senders)} != {call.mailbox.address.lower()}:
        raise GraphError(
            403,
            "ErrorSendAsDenied",
            "The user account which was used to submit this request does not have the right to send mail on "
            "behalf of the specified sending account., Cannot submit message.",
        )
    return raw
