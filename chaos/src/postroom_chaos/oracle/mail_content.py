"""Whether what is stored inside a message is what the provider has and the content policy allows."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from postroom_chaos.oracle.evidence import ObservedMailbox, Violation
from postroom_chaos.oracle.sources import RemoteAttachment, RemoteMessage, Row

# Under the policy `documents` these are never stored, whatever they contain (docs/pipelines.md).
_NEVER_DOCUMENTS = frozenset({".sig", ".p7s", ".p7m", ".smime", ".asc", ".ics", ".vcf"})
_LARGEST_DOCUMENT = 25_000_000
# Text in another charset than its header names. Readers differ there: many take Windows-1252 for ISO 8859-1.
_WRONG_CHARSET = re.compile("[\x80-\x9f\ufffd]")


def compare_content(
    mailbox: ObservedMailbox, message: RemoteMessage, row: Row, attachments: list[Row]
) -> Iterator[Violation]:
    subject = f"mailbox {mailbox.address} ({mailbox.id}), message {message.id}, row {row['id']}"
    if mailbox.policy != "full":
        for name in ("snippet", "body_plain", "body_html"):
            if row[name] is not None:
                text = f"the policy {mailbox.policy} stores no {name}, but there is one"
                yield Violation("mail.policy", subject, text)
        if row["has_headers"]:
            yield Violation("mail.policy", subject, f"the policy {mailbox.policy} stores no headers")
    elif row["content_id"] is None or not row["has_headers"]:
        yield Violation("mail.content", subject, "the policy full stores headers and bodies; there are none")
    elif mailbox.provider == "gmail":  # Graph converts plain text to HTML
        yield from _compare_text(subject, message, row)
    yield from _compare_bytes(mailbox, subject, message, row)
    yield from _compare_attachments(mailbox, subject, message, attachments)


def _compare_bytes(
    mailbox: ObservedMailbox, subject: str, message: RemoteMessage, row: Row
) -> Iterator[Violation]:
    """Gmail returns messages as they came, so their digest is known; Graph composes them on request."""
    if mailbox.provider != "gmail" or (row["raw_sha256"] is None and mailbox.policy != "full"):
        return
    if row["raw_sha256"] != message.sha256:
        text = f"the provider's {len(message.raw)} bytes have {message.sha256}, the store {row['raw_sha256']}"
        yield Violation("mail.bytes", subject, text)


def _compare_text(subject: str, message: RemoteMessage, row: Row) -> Iterator[Violation]:
    """Compare the words of a plain message. Others are left to tests of the parser."""
    parsed = message.parsed
    if parsed.is_multipart() or parsed.get_content_type() != "text/plain" or parsed.defects:
        return
    try:
        content = str(parsed.get_content())
    except (LookupError, UnicodeError, ValueError):  # an unknown or wrong charset
        return
    if parsed.get_content_disposition() == "attachment" or _WRONG_CHARSET.search(content):
        return
    expected = content.replace("\0", "\ufffd").split()  # PostgreSQL stores no zero
    stored = (row["body_plain"] or "").split()
    if expected != stored:
        text = f"the provider's text has {len(expected)} words, the stored one {len(stored)}, or they differ"
        yield Violation("mail.text", subject, text)


def _compare_attachments(
    mailbox: ObservedMailbox, subject: str, message: RemoteMessage, rows: list[Row]
) -> Iterator[Violation]:
    own = [each for each in message.attachments if not each.nested]
    if mailbox.policy == "metadata":
        if rows:
            yield Violation(
                "mail.policy", subject, f"the policy metadata stores no attachments; it has {len(rows)}"
            )
        return
    expected, stored = _identify(mailbox, own), _identify_stored(mailbox, rows)
    if mailbox.policy == "full":
        if expected != stored:
            yield Violation("mail.attachments", subject, _difference(expected, stored))
        return
    required = _identify(
        mailbox, [each for each in own if message.is_pdf(each) and each.size <= _LARGEST_DOCUMENT]
    )
    if required - stored or stored - expected:
        yield Violation(
            "mail.attachments", subject, _difference(required, stored & required | stored - expected)
        )
    for row in rows:
        if PurePosixPath((row["file_name"] or "").lower()).suffix in _NEVER_DOCUMENTS:
            text = f"the policy documents does not store part {row['part']}"
            yield Violation("mail.policy", subject, text)


def _identify(
    mailbox: ObservedMailbox, attachments: list[RemoteAttachment]
) -> Counter[tuple[str, str | None]]:
    """Gmail's attachments have places in the message; Graph shows files by content, and messages apart."""
    if mailbox.provider == "gmail":
        return Counter((each.part, each.sha256) for each in attachments)
    return Counter(("file", each.sha256) for each in attachments if each.content_type != "message/rfc822")


def _identify_stored(mailbox: ObservedMailbox, rows: list[Row]) -> Counter[tuple[str, str | None]]:
    if mailbox.provider == "gmail":
        return Counter((row["part"], row["sha256"]) for row in rows)
    return Counter(("file", row["sha256"]) for row in rows if row["kind"] == "file")


def _difference(expected: Counter[tuple[str, str | None]], stored: Counter[tuple[str, str | None]]) -> str:
    missing, extra = (
        sorted((expected - stored).elements(), key=str),
        sorted((stored - expected).elements(), key=str),
    )
    return f"attachments (part, SHA-256): missing {missing}, too many {extra}"
