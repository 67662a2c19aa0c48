"""JSON of a message turned into RFC 5322 bytes, for drafts and for sending. Pure."""

import base64
import binascii
from collections.abc import Mapping
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any, cast

from mailsim.graph.errors import bad_request

_RECIPIENTS = {"toRecipients": "To", "ccRecipients": "Cc", "bccRecipients": "Bcc", "replyTo": "Reply-To"}


def _wrong(name: str) -> Exception:
    return bad_request(f"The property '{name}' does not have the expected type.", "ErrorInvalidRequest")


def _address(value: Any, name: str) -> Address:
    person: Any = cast("Mapping[str, Any]", value).get("emailAddress") if isinstance(value, Mapping) else None
    if not isinstance(person, Mapping):
        raise _wrong(name)
    known = cast("Mapping[str, Any]", person)
    text, shown = known.get("address"), known.get("name") or ""
    if not isinstance(text, str) or not isinstance(shown, str):
        raise _wrong(name)
    try:
        return Address(display_name=" ".join(shown.split()), addr_spec=text)
    except (ValueError, IndexError) as error:
        raise bad_request("At least one recipient isn't valid.", "ErrorInvalidRecipients") from error


def _set(message: EmailMessage, header: str, value: Any) -> None:
    del message[header]
    if value:
        message[header] = value


def apply(message: EmailMessage, wanted: Mapping[str, Any]) -> None:
    """Set what the JSON gives, keep the rest."""
    if "subject" in wanted:
        if not isinstance(wanted["subject"], str | None):
            raise _wrong("subject")
        _set(message, "Subject", " ".join((wanted["subject"] or "").split()))
    for name, header in _RECIPIENTS.items():
        if name in wanted:
            _set(message, header, [_address(one, name) for one in _list(wanted, name)])
    if wanted.get("from") is not None:
        _set(message, "From", _address(wanted["from"], "from"))
    if wanted.get("body") is not None:
        _body(message, wanted["body"])
    for one in _list(wanted, "attachments"):
        _attach(message, one)


def _list(wanted: Mapping[str, Any], name: str) -> list[Any]:
    value = wanted.get(name, [])
    if not isinstance(value, list):
        raise _wrong(name)
    return cast("list[Any]", value)


def _body(message: EmailMessage, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong("body")
    body = cast("Mapping[str, Any]", value)
    content, kind = body.get("content") or "", str(body.get("contentType") or "text").lower()
    if not isinstance(content, str) or kind not in {"text", "html"}:
        raise _wrong("body")
    content = content.encode("utf-8", "replace").decode()
    message.clear_content()
    message.set_content(content, subtype="html" if kind == "html" else "plain")


def _attach(message: EmailMessage, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong("attachments")
    one = cast("Mapping[str, Any]", value)
    kind, _, sub = str(one.get("contentType") or "application/octet-stream").partition("/")
    try:
        data = base64.b64decode(str(one.get("contentBytes") or ""), validate=True)
        message.add_attachment(
            data, maintype=kind, subtype=sub or "octet-stream", filename=str(one.get("name") or "file")
        )
    except (binascii.Error, ValueError, TypeError) as error:
        raise _wrong("attachments") from error


def new(wanted: Mapping[str, Any], sender: tuple[str, str], message_id: str, date: str) -> bytes:
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = Address(display_name=sender[0], addr_spec=sender[1])
    message["Date"] = date
    message["Message-ID"] = message_id
    message.set_content("")
    return _written(message, wanted)


def changed(raw: bytes, wanted: Mapping[str, Any]) -> bytes:
    message = BytesParser(EmailMessage, policy=policy.SMTP).parsebytes(raw)
    return _written(message, wanted)


def _written(message: EmailMessage, wanted: Mapping[str, Any]) -> bytes:
    try:
        apply(message, wanted)
        return message.as_bytes()
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise bad_request("The message could not be composed.", "ErrorInvalidRequest") from error
