"""A message as Graph's JSON, built property by property from its bytes and state (MessageView).

Properties that need only the state are cheap; the bytes are parsed when another property is requested.
"""

import base64
import calendar
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from mailsim import mime
from mailsim.graph import bodies, entity_types, mime_attachments, recipients
from mailsim.graph.ids import GraphIds
from mailsim.graph.outlook_profile import NO_DETAILS, MessageDetails
from mailsim.lazy_property import lazy_property
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState, get_importance

_MEETINGS = {
    "REQUEST": ("eventMessageRequest", "meetingRequest"),
    "REPLY": ("eventMessageResponse", "meetingAccepted"),
    "CANCEL": ("eventMessage", "meetingCancelled"),
}
_MEETING_REPLIES = {
    "DECLINED": "meetingDeclined",
    "TENTATIVE": "meetingTenativelyAccepted",
}  # Graph's own spelling
_DATE = re.compile(
    r"(?:\w{3}, )?([0-3]?\d) (\w{3}) (\d{4}) ([0-2]\d):([0-5]\d):([0-5]\d) ([+-])(\d{4})", re.ASCII
)
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, written without its zone
_GROUP_BYTES = 1 << 20  # size of messages that are processed together


def format_milliseconds(milliseconds: int) -> str:
    """Format a DateTimeOffset as Graph does: UTC, whole seconds."""
    return (_EPOCH + timedelta(seconds=milliseconds // 1000)).isoformat() + "Z"


@dataclass(frozen=True, slots=True)
class MessagePreferences:
    """The preferences of the Prefer header that change a message's JSON."""

    immutable: bool = False
    text: bool = False
    unsafe: bool = False


@dataclass
class MessageView:
    """One message in its current state, with lazily computed properties and the client's preferences."""

    mailbox: Mailbox
    number: int
    state: MessageState
    ids: GraphIds
    prefer: MessagePreferences
    details: MessageDetails = NO_DETAILS

    @lazy_property
    def id(self) -> str:
        return self.ids.message_id(self.number, self.state.folder, immutable=self.prefer.immutable)

    @lazy_property
    def tree(self) -> mime.MimePart:
        return self.mailbox.tree(self.number)

    @lazy_property
    def headers(self) -> dict[str, str]:
        """Return the first header of each name, names in lower case."""
        return self.tree.named

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    @lazy_property
    def received_ms(self) -> int:
        return self.mailbox.received_ms(self.number)

    @lazy_property
    def received_at(self) -> str:
        return format_milliseconds(self.received_ms)

    @lazy_property
    def root(self) -> int:
        """Return the number of the message that started the conversation."""
        return self.mailbox.thread_root(self.number)

    @lazy_property
    def attachments(self) -> list[mime_attachments.OutlookAttachment]:
        return mime_attachments.list_attachments(self.tree, self.tree.list_headers("x-mailsim-reference"))

    @lazy_property
    def bodies(self) -> list[mime.MimePart]:
        """Return the parts that may be a body: not attachments, not inside another message."""
        return list(_body_parts(self.tree))

    @lazy_property
    def html(self) -> mime.MimePart | None:
        return next((part for part in self.bodies if part.content_type == "text/html"), None)

    @lazy_property
    def text(self) -> mime.MimePart | None:
        """Return the plain text body: the first text part that is not the HTML body."""
        html = self.html
        texts = (part for part in self.bodies if part is not html and part.content_type.startswith("text/"))
        return next((part for part in texts if part.content_type != "text/calendar"), None)

    @lazy_property
    def meeting(self) -> tuple[str, str] | None:
        """Return (entity type, meetingMessageType) if the message contains a calendar part."""
        part = next((part for part in self.bodies if part.content_type == "text/calendar"), None)
        if part is None:
            return None
        method = part.params.get("method", "REQUEST").upper()
        entity_type, meeting_type = _MEETINGS.get(method, ("eventMessage", "none"))
        reply = next(
            (word for name, word in _MEETING_REPLIES.items() if f"PARTSTAT={name}" in part.text), meeting_type
        )
        return entity_type, reply if method == "REPLY" else meeting_type

    @property
    def version(self) -> int:
        change = self.mailbox.last_change(self.number)
        return change.sequence if change else 0

    @lazy_property
    def change_key(self) -> str:
        data = b"\x09\x00\x00\x00\x16\x00\x00\x00" + self.mailbox.account.key.to_bytes(8, "big")
        return base64.b64encode(
            data + self.number.to_bytes(6, "big") + self.version.to_bytes(8, "big")
        ).decode()

    def __call__(self, name: str) -> Any:
        """Return one property; filters call the view like a function."""
        if name == "singleValueExtendedProperties":
            return list(self.details.properties.values())
        if name == "multiValueExtendedProperties":
            return list(self.details.arrays.values())
        return BUILDERS[name](self)


def _body_parts(root: mime.MimePart) -> Iterator[mime.MimePart]:
    waiting = [root]
    while waiting:
        part = waiting.pop(0)
        if part.content_type.startswith("multipart/"):
            waiting[:0] = part.children
        elif part.disposition != "attachment" and not (part.filename and part is not root):
            yield part


def _subject(view: MessageView) -> str:
    return " ".join(mime.decode_words(view.header("subject")).split())


def _sent(view: MessageView) -> str:
    text = view.header("date")
    usual = _DATE.match(text)
    if usual is not None and usual[2] in _MONTHS:
        day, month, year, hour, minute, second, sign, zone = usual.groups()
        try:
            local = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second))  # noqa: DTZ001 - the zone is subtracted next
            if zone != "0000":
                offset = timedelta(hours=int(zone[:2]), minutes=int(zone[2:]))
                local = local - offset if sign == "+" else local + offset
            return local.isoformat() + "Z"
        except (ValueError, OverflowError):
            return view.received_at
    try:
        moment = parsedate_to_datetime(text) if text else None
        if moment is not None:
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"
    except (ValueError, OverflowError):
        pass
    return view.received_at


def _modified(view: MessageView) -> str:
    change = view.mailbox.last_change(view.number)
    return format_milliseconds(change.milliseconds) if change else view.received_at


def _importance(view: MessageView) -> str:
    return get_importance(view.state, view.headers)


def message_body(view: MessageView) -> dict[str, str]:
    html, text = view.html, view.text
    if view.prefer.text:
        content = (
            text.text if text is not None else bodies.html_to_text(html.text if html is not None else "")
        )
        return {"contentType": "text", "content": content}
    if html is None:
        return {"contentType": "html", "content": bodies.text_to_html(text.text if text is not None else "")}
    content = html.text if view.prefer.unsafe else bodies.sanitize_html(html.text)
    return {"contentType": "html", "content": bodies.complete_page(content)}


def _unique_body(view: MessageView) -> dict[str, str]:
    body = message_body(view)
    cut = bodies.cut_quoted_text if body["contentType"] == "text" else bodies.cut_quoted_html
    return {"contentType": body["contentType"], "content": cut(body["content"])}


def _preview(view: MessageView) -> str:
    if view.text is not None:
        return bodies.preview_text(view.text.get_beginning(1000))
    return bodies.preview_html(view.html.text) if view.html is not None else ""


def _conversation_index(view: MessageView) -> str:
    first = view.received_ms if view.root == view.number else view.mailbox.received_ms(view.root)
    return base64.b64encode(
        b"\x01" + (first // 1000).to_bytes(5, "big") + view.root.to_bytes(16, "big")
    ).decode()


def _headers(view: MessageView) -> list[dict[str, str]]:
    return [{"name": name, "value": " ".join(value.split())} for name, value in view.tree.headers]


def _link(view: MessageView) -> str:
    escaped = view.id.replace("=", "%3D")
    return f"https://outlook.office365.com/owa/?ItemID={escaped}&exvsurl=1&viewmodel=ReadMessageItem"


def _inference(view: MessageView) -> str:
    if view.state.classification is not None:
        return view.state.classification
    bulk = "list-unsubscribe" in view.headers or view.header("precedence").lower() in {"bulk", "list"}
    return "other" if bulk else "focused"


def _author(view: MessageView) -> recipients.Recipient:
    """Return the sender of a message; Exchange fills a missing From header in from the SMTP envelope."""
    names = ("from",) if "from" in view.headers else ("sender", "return-path")
    for name in names:
        if found := recipients.parse_first_recipient(view.header(name)):
            return found
    account = view.mailbox.account
    name, address = (account.name, account.address) if view.state.draft else ("", "")
    return {"emailAddress": {"name": name, "address": address}}


def _recipients_of(name: str) -> Callable[[MessageView], Any]:
    return lambda view: (
        recipients.parse_recipients(view.tree.list_headers(name)) if name in view.headers else []
    )


# In Graph's order.
BUILDERS: dict[str, Callable[[MessageView], Any]] = {
    "id": lambda view: view.id,
    "createdDateTime": lambda view: view.received_at,
    "lastModifiedDateTime": _modified,
    "changeKey": lambda view: view.change_key,
    "categories": lambda view: list(view.state.categories),
    "receivedDateTime": lambda view: view.received_at,
    "sentDateTime": _sent,
    "hasAttachments": lambda view: any(not attachment.inline for attachment in view.attachments),
    "internetMessageId": lambda view: view.header("message-id").strip() or None,
    "subject": _subject,
    "bodyPreview": _preview,
    "importance": _importance,
    "parentFolderId": lambda view: view.ids.folder_id(view.state.folder),
    "conversationId": lambda view: view.ids.conversation_id(view.root),
    "conversationIndex": _conversation_index,
    "isDeliveryReceiptRequested": lambda view: "return-receipt-to" in view.headers,
    "isReadReceiptRequested": lambda view: "disposition-notification-to" in view.headers,
    "isRead": lambda view: view.state.read,
    "isDraft": lambda view: view.state.draft,
    "webLink": _link,
    "inferenceClassification": _inference,
    "internetMessageHeaders": _headers,
    "body": message_body,
    "uniqueBody": _unique_body,
    "sender": lambda view: recipients.parse_first_recipient(view.header("sender")) or _author(view),
    "from": _author,
    "toRecipients": _recipients_of("to"),
    "ccRecipients": _recipients_of("cc"),
    "bccRecipients": _recipients_of("bcc"),
    "replyTo": _recipients_of("reply-to"),
    "flag": lambda view: {"flagStatus": view.state.flag, **view.details.flag_dates},
    "meetingMessageType": lambda view: view.meeting[1] if view.meeting else None,
}
ONLY_SELECTED = frozenset({"internetMessageHeaders", "uniqueBody", "meetingMessageType"})
DEFAULT = tuple(name for name in BUILDERS if name not in ONLY_SELECTED)
_USUAL = frozenset(DEFAULT) - entity_types.PRIVATE  # without $select
# These need no parsing. With only these, even the entity type stays unknown: a list of IDs must be cheap.
CHEAP = frozenset(
    {
        "id",
        "createdDateTime",
        "lastModifiedDateTime",
        "changeKey",
        "categories",
        "receivedDateTime",
        "parentFolderId",
        "conversationId",
        "isRead",
        "isDraft",
        "flag",
    }
)


def to_json_many(
    views: Iterable[MessageView], names: Sequence[str], *, typed: bool = False
) -> Iterator[tuple[MessageView, dict[str, Any]]]:
    """Yield each view with its JSON. `typed` adds the type of plain messages too.

    It builds one property for a whole group of messages before the next property, which runs much faster
    than one message after the other.
    """
    cheap = CHEAP.issuperset(names)
    for group in [list(views)] if cheap else _groups(views):
        meetings = [None if cheap else view.meeting for view in group]
        responses = [_odata_annotations(*pair, typed=typed) for pair in zip(group, meetings, strict=True)]
        for name in names:
            build = BUILDERS[name]
            for view, response in zip(group, responses, strict=True):
                response[name] = build(view)
        for response, meeting in zip(responses, meetings, strict=True):
            if meeting is not None and _USUAL.issubset(names):
                response["meetingMessageType"] = meeting[1]
        yield from zip(group, responses, strict=True)


def to_json(view: MessageView, names: Sequence[str], *, typed: bool = False) -> dict[str, Any]:
    [(_, response)] = to_json_many([view], names, typed=typed)
    return response


def _groups(views: Iterable[MessageView]) -> Iterator[list[MessageView]]:
    """Group messages for parsing, limited by size so that large messages do not fill the memory."""
    group: list[MessageView] = []
    size = 0
    for view in views:
        group.append(view)
        size += len(view.mailbox.raw(view.number))
        if size > _GROUP_BYTES:
            yield _parse_all(group)
            group, size = [], 0
    yield _parse_all(group)


def _parse_all(group: list[MessageView]) -> list[MessageView]:
    for view in group:
        _ = view.tree
    return group


def _odata_annotations(view: MessageView, meeting: tuple[str, str] | None, *, typed: bool) -> dict[str, Any]:
    etag = {"@odata.etag": f'W/"{view.change_key}"'}
    if meeting is None and not typed:
        return etag
    return {"@odata.type": f"#microsoft.graph.{meeting[0] if meeting else 'message'}", **etag}
