"""Decodes encoded words (RFC 2047) and header parameters (RFC 2231), correct or not.

Bodies are decoded in `transfer_encoding`.
"""

import re
from binascii import Error, a2b_base64, a2b_qp
from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from urllib.parse import unquote_to_bytes

from postroom.mime.text import decode_text, strip_unstorable

_WORD = re.compile(r"=\?([^?\s]+)\?([bBqQ])\?([^?]*)\?=")
_RUN = re.compile(rf"{_WORD.pattern}(?:\s*{_WORD.pattern})*")
_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;]*))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SECTION = re.compile(r"([^*]+)(?:\*([0-9]{1,4}))?(\*?)")
_MAX_PARAMETER_CHARACTERS = 2000  # of a header that are searched for parameters and cached


def decode_words(value: str) -> str:
    """The value with its encoded words decoded; malformed ones stay unchanged."""
    return strip_unstorable(_RUN.sub(_decode_run, value)) if "=?" in value else value


def _decode_run(found: re.Match[str]) -> str:
    """Adjacent words of one charset are decoded together: senders split in the middle of a character."""
    words = [
        (charset.partition("*")[0], _decode_word(encoding, word))  # RFC 2231 adds a language
        for charset, encoding, word in _WORD.findall(found[0])
    ]
    return "".join(
        decode_text(b"".join(data for _, data in together), charset)[0]
        for charset, together in groupby(words, key=itemgetter(0))
    )


def _decode_word(encoding: str, word: str) -> bytes:
    raw = word.encode("utf-8", "surrogatepass")
    if encoding in "qQ":
        return a2b_qp(raw, header=True)
    try:
        return a2b_base64(raw + b"=" * (-len(raw) % 4))
    except Error:
        return raw


def parse_parameters(value: str) -> tuple[str, Mapping[str, str]]:
    """`text/plain; charset=utf-8` as ("text/plain", {"charset": "utf-8"}); names in lower case."""
    return _parse_parameters(value[:_MAX_PARAMETER_CHARACTERS])


@lru_cache(maxsize=512)
def _parse_parameters(value: str) -> tuple[str, Mapping[str, str]]:
    head, semicolon, rest = value.partition(";")
    plain: dict[str, str] = {}
    sections: dict[str, list[tuple[int, bool, str]]] = {}
    for name, quoted, bare in _PARAMETER.findall(semicolon + rest):
        given = _ESCAPED.sub(r"\1", quoted) if quoted else bare.strip()
        match = _SECTION.fullmatch(name.lower())
        if match and "*" in name:
            sections.setdefault(match[1], []).append((int(match[2] or 0), bool(match[3]), given))
        else:
            plain.setdefault(name.lower(), decode_words(given))
    for name, found in sections.items():
        plain[name] = _join_sections(sorted(found, key=lambda section: section[0]))
    return head.strip().lower(), plain


def _join_sections(sections: list[tuple[int, bool, str]]) -> str:
    charset, data = "utf-8", b""
    for place, (_, encoded, given) in enumerate(sections):
        text = given
        if encoded and place == 0 and text.count("'") >= 2:
            charset, _, text = text.split("'", 2)
        data += unquote_to_bytes(text) if encoded else text.encode("utf-8", "surrogatepass")
    return decode_text(data, charset)[0]
