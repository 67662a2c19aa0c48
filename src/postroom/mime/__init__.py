"""Mail as bytes into typed values; no I/O, and nothing raises, whatever the bytes.

parse(raw: bytes) -> ParsedMessage
    .head: Head (headers, sender, to, cc, bcc, reply_to, subject, internet_message_id, in_reply_to,
        references, sent_at, is_newsletter, is_automated)
    .body_plain .body_html .calendar .snippet .text .has_attachments .defects
    .attachments, each with part, kind, file_name, media_type, size, is_inline, content_id, content, pieces(),
        enclosed (the ParsedMessage inside an item)
    .every_attachment(): also those of enclosed messages
headers_only(pairs: Iterable[tuple[str, str]]) -> Head   the same head, where a provider gives header pairs
tnef.files(data: bytes) -> tuple[File, ...]              what lies inside a winmail.dat
"""

from postroom.mime.addresses import MailAddress
from postroom.mime.headers import MessageHead, parse_header_pairs
from postroom.mime.message import MimeAttachment, ParsedMessage, parse

__all__ = ["MailAddress", "MimeAttachment", "MessageHead", "ParsedMessage", "parse_header_pairs", "parse"]
