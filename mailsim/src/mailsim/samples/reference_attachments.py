"""Attachments that are links to a cloud drive: what Graph calls referenceAttachment.

MIME has no word for them: the letter has one X-Mailsim-Reference line per link, which `cloud_links` reads.
"""

import re
from dataclasses import dataclass

from mailsim.samples import personal_messages
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import letter
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import escaped, quoted_printable

REFERENCE_HEADER = "X-Mailsim-Reference"
_LINE = re.compile(
    rb'^X-Mailsim-Reference: name="([^"]*)"; type="([^"]*)"; size=(\d+);\r?\n url="([^"]*)"\r?$', re.MULTILINE
)
_FILES = (
    ("Deck.pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("Budget.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("Contract.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
)


@dataclass(frozen=True, slots=True)
class CloudLink:
    name: str
    media: str
    size: int
    url: str


def reference(order: MessageSpec) -> bytes:
    dice = SeededRandom(order.seed, 21)
    name, media = dice.pick(_FILES)
    link = CloudLink(name, media, dice.between(900, 1400), f"https://files.example.net/s/{dice.roll():016x}")
    shown = quoted_printable(f'<p><a href="{link.url}">{escaped(link.name)}</a></p>\n')
    size = personal_messages.wanted(order)
    body = personal_messages.alternative(
        order,
        personal_messages.text_part(order, size // 2),
        personal_messages.html_part(order, size // 2, shown),
    )
    facts = f'name="{link.name}"; type="{link.media}"; size={link.size};\r\n url="{link.url}"'
    return letter(order, body, f"{REFERENCE_HEADER}: {facts}\r\n")


def cloud_links(message: bytes) -> tuple[CloudLink, ...]:
    """The cloud links that a message announces in its header."""
    head = message.partition(b"\r\n\r\n")[0]
    return tuple(
        CloudLink(name.decode(), media.decode(), int(size), url.decode())
        for name, media, size, url in _LINE.findall(head)
    )
