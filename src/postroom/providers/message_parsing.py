"""Mail that was read from bytes or headers, as the domain knows it. Pure; knows no provider."""

from collections.abc import Iterable
from dataclasses import replace

from postroom import mime
from postroom.model import Change, Enclosure, Letter, Person, Presence, State


def of_mail(raw: bytes) -> Letter:
    """A whole message."""
    parsed = mime.parse(raw)
    return replace(
        of_head(parsed.head),
        size=len(raw),
        has_attachments=parsed.has_attachments,
        snippet=parsed.snippet,
        body_plain=parsed.body_plain,
        body_html=parsed.body_html,
        enclosures=tuple(_enclosure(each) for each in parsed.attachments),
        raw=raw,
    )


def of_headers(pairs: Iterable[tuple[str, str]]) -> Letter:
    """What the headers alone tell."""
    return of_head(mime.headers_only(pairs))


def of_head(head: mime.Head) -> Letter:
    return Letter(
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


def _person(told: mime.Address) -> Person:
    return Person(told.name, told.address)


def _enclosure(told: mime.Attachment) -> Enclosure:
    return Enclosure(
        part=told.part,
        kind=told.kind,
        media_type=told.media_type,
        size=told.size,
        file_name=told.file_name,
        is_inline=told.is_inline,
        content_id=told.content_id,
        content=told.content,
    )


def combined(changes: Iterable[Change]) -> tuple[Change, ...]:
    """One change for each message, in the order in which they were last told of."""
    found: dict[str, Change] = {}
    for change in changes:
        before = found.pop(change.key, None)
        found[change.key] = change if before is None else _after(before, change)
    return tuple(found.values())


def _after(before: Change, change: Change) -> Change:
    """Both as one. Who is back after having left is told of anew; who is gone has no state any more."""
    if change.presence is not Presence.HERE or before.presence is not Presence.HERE:
        return change
    return Change(
        change.key,
        Presence.HERE,
        max(before.version, change.version),
        _merged(before.state, change.state),
        (before.labels_added - change.labels_removed) | change.labels_added,
        (before.labels_removed - change.labels_added) | change.labels_removed,
    )


def _merged(before: State, after: State) -> State:
    told = {name: value for name in State.__slots__ if (value := getattr(after, name)) is not None}
    return replace(before, **told)
