"""Parses mail into typed values. Pure, and never raises, whatever the bytes.

parse(raw: bytes) -> ParsedMessage
    .head: Head (headers, sender, to, cc, bcc, reply_to, subject, internet_message_id, in_reply_to,
        references, sent_at, is_newsletter, is_automated)
    .body_plain .body_html .calendar .snippet .text .has_attachments .defects
    .attachments, each with part, kind, file_name, media_type, size, is_inline, content_id, content, pieces(),
        attached_message (the ParsedMessage inside an item)
    .walk_attachments(): also those of attached messages
headers_only(pairs: Iterable[tuple[str, str]]) -> Head   the same head from header pairs of a provider
tnef.files(data: bytes) -> tuple[File, ...]              the files inside a winmail.dat
"""

from postroom.mime.addresses import MailAddress
from postroom.mime.headers import MessageHead, parse_header_pairs
from postroom.mime.message import MimeAttachment, ParsedMessage, parse

__all__ = ["MailAddress", "MessageHead", "MimeAttachment", "ParsedMessage", "parse", "parse_header_pairs"]
