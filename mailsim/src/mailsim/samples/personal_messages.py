"""Writers of messages between people: plain text, HTML, replies, sent messages. Also their body parts.

Other writers use these parts. These messages are most of the mail, so writing them is fast.
"""

from datetime import timedelta

from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, build_message, make_boundary, make_multipart
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits
from mailsim.samples.text_blocks import (
    TextBlocks,
    choose_blocks,
    encode_quoted_printable,
    encode_transfer,
    escape_html,
    get_text_blocks,
)

HTML_HEAD = 'Content-Type: text/html; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n'
_TOP = encode_quoted_printable(
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8">\n'
    "<style>body{font-family:Calibri,Arial,sans-serif;font-size:11pt}</style></head>\n<body>\n"
)
_BOTTOM = b"</body></html>\r\n"
_QUOTE = encode_quoted_printable(
    '<blockquote style="margin:0 0 0 8px;border-left:1px solid #ccc;padding-left:8px">\n'
)


def write_plain(spec: MessageSpec) -> bytes:
    return build_message(spec, make_text_part(spec, choose_body_size(spec)))


def write_html(spec: MessageSpec) -> bytes:
    size = choose_body_size(spec)
    return build_message(
        spec,
        make_alternative(spec, make_text_part(spec, size * 2 // 5), make_html_part(spec, size * 3 // 5)),
    )


def write_reply(spec: MessageSpec) -> bytes:
    return build_message(spec, _make_reply_part(spec))


def write_sent(spec: MessageSpec) -> bytes:
    """Write the owner's copy of a sent message: without trace headers, with Bcc."""
    part = _make_reply_part(spec) if spec.in_reply_to else make_text_part(spec, choose_body_size(spec))
    return build_message(spec, part, travelled=False)


def choose_body_size(spec: MessageSpec) -> int:
    return spec.size if spec.size is not None else 800 + mix_bits(spec.seed ^ 10) % 5200


def make_alternative(spec: MessageSpec, text: EncodedPart, html: EncodedPart) -> EncodedPart:
    return make_multipart("alternative", (text, html), make_boundary(spec.seed))


def make_text_part(
    spec: MessageSpec, size: int, below: str = "", more: tuple[bytes, ...] = ()
) -> EncodedPart:
    """Make a text of about `size` bytes, followed by the line `below` and the encoded blocks `more`."""
    blocks = get_text_blocks(spec.language)
    above, signature = _make_greeting_and_signature(spec)
    start, end = _encode_frame(above, blocks), _encode_frame(signature + below, blocks)
    body = b"".join(
        (start, *choose_blocks(spec.seed, blocks.plain, size - len(start) - len(end)), end, *more)
    )
    charset = "us-ascii" if blocks.encoding == "7bit" else "utf-8"
    return EncodedPart(
        f'Content-Type: text/plain; charset="{charset}"\r\nContent-Transfer-Encoding: {blocks.encoding}\r\n',
        body,
    )


def make_html_part(spec: MessageSpec, size: int, below: bytes = b"") -> EncodedPart:
    above, signature = _make_greeting_and_signature(spec)
    start = _TOP + encode_quoted_printable(f"<p>{escape_html(above).strip()}</p>\n")
    end = (
        encode_quoted_printable("<p>" + escape_html(signature).strip().replace("\n", "<br>\n") + "</p>\n")
        + below
        + _BOTTOM
    )
    blocks = get_text_blocks(spec.language).html
    return EncodedPart(
        HTML_HEAD, b"".join((start, *choose_blocks(spec.seed, blocks, size - len(start) - len(end)), end))
    )


def _make_greeting_and_signature(spec: MessageSpec) -> tuple[str, str]:
    """Make the greeting above the paragraphs and the signature below them."""
    rng = SeededRandom(spec.seed, 9)
    phrases = PHRASES[spec.language]
    name, address = spec.sender
    reference = f"{rng.next_bits():016x}"
    signature = f"{name or address}\n\n-- \n{address}\nRef. {reference[:4]}-{reference[4:8]}\n"
    return f"{rng.pick(phrases.greetings)}\n\n", f"{rng.pick(phrases.closings)}\n{signature}"


def _encode_frame(text: str, blocks: TextBlocks) -> bytes:
    # A sender's name may contain any character; a 7bit body replaces those outside ASCII.
    if blocks.encoding == "7bit" and not text.isascii():
        text = text.encode("ascii", "replace").decode()
    return encode_transfer(text, blocks.encoding)


def _make_reply_part(spec: MessageSpec) -> EncodedPart:
    """Make a new text above a quote of the answered message's first paragraphs."""
    size = choose_body_size(spec)
    blocks = get_text_blocks(spec.language)
    seed = spec.quoted_seed if spec.quoted_seed is not None else mix_bits(spec.seed)
    name, address = (spec.to or spec.cc or spec.bcc)[0]
    earlier = spec.date - timedelta(minutes=7 + seed % 2000)
    line = PHRASES[spec.language].wrote.format(date=f"{earlier:%Y-%m-%d %H:%M}", name=name or address)
    if spec.variant != "html":
        return make_text_part(
            spec, size // 2, f"\n{line}\n>\n", tuple(choose_blocks(seed, blocks.quoted, size // 2))
        )
    text = make_text_part(
        spec, size // 5, f"\n{line}\n>\n", tuple(choose_blocks(seed, blocks.quoted, size // 5))
    )
    line = f"<p>{escape_html(line)}</p>\n"
    quoted = choose_blocks(seed, blocks.html, size * 3 // 10)
    quote = b"".join((encode_quoted_printable(line), _QUOTE, *quoted, b"</blockquote>\r\n"))
    return make_alternative(spec, text, make_html_part(spec, size * 3 // 5, quote))
