"""Mail that was read from bytes or headers, as the domain knows it. Pure; knows no provider."""

from collections.abc import Iterable
from dataclasses import replace

from postroom import mime
from postroom.model import MessageChange, MessageContent, ObservedState, Person, Presence, RemoteAttachment


def parse_message(raw: bytes) -> MessageContent:
    """A whole message."""
    parsed = mime.parse(raw)
    return replace(
        _from_head(parsed.head),
        size=len(raw),
        has_attachments=parsed.has_attachments,
        snippet=parsed.snippet,
        body_plain=parsed.body_plain,
        body_html=parsed.body_html,
        attachments=tuple(_enclosure(each) for each in parsed.attachments),
        raw=raw,
    )


def parse_headers(pairs: Iterable[tuple[str, str]]) -> MessageContent:
    """What the headers alone tell."""
    return _from_head(mime.parse_header_pairs(pairs))


def _from_head(head: mime.MessageHead) -> MessageContent:
    return MessageContent(
        internet_message_id=head.internet_message_id,
        sender=_person(head.sender) if head.sender else None,
        to=tuple(_person(each) for each in head.to),
        cc=tuple(_person(each) for each in head.cc),
        bcc=tuple(_person(each) for each in head.bcc),
        subject=head.subject,
        sent_at=head.sent_at,
        size=None,
        has_attachments=False,
        is_newsletter=head.is_newsletter,
        is_automated=head.is_automated,
        headers=head.headers,
    )


def _person(told: mime.MailAddress) -> Person:
    return Person(told.name, told.address)


def _enclosure(told: mime.MimeAttachment) -> RemoteAttachment:
    return RemoteAttachment(
        part=told.part,
        kind=told.kind,
        media_type=told.media_type,
        size=told.size,
        file_name=told.file_name,
        is_inline=told.is_inline,
        content_id=told.content_id,
        content=told.content,
    )


def combine_changes(changes: Iterable[MessageChange]) -> tuple[MessageChange, ...]:
    """One change for each message, in the order in which they were last told of."""
    found: dict[str, MessageChange] = {}
    for change in changes:
        before = found.pop(change.key, None)
        found[change.key] = change if before is None else _combine_pair(before, change)
    return tuple(found.values())


def _combine_pair(before: MessageChange, change: MessageChange) -> MessageChange:
    """Both as one. Who is back after having left is told of anew; who is gone has no state any more."""
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
    told = {name: value for name in ObservedState.__slots__ if (value := getattr(after, name)) is not None}
    return replace(before, **told)
