"""Conversion of Graph's messages and attachments to our model; the properties to select. Pure."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from postroom.mime.text import strip_unstorable
from postroom.model import (
    FetchedMessage,
    Importance,
    MessageChange,
    MessageContent,
    ObservedState,
    Person,
    Presence,
    RemoteAttachment,
)
from postroom.providers import message_parsing
from postroom.providers.graph import wire

# Properties that may change. No body or preview: delta feeds and lookups are the same for all policies.
STATE: Final = (
    "id,conversationId,parentFolderId,changeKey,lastModifiedDateTime,receivedDateTime,"
    "isRead,isDraft,importance,categories,flag"
)
METADATA: Final = (
    f"{STATE},internetMessageId,subject,sender,from,toRecipients,ccRecipients,bccRecipients,sentDateTime,"
    "hasAttachments,internetMessageHeaders"
)
CONTENT: Final = f"{METADATA},body,bodyPreview"
ATTACHMENT: Final = "id,name,contentType,size,isInline"
# Exchange's size of a message (PidTagMessageSize), which Graph has no property of its own for. Extended
# properties need more than Mail.ReadBasic, so the size of a mailbox with the policy `metadata` stays unknown.
SIZE: Final = "singleValueExtendedProperties($filter=id eq 'Long 0x0E08')"
_SIZE_NUMBER: Final = 0x0E08

_KINDS: Final[dict[str, Literal["file", "item", "reference"]]] = {
    "#microsoft.graph.itemattachment": "item",
    "#microsoft.graph.referenceattachment": "reference",
}


def to_version(message: wire.GraphMessage) -> str:
    """Increases with every change: by time, and within a second by the change key, whose bytes count up.

    Empty if the feed contains only the changed properties and not the time.
    """
    if message.last_modified_date_time is None or message.change_key is None:
        return ""
    try:
        counted = b64decode(message.change_key).hex()
    except NotBase64:
        counted = message.change_key
    return f"{message.last_modified_date_time}|{counted}"


def to_state(message: wire.GraphMessage) -> ObservedState:
    flagged = message.flag and message.flag.flag_status
    return ObservedState(
        thread=message.conversation_id,
        folder=message.parent_folder_id,
        categories=message.categories,
        is_read=message.is_read,
        is_flagged=flagged == "flagged" if flagged else None,
        is_draft=message.is_draft,
        importance=_importance(message.importance),
        received_at=_moment(message.received_date_time),
    )


def _importance(word: str | None) -> Importance | None:
    try:
        return None if word is None else Importance(word.lower())
    except ValueError:
        return None


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def to_change(message: wire.GraphMessage) -> MessageChange:
    """A message that a delta feed reports as removed may also have been moved."""
    if message.removed is not None:
        return MessageChange(message.id, Presence.LEFT)
    return MessageChange(message.id, Presence.PRESENT, to_version(message), to_state(message))


def to_fetched(message: wire.GraphMessage, attachments: Sequence[RemoteAttachment] = ()) -> FetchedMessage:
    return FetchedMessage(
        message.id, to_version(message), to_state(message), _to_content(message, attachments)
    )


def _to_content(message: wire.GraphMessage, attachments: Sequence[RemoteAttachment]) -> MessageContent:
    """Addresses, subject and date as Exchange parsed them; only the headers show whether it is automated."""
    headers = ((header.name, header.value or "") for header in message.internet_message_headers)
    body = message.body
    html = body is not None and body.content_type.lower() == "html"
    text = None if body is None or body.content is None else strip_unstorable(body.content)
    return replace(
        message_parsing.parse_headers(headers),
        internet_message_id=message.internet_message_id,
        sender=_person(message.from_) or _person(message.sender),
        to=_people(message.to_recipients),
        cc=_people(message.cc_recipients),
        bcc=_people(message.bcc_recipients),
        subject=None if message.subject is None else strip_unstorable(message.subject),
        sent_at=_moment(message.sent_date_time),
        size=_size(message),
        has_attachments=bool(message.has_attachments),
        snippet=None if message.body_preview is None else strip_unstorable(message.body_preview),
        body_plain=None if html else text,
        body_html=text if html else None,
        attachments=tuple(attachments),
    )


def _size(message: wire.GraphMessage) -> int | None:
    """Exchange may write the number of the property without leading zeros and in either case."""
    for extended in message.single_value_extended_properties:
        _, _, number = extended.id.rpartition(" ")
        try:
            if int(number, 16) == _SIZE_NUMBER:
                return int(extended.value or "")
        except ValueError:
            continue
    return None


def _people(recipients: Sequence[wire.GraphRecipient]) -> tuple[Person, ...]:
    return tuple(person for recipient in recipients if (person := _person(recipient)) is not None)


def _person(recipient: wire.GraphRecipient | None) -> Person | None:
    address = recipient and recipient.email_address
    if not address or not (address.name or address.address):
        return None
    return Person(strip_unstorable(address.name or ""), strip_unstorable(address.address or ""))


def to_attachment(attachment: wire.GraphAttachment) -> RemoteAttachment:
    """Attachment ids survive moves, so they serve as parts. The size is slightly larger than the content."""
    content = attachment.content_bytes
    kind = _KINDS.get(attachment.kind.lower(), "file")
    default_type = "message/rfc822" if kind == "item" else "application/octet-stream"
    return RemoteAttachment(
        part=attachment.id,
        kind=kind,
        media_type=(attachment.content_type or default_type).lower(),
        size=attachment.size if content is None else len(content),
        file_name=strip_unstorable(attachment.name) if attachment.name else None,
        is_inline=attachment.is_inline,
        content_id=attachment.content_id,
        provider_attachment_id=attachment.id,
        content=content,
    )
