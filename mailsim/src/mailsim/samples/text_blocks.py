"""Ready-made paragraphs per language, wrapped and encoded for transfer: a letter is a join of bytes."""

import binascii
import functools
import textwrap
from dataclasses import dataclass

from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom

_PARAGRAPHS = 128


@dataclass(frozen=True, slots=True)
class TextBlocks:
    """`plain` and `quoted` fit the transfer encoding `encoding`; `html` is quoted-printable."""

    encoding: str
    plain: tuple[bytes, ...]
    quoted: tuple[bytes, ...]
    html: tuple[bytes, ...]
    texts: tuple[str, ...]


def quoted_printable(text: str, charset: str = "utf-8") -> bytes:
    return binascii.b2a_qp(text.encode(charset), istext=True).replace(b"\n", b"\r\n")


def transfer(text: str, encoding: str) -> bytes:
    """Text with LF line ends for one of the two encodings of everyday mail."""
    return (
        quoted_printable(text)
        if encoding == "quoted-printable"
        else text.replace("\n", "\r\n").encode("ascii")
    )


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@functools.cache
def paragraphs(language: str) -> tuple[str, ...]:
    """Each paragraph is a few sentences in an order of its own."""
    sentences = PHRASES[language].sentences
    made: list[str] = []
    for number in range(_PARAGRAPHS):
        dice = SeededRandom(number, 7)
        chosen = [dice.pick(sentences) for _ in range(dice.between(3, 7))]
        made.append(" ".join(dict.fromkeys(chosen)))
    return tuple(made)


@functools.cache
def blocks(language: str) -> TextBlocks:
    texts = paragraphs(language)
    encoding = "7bit" if all(text.isascii() for text in texts) else "quoted-printable"
    wrapped = [textwrap.fill(text, 72) for text in texts]
    return TextBlocks(
        encoding=encoding,
        plain=tuple(transfer(f"{text}\n\n", encoding) for text in wrapped),
        quoted=tuple(transfer(textwrap.indent(text, "> ") + "\n>\n", encoding) for text in wrapped),
        html=tuple(quoted_printable(f'<p style="margin:0 0 12px 0">{escaped(text)}</p>\n') for text in texts),
        texts=texts,
    )


def chosen(seed: int, shelf: tuple[bytes, ...], size: int) -> list[bytes]:
    """Blocks until they reach `size` bytes. The same seed chooses the same places on every shelf."""
    dice = SeededRandom(seed, 8)
    found: list[bytes] = []
    while size > 0:
        for place in _nine(dice.roll()):
            found.append(shelf[place])
            size -= len(shelf[place])
            if size <= 0:
                break
    return found


def _nine(roll: int) -> tuple[int, ...]:
    """Nine choices of seven bits from one roll; halved first, since small numbers are quicker."""
    low, high = roll & 0xFFFFFFF, roll >> 28 & 0xFFFFFFF
    return (
        low & 127,
        low >> 7 & 127,
        low >> 14 & 127,
        low >> 21,
        high & 127,
        high >> 7 & 127,
        high >> 14 & 127,
        high >> 21,
        roll >> 56 & 127,
    )
