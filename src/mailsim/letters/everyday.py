"""What most mail consists of: plain, HTML, replies, what the owner sent. Written in microseconds."""

from mailsim.letters.blocks import Blocks, blocks, chosen, escaped, quoted_printable, transfer
from mailsim.letters.dice import Dice, mixed
from mailsim.letters.headers import date_text, opening
from mailsim.letters.order import Order
from mailsim.letters.words import TONGUES

_TEXT = 'Content-Type: text/plain; charset="{charset}"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n'
_HTML = 'Content-Type: text/html; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n'
_TOP = quoted_printable(
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8">\n'
    "<style>body{font-family:Calibri,Arial,sans-serif;font-size:11pt}</style></head>\n<body>\n"
)
_BOTTOM = b"</body></html>\r\n"


def boundary(seed: int, place: int = 0) -> str:
    """A line that occurs nowhere else in the letter, made from its seed."""
    return f"=_{mixed(seed ^ (place + 1) * 0x51ED):016x}_{place}"


def text_head(shelf: Blocks) -> str:
    charset = "us-ascii" if shelf.encoding == "7bit" else "utf-8"
    return _TEXT.format(charset=charset, encoding=shelf.encoding)


def frame(order: Order) -> tuple[str, str]:
    """The salutation above a letter's paragraphs and the signature below them."""
    dice = Dice(order.seed, 9)
    tongue = TONGUES[order.language]
    name, address = order.sender
    reference = f"{dice.roll():016x}"
    above = f"{dice.pick(tongue.greetings)}\n\n"
    signature = f"{name or address}\n\n-- \n{address}\nRef. {reference[:4]}-{reference[4:8]}\n"
    below = f"{dice.pick(tongue.closings)}\n{signature}"
    return above, below


def wanted(order: Order) -> int:
    return order.size if order.size is not None else 800 + mixed(order.seed ^ 10) % 5200


def text_body(order: Order, size: int) -> bytes:
    shelf = blocks(order.language)
    above, below = frame(order)
    start, end = _framed(above, shelf), _framed(below, shelf)
    return b"".join((start, *chosen(order.seed, shelf.plain, size - len(start) - len(end)), end))


def _framed(text: str, shelf: Blocks) -> bytes:
    # A sender's name may be anything, so a 7bit letter shows it without what ASCII lacks.
    if shelf.encoding == "7bit" and not text.isascii():
        text = text.encode("ascii", "replace").decode()
    return transfer(text, shelf.encoding)


def html_body(order: Order, size: int) -> bytes:
    above, below = frame(order)
    start = _TOP + quoted_printable(f"<p>{escaped(above).strip()}</p>\n")
    end = quoted_printable("<p>" + escaped(below).strip().replace("\n", "<br>\n") + "</p>\n") + _BOTTOM
    return b"".join(
        (start, *chosen(order.seed, blocks(order.language).html, size - len(start) - len(end)), end)
    )


def plain(order: Order) -> bytes:
    shelf = blocks(order.language)
    return (opening(order) + text_head(shelf)).encode("ascii") + text_body(order, wanted(order))


def alternative(order: Order, text: bytes, html_bytes: bytes) -> tuple[str, bytes]:
    """The Content-Type line and the body of a multipart/alternative."""
    mark = boundary(order.seed)
    parts = (
        f"--{mark}\r\n{text_head(blocks(order.language))}".encode("ascii"), text,
        f"\r\n--{mark}\r\n{_HTML}".encode("ascii"), html_bytes,
        f"\r\n--{mark}--\r\n".encode("ascii"),
    )  # fmt: skip
    return f'Content-Type: multipart/alternative; boundary="{mark}"\r\n', b"".join(parts)


def html(order: Order) -> bytes:
    size = wanted(order)
    kind, body = alternative(order, text_body(order, size * 2 // 5), html_body(order, size - size * 2 // 5))
    return f"{opening(order)}{kind}\r\n".encode("ascii") + body


def reply(order: Order) -> bytes:
    shelf = blocks(order.language)
    body = _answer(order, wanted(order))
    return (opening(order) + text_head(shelf)).encode("ascii") + body


def _answer(order: Order, size: int) -> bytes:
    """A new text above, the first paragraphs of the answered letter below."""
    shelf = blocks(order.language)
    quoted_seed = order.quoted_seed if order.quoted_seed is not None else mixed(order.seed)
    answered = (order.to or order.cc or order.bcc)[0]
    line = TONGUES[order.language].wrote.format(date=date_text(order.date), name=answered[0] or answered[1])
    quoted = chosen(quoted_seed, shelf.quoted, size // 2)
    return b"".join((text_body(order, size // 2), _framed(f"\n{line}\n>\n", shelf), *quoted))


def sent(order: Order) -> bytes:
    """The owner's own copy: no trail of servers, and Bcc still shows."""
    shelf = blocks(order.language)
    size = wanted(order)
    body = _answer(order, size) if order.in_reply_to else text_body(order, size)
    return (opening(order, travelled=False) + text_head(shelf)).encode("ascii") + body
