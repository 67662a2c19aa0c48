"""The routes of Graph that reply to or forward a message, as a draft or sent at once.

The new message quotes the original and joins its conversation. A forward carries the original's attachments.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from html import escape
from typing import Any, Literal, cast

from mailsim.graph import message_composer, message_json, message_writes, messages, mime_editing
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.message_json import MessagePreferences, MessageView
from mailsim.graph.recipients import Recipient
from mailsim.graph.request import GraphCall, GraphResponse, get_argument, get_text
from mailsim.graph.routing import RouteHandler

ReplyAction = Literal["reply", "replyAll", "forward"]
_PREFIXES = {"reply": "RE:", "replyAll": "RE:", "forward": "FW:"}
_PAGE_BODY = re.compile(r"<body[^>]*>(.*)</body>", re.IGNORECASE | re.DOTALL)
_REFERENCE = "X-Mailsim-Reference"  # links to cloud files of generated mail


def create_draft(action: ReplyAction) -> RouteHandler:
    return partial(_create_draft, action)


def send(action: ReplyAction) -> RouteHandler:
    return partial(_send, action)


async def _create_draft(action: ReplyAction, call: GraphCall) -> GraphResponse:
    raw, changes = _compose(action, call)
    properties = message_writes.parse_state_properties(call, changes)
    number = call.mailbox.save_draft(raw)
    message_writes.set_state_properties(call, number, properties)
    return message_writes.entity_response(call, number, 201)


async def _send(action: ReplyAction, call: GraphCall) -> GraphResponse:
    raw, changes = _compose(action, call)
    properties = message_writes.parse_state_properties(call, {**changes, "isRead": None})
    message_writes.send_message(call, raw, properties)
    return GraphResponse(202)


def _compose(action: ReplyAction, call: GraphCall) -> tuple[bytes, Mapping[str, Any]]:
    """Return the new message, and the properties that the client set."""
    view = messages.find_in_path(call)
    if message_writes.has_mime(call):
        return message_writes.decode_mime(call), {}
    body = call.json() if call.body.strip() else {}
    changes = _get_changes(action, body)
    fields = _make_fields(action, call, view, get_text(body, _spell(body, "comment"))) | changes
    raw = message_writes.compose(call, fields, _make_headers(action, view))
    parts = [
        mime_editing.write_part(attachment.part)
        for attachment in view.attachments
        if attachment.part is not None and (action == "forward" or attachment.inline)
    ]
    return mime_editing.add_parts(raw, parts), changes


def _spell(body: Mapping[str, Any], name: str) -> str:
    return name if name in body else name.capitalize()


def _get_changes(action: ReplyAction, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of the new message that the client sets."""
    message, recipients = get_argument(body, "message"), get_argument(body, "toRecipients")
    if not isinstance(message, Mapping | None):
        raise bad_request("The parameter 'Message' must be a message.", "ErrorInvalidRequest")
    changes = dict(cast("Mapping[str, Any]", message or {}))
    message_writes.check_new_message(changes)
    if get_argument(body, "comment") and changes.get("body") is not None:
        raise bad_request("Specify either a comment or the body of the message.", "ErrorInvalidRequest")
    if action == "forward":
        if recipients and changes.get("toRecipients"):
            raise bad_request("Specify the recipients only once.", "ErrorInvalidRequest")
        if recipients:
            changes["toRecipients"] = recipients
    return changes


def _make_fields(action: ReplyAction, call: GraphCall, view: MessageView, comment: str) -> dict[str, Any]:
    subject, prefix = str(view("subject")), _PREFIXES[action]
    if not subject.upper().startswith(prefix):
        subject = f"{prefix} {subject}".strip()
    fields: dict[str, Any] = {
        "subject": subject,
        "body": {"contentType": "html", "content": _quote(view, comment)},
    }
    if action != "forward":
        fields["toRecipients"] = _keep_valid([*(view("replyTo") or [view("from")])])
    if action == "replyAll":
        known = {call.mailbox.address.lower(), *map(_get_address, fields["toRecipients"])}
        others = _keep_valid([*view("toRecipients"), *view("ccRecipients")])
        fields["ccRecipients"] = [person for person in others if _get_address(person) not in known]
    return fields


def _get_address(person: Recipient) -> str:
    return person["emailAddress"]["address"].lower()


def _keep_valid(people: list[Recipient | None]) -> list[Recipient]:
    """Leave out the addresses of malformed mail to which no message can be sent."""
    kept: list[Recipient] = []
    for person in people:
        if person is not None and "@" in person["emailAddress"]["address"]:
            try:
                message_composer.parse_address(person, "toRecipients")
            except GraphError:
                continue
            kept.append(person)
    return kept


def _make_headers(action: ReplyAction, view: MessageView) -> list[tuple[str, str]]:
    """Return the headers that keep the conversation together, and the links that a forward carries."""
    answered = " ".join(view.header("message-id").split())
    earlier = view.header("references") or view.header("in-reply-to")
    headers: list[tuple[str, str]] = []
    if answered:
        headers += [("In-Reply-To", answered), ("References", " ".join([*earlier.split(), answered]))]
    if action == "forward":
        headers += [(_REFERENCE, link) for link in view.tree.list_headers(_REFERENCE.lower())]
    return headers


def _quote(view: MessageView, comment: str) -> str:
    """Return the page of the new message: the comment, a line, and the original with its main headers."""
    original = message_json.message_body(
        MessageView(view.mailbox, view.number, view.state, view.ids, MessagePreferences())
    )["content"]
    inner = _PAGE_BODY.search(original)
    sent = datetime.fromisoformat(str(view("sentDateTime")))
    facts = {
        "From": _format_people([view("from")]),
        "Sent": f"{sent:%A, %B} {sent.day}, {sent:%Y} {sent:%I:%M %p}".replace(" 0", " "),
        "To": _format_people(view("toRecipients")),
        "Cc": _format_people(view("ccRecipients")),
        "Subject": escape(str(view("subject")), quote=False),
    }
    lines = "<br>\r\n".join(f"<b>{name}:</b> {value}" for name, value in facts.items() if value)
    text = escape(comment, quote=False).replace("\r\n", "\n").replace("\n", "<br>\r\n")
    return (
        f'<html><head></head><body>{text}<hr tabindex="-1" style="display:inline-block; width:98%">\r\n'
        f'<div id="divRplyFwdMsg" dir="ltr">{lines}\r\n<div>&nbsp;</div>\r\n</div>\r\n'
        f"{inner[1] if inner else original}</body></html>"
    )


def _format_people(people: list[Recipient | None]) -> str:
    names = [person["emailAddress"] for person in people if person is not None]
    return escape("; ".join(f"{one['name']} <{one['address']}>" for one in names), quote=False)
