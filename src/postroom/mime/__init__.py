"""Parses mail into typed values. Pure, and never raises, whatever the bytes.

parse(raw: bytes) -> ParsedMessage
    .head: MessageHead (headers, sender, to, cc, bcc, reply_to, subject, internet_message_id, in_reply_to,
        references, sent_at, is_newsletter, is_automated)
    .body_plain .body_html .calendar .snippet .text .has_attachments .defects
    .attachments, each with part, kind, file_name, media_type, size, is_inline, content_id, content, pieces(),
        attached_message (the ParsedMessage inside an item)
    .walk_attachments(): also those of attached messages
parse_header_pairs(pairs: Iterable[tuple[str, str]]) -> MessageHead   the head from header pairs of a provider
tnef.extract_files(data: bytes) -> tuple[TnefFile, ...]   the files inside a winmail.dat
"""

from postroom.mime.addresses import MailAddress
from postroom.mime.headers import MessageHead, parse_header_pairs
from postroom.mime.message import MimeAttachment, ParsedMessage, parse

__all__ = ["MailAddress", "MessageHead", "MimeAttachment", "ParsedMessage", "parse", "parse_header_pairs"]
