"""Paragraphs per language, wrapped and transfer-encoded in advance, so that a body is a join of bytes.

Also the encoders of text: quoted-printable, 7bit and HTML escaping.
"""

import binascii
import functools
import textwrap
from dataclasses import dataclass

from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom

_PARAGRAPHS = 128


@dataclass(frozen=True, slots=True)
class TextBlocks:
    """The blocks of one language.

    `plain` and `quoted` use `encoding`; `html` is quoted-printable.
    """

    encoding: str
    plain: tuple[bytes, ...]
    quoted: tuple[bytes, ...]
    html: tuple[bytes, ...]
    texts: tuple[str, ...]


def encode_quoted_printable(text: str, charset: str = "utf-8") -> bytes:
    return binascii.b2a_qp(text.encode(charset), istext=True).replace(b"\n", b"\r\n")


def encode_transfer(text: str, encoding: str) -> bytes:
    """Encode text with LF line endings as 7bit or quoted-printable."""
    return (
        encode_quoted_printable(text)
        if encoding == "quoted-printable"
        else text.replace("\n", "\r\n").encode("ascii")
    )


def escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@functools.cache
def list_paragraphs(language: str) -> tuple[str, ...]:
    """List the paragraphs of a language, each a few sentences in random order."""
    sentences = PHRASES[language].sentences
    paragraphs: list[str] = []
    for number in range(_PARAGRAPHS):
        rng = SeededRandom(number, 7)
        picked = [rng.pick(sentences) for _ in range(rng.between(3, 7))]
        paragraphs.append(" ".join(dict.fromkeys(picked)))
    return tuple(paragraphs)


@functools.cache
def get_text_blocks(language: str) -> TextBlocks:
    texts = list_paragraphs(language)
    encoding = "7bit" if all(text.isascii() for text in texts) else "quoted-printable"
    wrapped = [textwrap.fill(text, 72) for text in texts]
    return TextBlocks(
        encoding=encoding,
        plain=tuple(encode_transfer(f"{text}\n\n", encoding) for text in wrapped),
        quoted=tuple(encode_transfer(textwrap.indent(text, "> ") + "\n>\n", encoding) for text in wrapped),
        html=tuple(
            encode_quoted_printable(f'<p style="margin:0 0 12px 0">{escape_html(text)}</p>\n')
            for text in texts
        ),
        texts=texts,
    )


def choose_blocks(seed: int, blocks: tuple[bytes, ...], size: int) -> list[bytes]:
    """Choose blocks until they reach `size` bytes.

    A seed chooses the same indexes in every tuple.
    """
    rng = SeededRandom(seed, 8)
    chosen_blocks: list[bytes] = []
    while size > 0:
        for index in _split_bits(rng.next_bits()):
            chosen_blocks.append(blocks[index])
            size -= len(blocks[index])
            if size <= 0:
                break
    return chosen_blocks


def _split_bits(roll: int) -> tuple[int, ...]:
    """Split 64 bits into nine 7-bit indexes.

    Halved first, because small integers are faster.
    """
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
