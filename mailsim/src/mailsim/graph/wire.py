"""One message as Graph shows it, property by property, made from its bytes and its state. Pure.

Properties that need only the state cost nothing; the bytes are read when one of the others is asked for.
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
from mailsim.graph import attached, bodies, kinds, people
from mailsim.graph.ids import Ids
from mailsim.lazy import lazy
from mailsim.mailbox import Mailbox
from mailsim.state import State, importance_of

_MEETINGS = {
    "REQUEST": ("eventMessageRequest", "meetingRequest"),
    "REPLY": ("eventMessageResponse", "meetingAccepted"),
    "CANCEL": ("eventMessage", "meetingCancelled"),
}
_ANSWERS = {"DECLINED": "meetingDeclined", "TENTATIVE": "meetingTenativelyAccepted"}  # Graph's own spelling
_DATE = re.compile(
    r"(?:\w{3}, )?([0-3]?\d) (\w{3}) (\d{4}) ([0-2]\d):([0-5]\d):([0-5]\d) ([+-])(\d{4})", re.ASCII
)
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, written without its zone
_GROUP = 1 << 20  # bytes of letters that are worked on together


def stamp(milliseconds: int) -> str:
    """A DateTimeOffset as Graph writes it: UTC, whole seconds."""
    return (_EPOCH + timedelta(seconds=milliseconds // 1000)).isoformat() + "Z"


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

    @lazy
    def id(self) -> str:
        return self.ids.message(self.number, self.state.folder, immutable=self.prefer.immutable)

    @lazy
    def tree(self) -> mime.Part:
        return self.mailbox.tree(self.number)

    @lazy
    def headers(self) -> dict[str, str]:
        """The first header of each name, names in lower case."""
        return self.tree.named

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    @lazy
    def received(self) -> int:
        return self.mailbox.received_ms(self.number)

    @lazy
    def arrived(self) -> str:
        return stamp(self.received)

    @lazy
    def root(self) -> int:
        """The number of the message that began the conversation."""
        return self.mailbox.thread(self.number)

    @lazy
    def attachments(self) -> list[attached.Attached]:
        return attached.listed(self.tree, self.tree.headers_named("x-mailsim-reference"))

    @lazy
    def bodies(self) -> list[mime.Part]:
        """The parts that may be a body: not attached, not inside another message."""
        return list(_body_parts(self.tree))

    @lazy
    def html(self) -> mime.Part | None:
        return next((part for part in self.bodies if part.content_type == "text/html"), None)

    @lazy
    def text(self) -> mime.Part | None:
        """What is shown as plain text: the first text that is not the page."""
        html = self.html
        texts = (part for part in self.bodies if part is not html and part.content_type.startswith("text/"))
        return next((part for part in texts if part.content_type != "text/calendar"), None)

    @lazy
    def meeting(self) -> tuple[str, str] | None:
        """(type of message, type of meeting message) where the message carries an invitation."""
        part = next((part for part in self.bodies if part.content_type == "text/calendar"), None)
        if part is None:
            return None
        method = part.params.get("method", "REQUEST").upper()
        kind, said = _MEETINGS.get(method, ("eventMessage", "none"))
        answer = next((word for name, word in _ANSWERS.items() if f"PARTSTAT={name}" in part.text), said)
        return kind, answer if method == "REPLY" else said

    @property
    def version(self) -> int:
        change = self.mailbox.last_change(self.number)
        return change.sequence if change else 0

    @lazy
    def change_key(self) -> str:
        data = b"\x09\x00\x00\x00\x16\x00\x00\x00" + self.mailbox.account.key.to_bytes(8, "big")
        return base64.b64encode(
            data + self.number.to_bytes(6, "big") + self.version.to_bytes(8, "big")
        ).decode()

    def __call__(self, name: str) -> Any:
        """One property, as filters ask for it."""
        return BUILDERS[name](self)


def _body_parts(root: mime.Part) -> Iterator[mime.Part]:
    waiting = [root]
    while waiting:
        part = waiting.pop(0)
        if part.content_type.startswith("multipart/"):
            waiting[:0] = part.children
        elif part.disposition != "attachment" and not (part.filename and part is not root):
            yield part


def _subject(view: View) -> str:
    return " ".join(mime.decode_words(view.header("subject")).split())


def _sent(view: View) -> str:
    text = view.header("date")
    usual = _DATE.match(text)
    if usual is not None and usual[2] in _MONTHS:
        day, month, year, hour, minute, second, sign, zone = usual.groups()
        try:
            local = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second))  # noqa: DTZ001 - its zone is taken off next
            if zone != "0000":
                away = timedelta(hours=int(zone[:2]), minutes=int(zone[2:]))
                local = local - away if sign == "+" else local + away
            return local.isoformat() + "Z"
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
    return importance_of(view.state, view.headers)


def body(view: View) -> dict[str, str]:
    html, text = view.html, view.text
    if view.prefer.text:
        content = text.text if text is not None else bodies.to_text(html.text if html is not None else "")
        return {"contentType": "text", "content": content}
    if html is None:
        return {"contentType": "html", "content": bodies.from_text(text.text if text is not None else "")}
    shown = html.text if view.prefer.unsafe else bodies.safe(html.text)
    return {"contentType": "html", "content": bodies.whole(shown)}


def _unique_body(view: View) -> dict[str, str]:
    shown = body(view)
    cut = bodies.unique_text if shown["contentType"] == "text" else bodies.unique_html
    return {"contentType": shown["contentType"], "content": cut(shown["content"])}


def _preview(view: View) -> str:
    if view.text is not None:
        return bodies.preview(view.text.beginning(1000))
    return bodies.html_preview(view.html.text) if view.html is not None else ""


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
    return lambda view: people.recipients(view.tree.headers_named(name)) if name in view.headers else []


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
    "sender": lambda view: people.first(view.headers.get("sender") or view.headers.get("from", "")),
    "from": lambda view: people.first(view.headers.get("from", "")),
    "toRecipients": _people("to"),
    "ccRecipients": _people("cc"),
    "bccRecipients": _people("bcc"),
    "replyTo": _people("reply-to"),
    "flag": lambda view: {"flagStatus": view.state.flag},
    "meetingMessageType": lambda view: view.meeting[1] if view.meeting else None,
}
ONLY_SELECTED = frozenset({"internetMessageHeaders", "uniqueBody", "meetingMessageType"})
DEFAULT = tuple(name for name in BUILDERS if name not in ONLY_SELECTED)
_USUAL = frozenset(DEFAULT) - kinds.PRIVATE  # where nothing was selected
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


def messages(
    views: Iterable[View], names: Sequence[str], *, typed: bool = False
) -> Iterator[tuple[View, dict[str, Any]]]:
    """The JSON of each message with these properties. `typed`: say the type of plain messages too.

    One property of many messages after the other: the same code again and again runs much faster than all
    the code of one message, then all of the next.
    """
    cheap = CHEAP.issuperset(names)
    for group in [list(views)] if cheap else _groups(views):
        meetings = [None if cheap else view.meeting for view in group]
        answers = [_opening(*pair, typed=typed) for pair in zip(group, meetings, strict=True)]
        for name in names:
            build = BUILDERS[name]
            for view, answer in zip(group, answers, strict=True):
                answer[name] = build(view)
        for answer, meeting in zip(answers, meetings, strict=True):
            if meeting is not None and _USUAL.issubset(names):
                answer["meetingMessageType"] = meeting[1]
        yield from zip(group, answers, strict=True)


def message(view: View, names: Sequence[str], *, typed: bool = False) -> dict[str, Any]:
    [(_, answer)] = messages([view], names, typed=typed)
    return answer


def _groups(views: Iterable[View]) -> Iterator[list[View]]:
    """Written and read in a row, and so few at a time that large letters do not fill the memory."""
    group: list[View] = []
    size = 0
    for view in views:
        group.append(view)
        size += len(view.mailbox.raw(view.number))
        if size > _GROUP:
            yield _read(group)
            group, size = [], 0
    yield _read(group)


def _read(group: list[View]) -> list[View]:
    for view in group:
        _ = view.tree
    return group


def _opening(view: View, meeting: tuple[str, str] | None, *, typed: bool) -> dict[str, Any]:
    etag = {"@odata.etag": f'W/"{view.change_key}"'}
    if meeting is None and not typed:
        return etag
    return {"@odata.type": f"#microsoft.graph.{meeting[0] if meeting else 'message'}", **etag}
