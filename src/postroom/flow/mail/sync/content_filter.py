"""What a content policy lets be kept of a message (K2), in the shape of the tables. Pure."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from postroom.flow.documents import screen
from postroom.mime.text import searchable_text
from postroom.model import ContentPolicy, MessageContent, Person, RemoteAttachment
from postroom.store.messages import Content

# Whether the policy `documents` keeps this attachment of this message.
AttachmentFilter = Callable[[MessageContent, RemoteAttachment], bool]
_ENCODE: Final = msgspec.json.Encoder().encode


def accepts_attachment(letter: MessageContent, enclosure: RemoteAttachment) -> bool:
    """By what an attachment is called and declared as, where no pipeline decides."""
    del letter
    file = screen.AttachmentFacts(
        enclosure.kind,
        enclosure.file_name or "",
        enclosure.media_type,
        enclosure.size,
        enclosure.is_inline,
        enclosure.content_id,
        screen.detect_type(enclosure.content[:1024]) if enclosure.content is not None else None,
    )
    return screen.screen_attachment(file).accepted


def filter_attachments(
    letter: MessageContent, policy: ContentPolicy, accept: AttachmentFilter
) -> list[RemoteAttachment]:
    match policy:
        case ContentPolicy.METADATA:
            return []
        case ContentPolicy.DOCUMENTS:
            return [each for each in letter.attachments if accept(letter, each)]
        case ContentPolicy.FULL:
            return list(letter.attachments)


def filter_content(letter: MessageContent, policy: ContentPolicy) -> Content:
    """Bodies, headers and snippet only under `full`: the snippet counts as body."""
    whole = policy is ContentPolicy.FULL
    sender = letter.sender
    return Content(
        internet_message_id=_clean(letter.internet_message_id),
        from_name=_clean(sender.name) if sender else None,
        from_address=_clean(sender.address.lower()) if sender else None,
        to=_encode_people(letter.to),
        cc=_encode_people(letter.cc),
        bcc=_encode_people(letter.bcc),
        subject=_clean(letter.subject),
        snippet=_clean(letter.snippet) if whole else None,
        sent_at=letter.sent_at,
        size=letter.size,
        is_newsletter=letter.is_newsletter,
        is_automated=letter.is_automated,
        has_attachments=letter.has_attachments,
        raw_sha256=sha256(letter.raw).digest() if letter.raw is not None else None,
        headers=_encode_json(letter.headers) if whole and letter.headers else None,
        body_plain=_clean(letter.body_plain) if whole else None,
        body_html=_clean(letter.body_html) if whole else None,
        people=_clean(" ".join(_list_names(letter))) or "",
        words=_clean(searchable_text(letter.body_plain, letter.body_html) or letter.snippet)
        if whole
        else None,
    )


def _list_names(letter: MessageContent) -> list[str]:
    people = [*([letter.sender] if letter.sender else []), *letter.to, *letter.cc, *letter.bcc]
    return [word for person in people for word in (person.name, person.address) if word]


def _encode_people(people: Sequence[Person]) -> str:
    if not people:
        return "[]"
    return _encode_json([{"name": person.name, "address": person.address.lower()} for person in people])


def _encode_json(value: object) -> str:
    try:
        text = _ENCODE(value).decode()
    except UnicodeEncodeError:  # half a character: rare, so looked for only when it is there
        text = _ENCODE(_clean_nested(value)).decode()
    return text.replace("\\u0000", "") if "\\u0000" in text else text


def _clean_nested(value: object) -> object:
    match value:
        case str():
            return _clean(value)
        case dict():
            return {key: _clean_nested(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of ours
        case list() | tuple():
            return [_clean_nested(each) for each in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of ours
        case _:
            return value


def _clean(text: str | None) -> str | None:
    """What PostgreSQL takes: no NUL, no half of a character."""
    if text is None:
        return None
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode(errors="replace").decode()
    return text
