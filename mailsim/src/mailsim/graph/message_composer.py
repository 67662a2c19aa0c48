"""Composing and editing of RFC 5322 messages from Graph's message JSON, for drafts and for sending.

The opposite direction is `message_json`.
"""

import base64
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from email import policy
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any, cast

from mailsim.graph import mime_editing
from mailsim.graph.errors import bad_request, undefined_property, unsimulated_value

_RECIPIENTS = {"toRecipients": "To", "ccRecipients": "Cc", "bccRecipients": "Bcc", "replyTo": "Reply-To"}
_RECEIPTS = {
    "isReadReceiptRequested": "Disposition-Notification-To",
    "isDeliveryReceiptRequested": "Return-Receipt-To",
}
MAX_CUSTOM_HEADERS = 5
FILE_TYPE = "#microsoft.graph.fileAttachment"
_ITEM_TYPE = "microsoft.graph.itemattachment"
_LINK_TYPE = "microsoft.graph.referenceattachment"
_OTHER_ITEM_TYPES = frozenset({"microsoft.graph.contact", "microsoft.graph.event"})
_HEADER_NAME = re.compile(r"[!-9;-~]{1,200}")
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,900}>")
# What Python's parser raises for a malformed address; the last two are bugs of some of its versions.
_ADDRESS_ERRORS = (ValueError, IndexError, MessageError, AttributeError, UnboundLocalError)


def _wrong_type(name: str) -> Exception:
    return bad_request(f"The property '{name}' does not have the expected type.", "ErrorInvalidRequest")


def parse_address(value: Any, name: str) -> Address:
    """Return a recipient of Graph's JSON; `name` is its property."""
    person: Any = cast("Mapping[str, Any]", value).get("emailAddress") if isinstance(value, Mapping) else None
    if not isinstance(person, Mapping):
        raise _wrong_type(name)
    email_address = cast("Mapping[str, Any]", person)
    _check_names(cast("Mapping[str, Any]", value), "recipient", "emailAddress")
    _check_names(email_address, "emailAddress", "name", "address")
    text, display_name = email_address.get("address"), email_address.get("name") or ""
    if not isinstance(text, str) or not isinstance(display_name, str):
        raise _wrong_type(name)
    try:
        return Address(display_name=" ".join(display_name.split()), addr_spec=text)
    except _ADDRESS_ERRORS as error:
        raise bad_request("At least one recipient isn't valid.", "ErrorInvalidRecipients") from error


def _check_names(fields: Mapping[str, Any], kind: str, *known: str) -> None:
    names = {name.lower() for name in known}
    for name in fields:
        if name.lower() not in names and not name.startswith("@odata."):
            raise undefined_property(name, kind)


def _set_header(message: EmailMessage, header: str, value: Any) -> None:
    del message[header]
    if value:
        message[header] = value


def _set_headers(message: EmailMessage, fields: Mapping[str, Any]) -> None:
    """Set the headers that the JSON contains and keep the others."""
    if "subject" in fields:
        if not isinstance(fields["subject"], str | None):
            raise _wrong_type("subject")
        _set_header(message, "Subject", " ".join((fields["subject"] or "").split()))
    for name, header in _RECIPIENTS.items():
        if name in fields:
            _set_header(
                message, header, [parse_address(recipient, name) for recipient in _get_list(fields, name)]
            )
    for name, header in (("from", "From"), ("sender", "Sender")):
        if fields.get(name) is not None:
            _set_header(message, header, parse_address(fields[name], name))
    _set_delivery_options(message, fields)


def _set_delivery_options(message: EmailMessage, fields: Mapping[str, Any]) -> None:
    if fields.get("importance") is not None:
        importance = str(fields["importance"]).lower()
        _set_header(message, "Importance", importance if importance in {"low", "high"} else "")
    if fields.get("internetMessageId") is not None:
        _set_header(message, "Message-ID", _parse_message_id(fields["internetMessageId"]))
    for name, header in _RECEIPTS.items():
        if name in fields:
            if not isinstance(fields[name], bool | None):
                raise _wrong_type(name)
            _set_header(message, header, str(message["From"]) if fields[name] else None)


def _get_list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise _wrong_type(name)
    return cast("list[Any]", value)


def _set_body(message: EmailMessage, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong_type("body")
    body = cast("Mapping[str, Any]", value)
    content, kind = body.get("content") or "", str(body.get("contentType") or "text").lower()
    if not isinstance(content, str) or kind not in {"text", "html"}:
        raise _wrong_type("body")
    content = content.encode("utf-8", "replace").decode()
    message.set_content(content, subtype="html" if kind == "html" else "plain")


def compose_attachment(value: Any) -> bytes:
    """Return a file or an attached message as a MIME part."""
    if not isinstance(value, Mapping):
        raise _wrong_type("attachments")
    attachment = cast("Mapping[str, Any]", value)
    type_name = str(attachment.get("@odata.type") or "").lower().removeprefix("#")
    if not type_name and "contentBytes" in attachment:
        raise undefined_property("contentBytes", "attachment")
    if type_name == _ITEM_TYPE:
        return _compose_item(attachment.get("item"))
    if type_name == _LINK_TYPE:
        raise unsimulated_value(f"attachments of the type '{type_name}'")
    if type_name != FILE_TYPE.lower().removeprefix("#"):
        raise _wrong_type("attachments")
    with _reject_unwritable():
        return _compose_file(attachment)


def _compose_file(attachment: Mapping[str, Any]) -> bytes:
    kind, _, sub = str(attachment.get("contentType") or "application/octet-stream").partition("/")
    if not sub or kind.lower() == "multipart":
        kind, sub = "application", "octet-stream"
    content_id = str(attachment.get("contentId") or "")
    part = EmailMessage(policy=policy.SMTP)
    part.set_content(
        base64.b64decode(str(attachment.get("contentBytes") or ""), validate=True),
        maintype=kind,
        subtype=sub,
        disposition="inline" if attachment.get("isInline") is True else "attachment",
        filename=str(attachment.get("name") or "file"),
        cid=f"<{content_id}>" if content_id else None,
    )
    return part.as_bytes()


def _compose_item(value: Any) -> bytes:
    """Return a message as a MIME part."""
    if not isinstance(value, Mapping):
        raise _wrong_type("item")
    item = cast("Mapping[str, Any]", value)
    item_type = str(item.get("@odata.type") or "").lower().removeprefix("#")
    if item_type in _OTHER_ITEM_TYPES:
        raise unsimulated_value(f"attachments of the type '{item_type}'")
    if item_type != "microsoft.graph.message":
        raise _wrong_type("item")
    message = EmailMessage(policy=policy.SMTP)
    with _reject_unwritable():
        _set_headers(message, item)
        _set_body(message, item.get("body") or {})
        return b"Content-Type: message/rfc822\r\nContent-Disposition: attachment\r\n\r\n" + message.as_bytes()


def _parse_message_id(value: Any) -> str:
    if not isinstance(value, str) or not _MESSAGE_ID.fullmatch(value):
        raise _wrong_type("internetMessageId")
    return value


def _add_custom_headers(message: EmailMessage, fields: Mapping[str, Any]) -> None:
    """Add internetMessageHeaders, which only a new message accepts."""
    headers = _get_list(fields, "internetMessageHeaders")
    if len(headers) > MAX_CUSTOM_HEADERS:
        raise bad_request(
            f"Maximum number of headers in one message should be less than or equal to {MAX_CUSTOM_HEADERS}.",
            "InvalidInternetMessageHeaderCollection",
        )
    for header in headers:
        if not isinstance(header, Mapping):
            raise _wrong_type("internetMessageHeaders")
        entry = cast("Mapping[str, Any]", header)
        name, value = entry.get("name"), entry.get("value")
        if not isinstance(name, str) or not isinstance(value, str) or not _HEADER_NAME.fullmatch(name):
            raise _wrong_type("internetMessageHeaders")
        if not name.lower().startswith("x-"):
            raise bad_request(
                f"The internet message header name '{name[:80]}' should start with 'x-' or 'X-'.",
                "InvalidInternetMessageHeader",
            )
        message[name] = " ".join(value.split())


def compose_message(
    fields: Mapping[str, Any],
    sender: tuple[str, str],
    message_id: str,
    date: str,
    more_headers: Sequence[tuple[str, str]] = (),
) -> bytes:
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = Address(display_name=sender[0], addr_spec=sender[1])
    message["Date"] = date
    message["Message-ID"] = message_id
    with _reject_unwritable():
        for name, value in more_headers:
            message[name] = value
        _set_headers(message, fields)
        _add_custom_headers(message, fields)
        _set_body(message, fields.get("body") or {})
        raw = message.as_bytes()
    return mime_editing.add_parts(raw, [compose_attachment(one) for one in _get_list(fields, "attachments")])


def edit_message(raw: bytes, fields: Mapping[str, Any]) -> bytes:
    message = BytesParser(EmailMessage, policy=policy.SMTP).parsebytes(raw)
    with _reject_unwritable():
        _set_headers(message, fields)
        edited = message.as_bytes()
        if fields.get("body") is None:
            return edited
        body = EmailMessage(policy=policy.SMTP)
        _set_body(body, fields["body"])
        return mime_editing.replace_body(edited, body.as_bytes())


@contextmanager
def _reject_unwritable() -> Generator[None]:
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise bad_request("The message could not be composed.", "ErrorInvalidRequest") from error
