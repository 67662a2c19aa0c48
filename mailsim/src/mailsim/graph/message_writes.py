"""The routes of Graph that change messages: create, update, move, copy, delete, send.

`messages` has those that read; `message_composer` writes the bytes.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import format_datetime
from typing import Any, cast

from mailsim import mime, sending
from mailsim.address_lists import read_addresses
from mailsim.graph import entity_types, extended_properties, folders, message_composer, message_json, messages
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.message_json import MessageView
from mailsim.graph.request import GraphCall, GraphResponse, get_argument
from mailsim.graph.time_zones import is_time_zone, unknown_time_zone
from mailsim.initial_states import get_arrival_state
from mailsim.message_state import RECOVERABLE_ITEMS

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
    }
)
_RECEIPTS = frozenset({"isReadReceiptRequested", "isDeliveryReceiptRequested"})
_STATE_PROPERTIES = frozenset(
    {
        "isRead",
        "flag",
        "categories",
        "importance",
        "inferenceClassification",
        "singleValueExtendedProperties",
        "multiValueExtendedProperties",
    }
)
_CHOICES = {
    "flag": ("notFlagged", "flagged", "complete"),
    "importance": ("low", "normal", "high"),
    "classification": ("focused", "other"),
}
_FLAG_DATES = ("startDateTime", "dueDateTime", "completedDateTime")


@dataclass(frozen=True, slots=True)
class StateProperties:
    """The properties of a message's JSON that are not in its bytes."""

    marks: Mapping[str, Any]  # arguments of `Mailbox.mark`
    flag_dates: Mapping[str, dict[str, str]] | None  # None: unchanged
    properties: Mapping[str, dict[str, Any]]
    arrays: Mapping[str, dict[str, Any]]
    extensions: Mapping[str, dict[str, Any]]


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
    properties = parse_state_properties(call, body)
    folder = folders.find(call, call.names[0]) if "/mailfolders" in call.path.lower() else None
    number = call.mailbox.save_draft(compose(call, body))
    set_state_properties(call, number, properties)
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
        body,
        _CONTENT_PROPERTIES
        | _RECEIPTS
        | _STATE_PROPERTIES
        | {"attachments", "internetMessageHeaders", "extensions"},
    )


def _check_properties(body: Mapping[str, Any], allowed: frozenset[str]) -> None:
    for name in body:
        if name not in allowed and not name.startswith("@odata."):
            entity_types.MESSAGE.check_written(name)
            raise bad_request(f"Update to property {name} is not supported.", "ErrorInvalidPropertySet")


async def update(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    _check_if_match(call, view)
    body = call.json()
    _check_properties(body, _CONTENT_PROPERTIES | _RECEIPTS | _STATE_PROPERTIES)
    properties = parse_state_properties(call, body)
    if _CONTENT_PROPERTIES & body.keys() and not view.state.draft:
        raise bad_request("Update to this property is only supported on drafts.", "ErrorInvalidPropertySet")
    edited = _CONTENT_PROPERTIES | _RECEIPTS | {"importance"} if view.state.draft else _RECEIPTS
    if edited & body.keys():
        raw = message_composer.edit_message(call.mailbox.raw(view.number), body)
        call.mailbox.edit_content(view.number, raw)
    set_state_properties(call, view.number, properties)
    return entity_response(call, view.number, 200)


def _check_if_match(call: GraphCall, view: MessageView) -> None:
    etag = call.headers.get("if-match", "*")
    if etag not in {"*", f'W/"{view.change_key}"'}:
        message = "The send or update operation could not be performed because the change key passed in the "
        raise GraphError(
            412, "ErrorIrresolvableConflict", message + "request does not match the current change key."
        )


def parse_state_properties(call: GraphCall, body: Mapping[str, Any]) -> StateProperties:
    """Check the properties before anything is stored, so that a rejected request leaves nothing behind."""
    read, categories = body.get("isRead"), body.get("categories")
    if not isinstance(read, bool | None) or not isinstance(categories, list | None):
        raise bad_request("A property does not have the expected type.", "ErrorInvalidRequest")
    given = body.get("flag")
    flag: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    marks: dict[str, Any] = {
        "read": read,
        "flag": flag.get("flagStatus"),
        "importance": body.get("importance"),
        "classification": body.get("inferenceClassification"),
        "categories": None if categories is None else [str(one) for one in cast("list[Any]", categories)],
    }
    if marks["importance"] is not None:
        marks["importance"] = str(marks["importance"]).lower()
    for name, choices in _CHOICES.items():
        if marks[name] is not None and marks[name] not in choices:
            raise bad_request(f"{marks[name]!r} is not one of {', '.join(choices)}", "ErrorInvalidRequest")
    dates = _parse_flag_dates(call, flag) if flag else None
    return StateProperties(
        marks,
        dates,
        extended_properties.parse_properties(body),
        extended_properties.parse_arrays(body),
        extended_properties.parse_extensions(body),
    )


def _parse_flag_dates(call: GraphCall, flag: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the dates of a flag: a due date needs a start date, a completed flag has its day."""
    dates: dict[str, dict[str, str]] = {}
    for name in _FLAG_DATES:
        given = flag.get(name)
        if given is None:
            continue
        value: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
        moment, zone = value.get("dateTime"), value.get("timeZone")
        if not isinstance(moment, str) or not isinstance(zone, str):
            raise bad_request(f"The property '{name}' is not a date with a time zone.", "ErrorInvalidRequest")
        if not is_time_zone(zone):
            raise unknown_time_zone(zone)
        dates[name] = {"dateTime": moment, "timeZone": zone}
    if "dueDateTime" in dates and "startDateTime" not in dates:
        raise bad_request("A flag with a dueDateTime needs a startDateTime.", "ErrorInvalidRequest")
    if flag.get("flagStatus") == "notFlagged":
        return {}
    if flag.get("flagStatus") == "complete" and "completedDateTime" not in dates:
        day = f"{call.graph.sim.clock.now():%Y-%m-%d}T00:00:00.0000000"
        dates["completedDateTime"] = {"dateTime": day, "timeZone": "UTC"}
    return dates


def set_state_properties(call: GraphCall, number: int, properties: StateProperties) -> None:
    if properties.properties or properties.arrays or properties.extensions:
        details = call.graph.edit_details(call.mailbox, number)
        details.properties.update(properties.properties)
        details.arrays.update(properties.arrays)
        details.extensions.update(properties.extensions)
    if properties.flag_dates is not None:
        details = call.graph.edit_details(call.mailbox, number)
        details.flag_dates.clear()
        details.flag_dates.update(properties.flag_dates)
    call.mailbox.mark(number, **properties.marks)


async def delete(call: GraphCall) -> GraphResponse:
    """Move a message to the recoverable items, from where it can be restored; there, delete it for good."""
    view = messages.find_in_path(call)
    _check_if_match(call, view)
    if view.state.folder == RECOVERABLE_ITEMS:
        call.mailbox.delete(view.number)
    else:
        call.mailbox.move(view.number, RECOVERABLE_ITEMS)
    return GraphResponse(204)


async def permanent_delete(call: GraphCall) -> GraphResponse:
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
    save, properties = True, None
    if has_mime(call):
        raw = decode_mime(call)
    else:
        body = call.json()
        message = get_argument(body, "message")
        if not isinstance(message, Mapping):
            raise bad_request("The parameter 'Message' is required.", "ErrorInvalidRequest")
        fields = cast("Mapping[str, Any]", message)
        for name in fields:
            if not name.startswith("@odata."):
                entity_types.MESSAGE.check_written(name)
        properties = parse_state_properties(call, {**fields, "isRead": None})
        raw = compose(call, fields)
        save = get_argument(body, "saveToSentItems") is not False
    send_message(call, raw, properties, save=save)
    return GraphResponse(202)


def send_message(
    call: GraphCall, raw: bytes, properties: StateProperties | None, *, save: bool = True
) -> None:
    """Send a message to its recipients and save it to Sent Items, with the sender's own properties."""
    raw = _prepare(call, raw)
    if save:
        number = call.mailbox.deliver(raw, get_arrival_state("outlook", sent=True))
        if properties is not None:
            set_state_properties(call, number, properties)
    sending.deliver(call.graph.sim.registry, raw)


def _prepare(call: GraphCall, raw: bytes) -> bytes:
    """Check that the message may be sent, and complete its headers."""
    if not sending.list_recipients(raw):
        raise bad_request("At least one recipient is required.", "ErrorInvalidRecipients")
    raw = sending.complete_headers(
        raw, call.mailbox.account, _make_message_id(call), call.graph.sim.clock.now()
    )
    senders = [value for name, value in mime.parse_headers(raw) if name.lower() in {"from", "sender"}]
    if {address.lower() for _, address in read_addresses(senders)} != {call.mailbox.address.lower()}:
        raise GraphError(
            403,
            "ErrorSendAsDenied",
            "The user account which was used to submit this request does not have the right to send mail on "
            "behalf of the specified sending account., Cannot submit message.",
        )
    return raw
