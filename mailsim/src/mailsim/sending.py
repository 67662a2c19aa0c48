"""What both providers do with a message that is sent: complete its headers, hide Bcc, deliver it.

Only mailboxes of the simulation receive it. The Gmail and Graph packages store the sender's copy.
"""

import re
from collections.abc import Collection
from datetime import datetime
from email.utils import format_datetime, formataddr

from mailsim import mime, samples
from mailsim.address_lists import read_addresses
from mailsim.mailbox import MailboxAccount
from mailsim.registry import Registry

_HEAD_END = re.compile(rb"(?:\A|\r?\n)\r?\n")
_FROM = re.compile(rb"^from[ \t]*:.*(?:\r?\n[ \t].*)*(?:\r?\n|\Z)", re.IGNORECASE | re.MULTILINE)
_BCC = re.compile(rb"^bcc[ \t]*:.*(?:\r?\n[ \t].*)*(?:\r?\n|\Z)", re.IGNORECASE | re.MULTILINE)


def list_recipients(raw: bytes) -> list[str]:
    """List the distinct addresses of To, Cc and Bcc in lower case."""
    headers = [value for name, value in mime.parse_headers(raw) if name.lower() in {"to", "cc", "bcc"}]
    return list(dict.fromkeys(address.lower() for _, address in read_addresses(headers) if "@" in address))


def complete_headers(raw: bytes, sender: MailboxAccount, message_id: str, now: datetime) -> bytes:
    """Add From, Date and Message-ID if the client left them out."""
    present = {name.lower() for name, _ in mime.parse_headers(raw)}
    wanted = {
        "From": formataddr((sender.name, sender.address)),
        "Date": format_datetime(now),
        "Message-ID": message_id,
    }
    missing = [f"{name}: {value}" for name, value in wanted.items() if name.lower() not in present]
    newline = b"\n" if b"\r\n" not in raw and b"\n" in raw else b"\r\n"
    return b"".join(line.encode() + newline for line in missing) + raw


def remove_foreign_sender(raw: bytes, own: Collection[str]) -> bytes:
    """Remove From, with its display name, unless it is exactly one of the sender's own addresses.

    `own` are the addresses in lower case.
    """
    values = [value for name, value in mime.parse_headers(raw) if name.lower() == "from"]
    people = read_addresses(values)
    if not values or (len(values) == len(people) == 1 and people[0][1].lower() in own):
        return raw
    return _remove_header(raw, _FROM)


def remove_bcc(raw: bytes) -> bytes:
    """Remove the Bcc header, which only the sender's copy keeps."""
    return _remove_header(raw, _BCC)


def _remove_header(raw: bytes, header: re.Pattern[bytes]) -> bytes:
    end = _HEAD_END.search(raw)
    head = len(raw) if end is None else end.end()
    return header.sub(b"", raw[:head]) + raw[head:]


def deliver(registry: Registry, raw: bytes, *, except_address: str = "") -> None:
    """Deliver a message to its recipients, without the one that has the sender's copy."""
    received = remove_bcc(raw)
    for address in list_recipients(raw):
        mailbox = registry.find_mailbox(address) if address != except_address.lower() else None
        if mailbox is not None:
            mailbox.receive(samples.add_delivered_to(received, mailbox.delivered_to))
