"""Writer and parser of links to cloud files as attachments, which Graph calls referenceAttachment.

MIME has no equivalent, so the message has one X-Mailsim-Reference field per link.
"""

import re
from dataclasses import dataclass

from mailsim.samples import personal_messages
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import build_message
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import encode_quoted_printable, escape_html

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


def write_reference(spec: MessageSpec) -> bytes:
    rng = SeededRandom(spec.seed, 21)
    name, media_type = rng.pick(_FILES)
    link = CloudLink(
        name, media_type, rng.between(900, 1400), f"https://files.example.net/s/{rng.next_bits():016x}"
    )
    link_html = encode_quoted_printable(f'<p><a href="{link.url}">{escape_html(link.name)}</a></p>\n')
    size = personal_messages.choose_body_size(spec)
    body = personal_messages.make_alternative(
        spec,
        personal_messages.make_text_part(spec, size // 2),
        personal_messages.make_html_part(spec, size // 2, link_html),
    )
    facts = f'name="{link.name}"; type="{link.media}"; size={link.size};\r\n url="{link.url}"'
    return build_message(spec, body, f"{REFERENCE_HEADER}: {facts}\r\n")


def parse_cloud_links(message: bytes) -> tuple[CloudLink, ...]:
    """Parse the cloud links in a message's header."""
    head = message.partition(b"\r\n\r\n")[0]
    return tuple(
        CloudLink(name.decode(), media_type.decode(), int(size), url.decode())
        for name, media_type, size, url in _LINE.findall(head)
    )
