"""One message as Graph shows it, property by property, made from its bytes and its state. Pure.

Properties that need only the state cost nothing; the bytes are read when one of the others is asked for.
"""

import base64
import calendar
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

from mailsim import mime
from mailsim.graph import attached, bodies, people
from mailsim.graph.ids import Ids
from mailsim.mailbox import Mailbox
from mailsim.state import State

_MEETINGS = {
    "REQUEST": ("eventMessageRequest", "meetingRequest"),
    "REPLY": ("eventMessageResponse", "meetingAccepted"),
    "CANCEL": ("eventMessage", "meetingCancelled"),
}
_ANSWERS = {"DECLINED": "meetingDeclined", "TENTATIVE": "meetingTenativelyAccepted"}  # Graph's own spelling
_DATE = re.compile(
    r"(?:\w{3}, )?([0-3]?\d) (\w{3}) (\d{4}) ([0-2]\d):([0-5]\d):([0-5]\d) ([+-])(\d\d)(\d\d)", re.ASCII
)
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_PRIORITIES = {"high": "high", "1": "high", "2": "high", "low": "low", "4": "low", "5": "low"}


def stamp(milliseconds: int) -> str:
    """A DateTimeOffset as Graph writes it: UTC, whole seconds."""
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return moment.isoformat(timespec="seconds")[:19] + "Z"


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the Prefer header asks of the shape of messages."""

    immutable: bool = False
    text: bool = False
    unsafe: bool = False


@dataclass
class View:
    """One message as it is now, seen by somebody with preferences."""

    mailbox: Mailbox
    number: int
    state: State
    ids: Ids
    prefer: Preferences
    drafts_received: bool = False

    @cached_property
    def id(self) -> str:
        return self.ids.message(self.number, self.state.folder, immutable=self.prefer.immutable)

    @cached_property
    def tree(self) -> mime.Part:
        return self.mailbox.tree(self.number)

    @cached_property
    def headers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, value in self.tree.headers:
            found.setdefault(name.lower(), []).append(value)
        return found

    def header(self, name: str) -> str:
        values = self.headers.get(name)
        return values[0] if values else ""

    @cached_property
    def received(self) -> int:
        return self.mailbox.received_ms(self.number)

    @cached_property
    def arrived(self) -> str:
        return stamp(self.received)

    @cached_property
    def root(self) -> int:
        """The number of the message that began the conversation."""
        return self.mailbox.thread(self.number)

    @cached_property
    def attachments(self) -> list[attached.Attached]:
        return attached.listed(self.tree, self.headers.get("x-mailsim-reference", ()))

    @cached_property
    def texts(self) -> tuple[str | None, str | None]:
        """The HTML and the plain body, None where the message has none."""
        html: str | None = None
        text: str | None = None
        for _, part in _body_parts(self.tree):
            if part.content_type == "text/html" and html is None:
                html = part.text
            elif (
                part.content_type.startswith("text/")
                and part.content_type != "text/calendar"
                and text is None
            ):
                text = part.text
        return html, text

    @cached_property
    def meeting(self) -> tuple[str, str] | None:
        """(type of message, type of meeting message) where the message carries an invitation."""
        for _, part in _body_parts(self.tree):
            if part.content_type == "text/calendar":
                method = part.params.get("method", "REQUEST").upper()
                kind, said = _MEETINGS.get(method, ("eventMessage", "none"))
                answer = next(
                    (word for name, word in _ANSWERS.items() if f"PARTSTAT={name}" in part.text), said
                )
                return kind, answer if method == "REPLY" else said
        return None

    @property
    def version(self) -> int:
        change = self.mailbox.last_change(self.number)
        return change.sequence if change else 0

    @cached_property
    def change_key(self) -> str:
        data = b"\x09\x00\x00\x00\x16\x00\x00\x00" + self.mailbox.account.key.to_bytes(8, "big")
        return base64.b64encode(
            data + self.number.to_bytes(6, "big") + self.version.to_bytes(8, "big")
        ).decode()

    def __call__(self, name: str) -> Any:
        """One property, as filters ask for it."""
        return BUILDERS[name](self)


def _body_parts(root: mime.Part) -> Iterable[tuple[str, mime.Part]]:
    """The parts that may be a body: not attached, not inside another message."""
    waiting = [root]
    while waiting:
        part = waiting.pop(0)
        if part.content_type.startswith("multipart/"):
            waiting[:0] = part.children
        elif part.disposition != "attachment" and not (part.filename and part is not root):
            yield "", part


def _subject(view: View) -> str:
    return " ".join(mime.decode_words(view.header("subject")).split())


def _sent(view: View) -> str:
    text = view.header("date")
    usual = _DATE.match(text)
    if usual is not None and usual[2] in _MONTHS:
        day, month, year, hour, minute, second, sign, hours, minutes = usual.groups()
        away = timedelta(hours=int(hours), minutes=int(minutes))
        try:
            local = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second))  # noqa: DTZ001 - its zone is taken off next
            return (local - away if sign == "+" else local + away).isoformat() + "Z"
        except (ValueError, OverflowError):
            return view.arrived
    try:
        moment = parsedate_to_datetime(text) if text else None
        if moment is not None:
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"
    except (ValueError, OverflowError):
        pass
    return view.arrived


def _received(view: View) -> str | None:
    return None if view.state.draft and not view.drafts_received else view.arrived


def _modified(view: View) -> str:
    change = view.mailbox.last_change(view.number)
    return stamp(change.milliseconds) if change else view.arrived


def _importance(view: View) -> str:
    if view.state.importance != "normal":
        return view.state.importance
    said = (view.header("importance") or view.header("x-priority"))[:8].strip().lower()
    return _PRIORITIES.get(said, "normal") if said else "normal"


def body(view: View) -> dict[str, str]:
    html, text = view.texts
    if view.prefer.text:
        content = text if text is not None else bodies.to_text(html or "")
        return {"contentType": "text", "content": content}
    if html is None:
        return {"contentType": "html", "content": bodies.from_text(text or "")}
    shown = html if view.prefer.unsafe else bodies.safe(html)
    return {"contentType": "html", "content": bodies.whole(shown)}


def _unique_body(view: View) -> dict[str, str]:
    shown = body(view)
    cut = bodies.unique_text if shown["contentType"] == "text" else bodies.unique_html
    return {"contentType": shown["contentType"], "content": cut(shown["content"])}


def _preview(view: View) -> str:
    html, text = view.texts
    return bodies.preview(html if text is None else None, text)


def _conversation_index(view: View) -> str:
    first = view.received if view.root == view.number else view.mailbox.received_ms(view.root)
    return base64.b64encode(
        b"\x01" + (first // 1000).to_bytes(5, "big") + view.root.to_bytes(16, "big")
    ).decode()


def _headers(view: View) -> list[dict[str, str]]:
    return [{"name": name, "value": " ".join(value.split())} for name, value in view.tree.headers]


def _link(view: View) -> str:
    escaped = view.id.replace("=", "%3D")
    return f"https://outlook.office365.com/owa/?ItemID={escaped}&exvsurl=1&viewmodel=ReadMessageItem"


def _inference(view: View) -> str:
    bulk = "list-unsubscribe" in view.headers or view.header("precedence").lower() in {"bulk", "list"}
    return "other" if bulk else "focused"


def _people(name: str) -> Callable[[View], Any]:
    return lambda view: people.recipients(view.headers.get(name, []))


# In the order in which Graph writes them.
BUILDERS: dict[str, Callable[[View], Any]] = {
    "id": lambda view: view.id,
    "createdDateTime": lambda view: view.arrived,
    "lastModifiedDateTime": _modified,
    "changeKey": lambda view: view.change_key,
    "categories": lambda view: list(view.state.categories),
    "receivedDateTime": _received,
    "sentDateTime": _sent,
    "hasAttachments": lambda view: any(not one.inline for one in view.attachments),
    "internetMessageId": lambda view: view.header("message-id").strip() or None,
    "subject": _subject,
    "bodyPreview": _preview,
    "importance": _importance,
    "parentFolderId": lambda view: view.ids.folder(view.state.folder),
    "conversationId": lambda view: view.ids.conversation(view.root),
    "conversationIndex": _conversation_index,
    "isDeliveryReceiptRequested": lambda view: "return-receipt-to" in view.headers,
    "isReadReceiptRequested": lambda view: "disposition-notification-to" in view.headers,
    "isRead": lambda view: view.state.read,
    "isDraft": lambda view: view.state.draft,
    "webLink": _link,
    "inferenceClassification": _inference,
    "internetMessageHeaders": _headers,
    "body": body,
    "uniqueBody": _unique_body,
    "sender": lambda view: people.first(view.headers.get("sender") or view.headers.get("from", [])),
    "from": lambda view: people.first(view.headers.get("from", [])),
    "toRecipients": _people("to"),
    "ccRecipients": _people("cc"),
    "bccRecipients": _people("bcc"),
    "replyTo": _people("reply-to"),
    "flag": lambda view: {"flagStatus": view.state.flag},
    "meetingMessageType": lambda view: view.meeting[1] if view.meeting else None,
}
ONLY_SELECTED = frozenset({"internetMessageHeaders", "uniqueBody", "meetingMessageType"})
DEFAULT = tuple(name for name in BUILDERS if name not in ONLY_SELECTED)
# For these alone a message need not be read. Then not even its type is known: a list of ids must be cheap.
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


def message(view: View, names: Sequence[str], *, typed: bool = False) -> dict[str, Any]:
    """The JSON of a message with these properties. `typed`: say its type even when it is a plain message."""
    answer: dict[str, Any] = {}
    meeting = None if CHEAP.issuperset(names) else view.meeting
    if meeting is not None:
        answer["@odata.type"] = f"#microsoft.graph.{meeting[0]}"
    elif typed:
        answer["@odata.type"] = "#microsoft.graph.message"
    answer["@odata.etag"] = f'W/"{view.change_key}"'
    for name in names:
        answer[name] = BUILDERS[name](view)
    if meeting is not None and len(answer) > 20:
        answer["meetingMessageType"] = meeting[1]
    return answer
