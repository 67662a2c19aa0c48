"""Text of messages: decoding any charset to text that PostgreSQL can store, HTML to text, snippets.

Pure functions. HTML for display is sanitized in `documents.files.html_sanitizer`.
"""

import encodings
import re
from codecs import lookup
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from html import unescape
from pkgutil import iter_modules

# Senders use these names for supersets of the standards with that name.
_MEANT = {
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "cp950",
}
_ALIASES = {
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "x-mac-roman": "mac-roman",
    "unicode-1-1-utf-7": "utf-7",
    "ansi": "cp1252",
    "default": "utf-8",
}
# Looking up any other name searches the disk, and Python remembers each name forever.
_CODECS = {module.name for module in iter_modules(encodings.__path__)} | {
    name.replace(".", "_") for name in aliases
}
# Python's own encodings: they do not occur in mail, and some are expensive.
_NOT_CHARSETS = {"unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined"}
_UNKEPT = re.compile("[\x00\ud800-\udfff]")
_HIDDEN = re.compile(r"<(style|script|head|title|template)\b[^<>]*>|<!--", re.IGNORECASE)
_BREAK = re.compile(r"<(?:br|/p|/div|/tr|/li|/h[1-6]|/table|hr)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z!?][^<>]*>")
_MANY_DIGITS = re.compile(r"(?<=&#)[0-9]{20,}")
_INVISIBLE = re.compile("[\u00ad\u034f\u200b-\u200f\u2060\ufeff]")

SNIPPET_CHARACTERS = 200
SEARCHED_CHARACTERS = 100_000  # of a body that go into the search index


@lru_cache(maxsize=256)
def find_codec(charset: str) -> str | None:
    """Python's name of a charset; None if it does not exist."""
    name = charset.strip().strip("\"'").lower()
    name = _ALIASES.get(name, name)
    if normalize_encoding(name).replace(".", "_") not in _CODECS:
        return None
    try:
        found = lookup(name)
    except (LookupError, ValueError):
        return None
    if found.name in _NOT_CHARSETS or not found._is_text_encoding:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] # there is no public way
        return None
    return _MEANT.get(found.name, found.name)


def decode_text(data: bytes, charset: str) -> tuple[str, bool]:
    """The storable text, and whether it could be decoded with the declared charset."""
    name = find_codec(charset) if charset else "utf-8"
    if name is not None:
        try:
            text = data.decode(name)
            # The only charset in mail that can encode lone surrogates.
            return strip_unstorable(text) if name == "utf-7" else text.replace("\x00", "\ufffd"), True
        except (UnicodeError, ValueError):
            pass
    return strip_unstorable(
        _decode_guessing(data, name)
    ), name == "cp1252"  # a few bytes exist in Latin-1 and not in cp1252


def _decode_guessing(data: bytes, claimed: str | None) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    if claimed is not None:
        text = data.decode(claimed, "replace")
        broken = text.count("\ufffd")
        # Mostly valid text with a broken byte; otherwise the declared charset is wrong.
        if claimed != "cp1252" and broken * 2 < sum(1 for character in text if character > "\x7f"):
            return text
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def strip_unstorable(text: str) -> str:
    """The text without characters that PostgreSQL rejects."""
    if text.isascii():
        return text.replace("\x00", "\ufffd")
    return _UNKEPT.sub("\ufffd", text)


def searchable_text(plain: str | None, html: str | None) -> str:
    """The text for the search index: the plain body, or else the text of the HTML."""
    if plain and not plain.isspace():
        return plain[:SEARCHED_CHARACTERS]
    return html_to_text(html or "", most=SEARCHED_CHARACTERS)


def html_to_text(html: str, *, most: int) -> str:
    """The visible text of HTML, at most `most` characters, one line per block."""
    shown = _BREAK.sub("\n", _strip_hidden(html, most * 20 + 50_000))
    lines = (" ".join(line.split()) for line in _unescape(_TAG.sub(" ", shown)).split("\n"))
    return strip_unstorable("\n".join(line for line in lines if line))[:most]


def _unescape(text: str) -> str:
    """Decode character references. Python refuses to convert numbers with thousands of digits."""
    return unescape(_MANY_DIGITS.sub("9999999", text))  # not a character either


def _strip_hidden(html: str, most: int) -> str:
    """HTML without styles, scripts and comments; an unclosed one hides the rest."""
    shown: list[str] = []
    at = length = 0
    while length < most and (found := _HIDDEN.search(html, at)):
        shown.append(html[at : found.start()])
        length += found.start() - at
        end = f"</{found[1].lower()}" if found[1] else "-->"
        closed = _find_closing_tag(html, end, found.end())
        if closed == -1:
            return "".join(shown)
        at = closed + len(end)
        if found[1]:
            at = html.find(">", at) + 1 or len(html)
    shown.append(html[at : at + max(0, most - length)])
    return "".join(shown)


def _find_closing_tag(html: str, end: str, start: int) -> int:
    found = re.compile(re.escape(end), re.IGNORECASE).search(html, start)
    return found.start() if found else -1


def make_snippet(text: str) -> str:
    """The beginning of the text on one line."""
    beginning = text[: SNIPPET_CHARACTERS * 10]
    if not beginning.isascii():
        beginning = _INVISIBLE.sub("", beginning)
    return " ".join(beginning.split())[:SNIPPET_CHARACTERS]
