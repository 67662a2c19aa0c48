"""Convert parsed MIME to our model, and combine changes of the same message. Pure.

Shared by both providers; each has its own `message_parsing` for its JSON. MIME itself is parsed in `mime`.
"""

from collections.abc import Iterable
from dataclasses import replace

from postroom import mime
from postroom.model import MessageChange, MessageContent, ObservedState, Person, Presence, RemoteAttachment


def parse_message(raw: bytes) -> MessageContent:
    """The content of a whole message."""
    parsed = mime.parse(raw)
    return replace(
        _from_head(parsed.head),
        size=len(raw),
        has_attachments=parsed.has_attachments,
        snippet=parsed.snippet,
        body_plain=parsed.body_plain,
        body_html=parsed.body_html,
        attachments=tuple(_to_attachment(attachment) for attachment in parsed.attachments),
        raw=raw,
    )


def parse_headers(pairs: Iterable[tuple[str, str]]) -> MessageContent:
    """The content of a message of which only the headers are known."""
    return _from_head(mime.parse_header_pairs(pairs))


def _from_head(head: mime.MessageHead) -> MessageContent:
    return MessageContent(
        internet_message_id=head.internet_message_id,
        sender=_to_person(head.sender) if head.sender else None,
        to=tuple(_to_person(address) for address in head.to),
        cc=tuple(_to_person(address) for address in head.cc),
        bcc=tuple(_to_person(address) for address in head.bcc),
        subject=head.subject,
        sent_at=head.sent_at,
        size=None,
        has_attachments=False,
        is_newsletter=head.is_newsletter,
        is_automated=head.is_automated,
        headers=head.headers,
    )


def _to_person(address: mime.MailAddress) -> Person:
    return Person(address.name, address.address)


def _to_attachment(attachment: mime.MimeAttachment) -> RemoteAttachment:
    return RemoteAttachment(
        part=attachment.part,
        kind=attachment.kind,
        media_type=attachment.media_type,
        size=attachment.size,
        file_name=attachment.file_name,
        is_inline=attachment.is_inline,
        content_id=attachment.content_id,
        content=attachment.content,
    )


def combine_changes(changes: Iterable[MessageChange]) -> tuple[MessageChange, ...]:
    """One change per message, in the order of their last occurrence."""
    combined: dict[str, MessageChange] = {}
    for change in changes:
        before = combined.pop(change.key, None)
        combined[change.key] = change if before is None else _combine_pair(before, change)
    return tuple(combined.values())


def _combine_pair(before: MessageChange, change: MessageChange) -> MessageChange:
    """Two changes of a message as one. A message that is gone, or is back again, keeps nothing of before."""
    if change.presence is not Presence.PRESENT or before.presence is not Presence.PRESENT:
        return change
    return MessageChange(
        change.key,
        Presence.PRESENT,
        max(before.version, change.version),
        _merge_states(before.state, change.state),
        (before.labels_added - change.labels_removed) | change.labels_added,
        (before.labels_removed - change.labels_added) | change.labels_removed,
    )


def _merge_states(before: ObservedState, after: ObservedState) -> ObservedState:
    known = {name: value for name in ObservedState.__slots__ if (value := getattr(after, name)) is not None}
    return replace(before, **known)
