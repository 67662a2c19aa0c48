"""Reduce a message to what its content policy allows, as values of table columns. Pure functions.

Also removes the characters that PostgreSQL rejects.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import msgspec

from postroom.flow.documents import screen
from postroom.mime.text import searchable_text
from postroom.model import ContentPolicy, MessageContent, Person, RemoteAttachment
from postroom.store.messages import StoredContent

# Characters of a sender's address that are stored. None is longer, and an index takes no more.
MAX_ADDRESS: Final = 320
_ENCODE: Final = msgspec.json.Encoder().encode


def accepts_attachment(
    attachment: RemoteAttachment, detected: str | None = None, *, is_covered: bool
) -> bool:
    """Whether the policy `documents` stores an attachment, judged by its name, type and first bytes.

    `detected` is the type that its first bytes show, where its content is not at hand. `is_covered` says
    whether a pipeline accepts the mailbox and the sender. The folder does not matter, because the message may
    be moved to one that a pipeline applies to.
    """
    if not is_covered:
        return False
    if attachment.content is not None:
        detected = screen.detect_type(attachment.content[: screen.HEAD_BYTES])
    file = screen.AttachmentFacts(
        attachment.kind,
        attachment.file_name or "",
        attachment.media_type,
        attachment.size,
        attachment.is_inline,
        attachment.content_id,
        detected,
    )
    return screen.screen_attachment(file).accepted


def needs_first_bytes(attachment: RemoteAttachment) -> bool:
    """Whether only its first bytes, which are not at hand, show whether `documents` stores an attachment."""
    if attachment.content is not None or accepts_attachment(attachment, is_covered=True):
        return False
    return accepts_attachment(attachment, "pdf", is_covered=True)


def filter_attachments(
    content: MessageContent, policy: ContentPolicy, *, is_covered: bool
) -> list[RemoteAttachment]:
    """Return the attachments that the policy stores, or may store once their first bytes are known."""
    match policy:
        case ContentPolicy.METADATA:
            return []
        case ContentPolicy.DOCUMENTS:
            return [
                attachment
                for attachment in content.attachments
                if accepts_attachment(attachment, is_covered=is_covered)
                or (is_covered and needs_first_bytes(attachment))
            ]
        case ContentPolicy.FULL:
            return list(content.attachments)


def filter_content(content: MessageContent, policy: ContentPolicy) -> StoredContent:
    """Keep bodies, headers and snippet only under `full`: the snippet is part of the body."""
    whole = policy is ContentPolicy.FULL
    sender = content.sender
    return StoredContent(
        internet_message_id=_clean(content.internet_message_id),
        from_name=_clean(sender.name) if sender else None,
        from_address=_clean(sender.address.lower()[:MAX_ADDRESS]) if sender else None,
        to=_encode_people(content.to),
        cc=_encode_people(content.cc),
        bcc=_encode_people(content.bcc),
        subject=_clean(content.subject),
        snippet=_clean(content.snippet) if whole else None,
        sent_at=content.sent_at,
        size=content.size,
        is_newsletter=content.is_newsletter,
        is_automated=content.is_automated,
        has_attachments=content.has_attachments,
        raw_sha256=sha256(content.raw).digest() if content.raw is not None else None,
        headers=_encode_json(content.headers) if whole and content.headers else None,
        body_plain=_clean(content.body_plain) if whole else None,
        body_html=_clean(content.body_html) if whole else None,
        people=_clean(" ".join(_list_names(content))) or "",
        words=_clean(searchable_text(content.body_plain, content.body_html) or content.snippet)
        if whole
        else None,
    )


def add_file_names(content: StoredContent, attachments: Sequence[RemoteAttachment]) -> StoredContent:
    """Add the names of stored attachments, which are searched with the message."""
    names = " ".join(attachment.file_name for attachment in attachments if attachment.file_name)
    return replace(content, files=_clean(names) or "") if names else content


def _list_names(content: MessageContent) -> list[str]:
    people = [*([content.sender] if content.sender else []), *content.to, *content.cc, *content.bcc]
    return [word for person in people for word in (person.name, person.address) if word]


def _encode_people(people: Sequence[Person]) -> str:
    if not people:
        return "[]"
    return _encode_json([{"name": person.name, "address": person.address.lower()} for person in people])


def _encode_json(value: object) -> str:
    try:
        text = _ENCODE(value).decode()
    except UnicodeEncodeError:  # lone surrogates are rare, so they are removed only on demand
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
    """Remove what PostgreSQL rejects: NUL characters and lone surrogates."""
    if text is None:
        return None
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode(errors="replace").decode()
    return text
