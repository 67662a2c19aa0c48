"""What most mail consists of: plain, HTML, replies, what the owner sent. Written in microseconds."""

from datetime import timedelta

from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, boundary, letter, multipart
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits
from mailsim.samples.text_blocks import TextBlocks, blocks, chosen, escaped, quoted_printable, transfer

HTML_HEAD = 'Content-Type: text/html; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n'
_TOP = quoted_printable(
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8">\n'
    "<style>body{font-family:Calibri,Arial,sans-serif;font-size:11pt}</style></head>\n<body>\n"
)
_BOTTOM = b"</body></html>\r\n"
_QUOTE = quoted_printable(
    '<blockquote style="margin:0 0 0 8px;border-left:1px solid #ccc;padding-left:8px">\n'
)


def plain(order: MessageSpec) -> bytes:
    return letter(order, text_part(order, wanted(order)))


def html(order: MessageSpec) -> bytes:
    size = wanted(order)
    return letter(order, alternative(order, text_part(order, size * 2 // 5), html_part(order, size * 3 // 5)))


def reply(order: MessageSpec) -> bytes:
    return letter(order, _answer(order))


def sent(order: MessageSpec) -> bytes:
    """The owner's own copy: no trail of servers, and Bcc still shows."""
    part = _answer(order) if order.in_reply_to else text_part(order, wanted(order))
    return letter(order, part, travelled=False)


def wanted(order: MessageSpec) -> int:
    return order.size if order.size is not None else 800 + mix_bits(order.seed ^ 10) % 5200


def alternative(order: MessageSpec, text: EncodedPart, html: EncodedPart) -> EncodedPart:
    return multipart("alternative", (text, html), boundary(order.seed))


def text_part(order: MessageSpec, size: int, below: str = "", more: tuple[bytes, ...] = ()) -> EncodedPart:
    """A letter of about `size` bytes, followed by the line `below` and the ready blocks `more`."""
    shelf = blocks(order.language)
    above, signature = _frame(order)
    start, end = _framed(above, shelf), _framed(signature + below, shelf)
    body = b"".join((start, *chosen(order.seed, shelf.plain, size - len(start) - len(end)), end, *more))
    charset = "us-ascii" if shelf.encoding == "7bit" else "utf-8"
    return EncodedPart(
        f'Content-Type: text/plain; charset="{charset}"\r\nContent-Transfer-Encoding: {shelf.encoding}\r\n',
        body,
    )


def html_part(order: MessageSpec, size: int, below: bytes = b"") -> EncodedPart:
    above, signature = _frame(order)
    start = _TOP + quoted_printable(f"<p>{escaped(above).strip()}</p>\n")
    end = (
        quoted_printable("<p>" + escaped(signature).strip().replace("\n", "<br>\n") + "</p>\n")
        + below
        + _BOTTOM
    )
    shelf = blocks(order.language).html
    return EncodedPart(
        HTML_HEAD, b"".join((start, *chosen(order.seed, shelf, size - len(start) - len(end)), end))
    )


def _frame(order: MessageSpec) -> tuple[str, str]:
    """The salutation above a letter's paragraphs and the signature below them."""
    dice = SeededRandom(order.seed, 9)
    tongue = PHRASES[order.language]
    name, address = order.sender
    reference = f"{dice.roll():016x}"
    signature = f"{name or address}\n\n-- \n{address}\nRef. {reference[:4]}-{reference[4:8]}\n"
    return f"{dice.pick(tongue.greetings)}\n\n", f"{dice.pick(tongue.closings)}\n{signature}"


def _framed(text: str, shelf: TextBlocks) -> bytes:
    # A sender's name may be anything, so a 7bit letter shows it without what ASCII lacks.
    if shelf.encoding == "7bit" and not text.isascii():
        text = text.encode("ascii", "replace").decode()
    return transfer(text, shelf.encoding)


def _answer(order: MessageSpec) -> EncodedPart:
    """A new text above, the first paragraphs of the answered letter below."""
    size = wanted(order)
    shelf = blocks(order.language)
    seed = order.quoted_seed if order.quoted_seed is not None else mix_bits(order.seed)
    name, address = (order.to or order.cc or order.bcc)[0]
    earlier = order.date - timedelta(minutes=7 + seed % 2000)
    line = PHRASES[order.language].wrote.format(date=f"{earlier:%Y-%m-%d %H:%M}", name=name or address)
    if order.variant != "html":
        return text_part(order, size // 2, f"\n{line}\n>\n", tuple(chosen(seed, shelf.quoted, size // 2)))
    text = text_part(order, size // 5, f"\n{line}\n>\n", tuple(chosen(seed, shelf.quoted, size // 5)))
    line = f"<p>{escaped(line)}</p>\n"
    quoted = chosen(seed, shelf.html, size * 3 // 10)
    quote = b"".join((quoted_printable(line), _QUOTE, *quoted, b"</blockquote>\r\n"))
    return alternative(order, text, html_part(order, size * 3 // 5, quote))
