"""What a content policy lets be kept of a message (K2), in the shape of the tables. Pure."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from postroom.flow.documents import screen
from postroom.mime.text import readable
from postroom.model import ContentPolicy, Enclosure, Letter, Person
from postroom.store.messages import Content

# Whether the policy `documents` keeps this attachment of this message.
Accept = Callable[[Letter, Enclosure], bool]
_ENCODE: Final = msgspec.json.Encoder().encode


def accepts(letter: Letter, enclosure: Enclosure) -> bool:
    """By what an attachment is called and declared as, where no pipeline decides."""
    del letter
    file = screen.File(
        enclosure.kind,
        enclosure.file_name or "",
        enclosure.media_type,
        enclosure.size,
        enclosure.is_inline,
        enclosure.content_id,
        screen.detected(enclosure.content[:1024]) if enclosure.content is not None else None,
    )
    return screen.attachment(file).accepted


def kept_enclosures(letter: Letter, policy: ContentPolicy, accept: Accept) -> list[Enclosure]:
    match policy:
        case ContentPolicy.METADATA:
            return []
        case ContentPolicy.DOCUMENTS:
            return [each for each in letter.enclosures if accept(letter, each)]
        case ContentPolicy.FULL:
            return list(letter.enclosures)


def kept(letter: Letter, policy: ContentPolicy) -> Content:
    """Bodies, headers and snippet only under `full`: the snippet counts as body."""
    whole = policy is ContentPolicy.FULL
    sender = letter.sender
    return Content(
        internet_message_id=_clean(letter.internet_message_id),
        from_name=_clean(sender.name) if sender else None,
        from_address=_clean(sender.address.lower()) if sender else None,
        to=_people(letter.to),
        cc=_people(letter.cc),
        bcc=_people(letter.bcc),
        subject=_clean(letter.subject),
        snippet=_clean(letter.snippet) if whole else None,
        sent_at=letter.sent_at,
        size=letter.size,
        is_newsletter=letter.is_newsletter,
        is_automated=letter.is_automated,
        has_attachments=letter.has_attachments,
        raw_sha256=sha256(letter.raw).digest() if letter.raw is not None else None,
        headers=_json(letter.headers) if whole and letter.headers else None,
        body_plain=_clean(letter.body_plain) if whole else None,
        body_html=_clean(letter.body_html) if whole else None,
        people=_clean(" ".join(_names(letter))) or "",
        words=_clean(readable(letter.body_plain, letter.body_html) or letter.snippet) if whole else None,
    )


def _names(letter: Letter) -> list[str]:
    people = [*([letter.sender] if letter.sender else []), *letter.to, *letter.cc, *letter.bcc]
    return [word for person in people for word in (person.name, person.address) if word]


def _people(people: Sequence[Person]) -> str:
    if not people:
        return "[]"
    return _json([{"name": person.name, "address": person.address.lower()} for person in people])


def _json(value: object) -> str:
    try:
        text = _ENCODE(value).decode()
    except UnicodeEncodeError:  # half a character: rare, so looked for only when it is there
        text = _ENCODE(_mended(value)).decode()
    return text.replace("\\u0000", "") if "\\u0000" in text else text


def _mended(value: object) -> object:
    match value:
        case str():
            return _clean(value)
        case dict():
            return {key: _mended(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of ours
        case list() | tuple():
            return [_mended(each) for each in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of ours
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
