"""A regular expression that finds an email address however it is written. Pure; for PostgreSQL and Python.

It matches in any case, with the domain in Unicode or as punycode, and with any characters percent-encoded,
quoted-printable, escaped in JSON or HTML, or the whole in Base64.
"""

from base64 import b64encode
from itertools import product
from typing import Final

# Where a quoted-printable line may end, also escaped in JSON.
_SOFT_BREAK: Final = r"(?:=(?:\r?\n|(?:\\+r)?\\+n))?"
_BASE64_BREAK: Final = r"(?:\r?\n|(?:\\+r)?\\+n)?"
# Before the address: no character of a longer one, unless that is part of an escape.
_START: Final = (
    r"(?:(?<![0-9A-Za-z._%+-])|(?<=[%=][0-9A-Fa-f][0-9A-Fa-f])|(?<=%25[0-9A-Fa-f][0-9A-Fa-f])"
    r"|(?<=\\u[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f])|(?<=\\[nrt]))"
)
_END: Final = r"(?![0-9A-Za-z-]|\.[0-9A-Za-z])"


def list_spellings(address: str) -> list[str]:
    """Return the address in lower case, with its domain as given, in Unicode and as punycode."""
    local, at, domain = address.strip().lower().rpartition("@")
    domains = [domain]
    for convert in (_to_punycode, _to_unicode):
        try:
            domains.append(convert(domain))
        except UnicodeError:
            continue  # not a valid domain: only as given
    return [f"{local}{at}{each}" for each in dict.fromkeys(domains)]


def _to_punycode(domain: str) -> str:
    return domain.encode("idna").decode()


def _to_unicode(domain: str) -> str:
    return domain.encode("idna").decode("idna")


def build_pattern(address: str) -> str:
    """Match the address and no longer one that contains it."""
    plain = "|".join(_SOFT_BREAK.join(map(_match_character, each)) for each in list_spellings(address))
    return f"{_START}(?:{plain}){_END}"


def build_base64_pattern(address: str) -> str:
    """Match Base64 that contains the address. What surrounds it is encoded too, so it may be a longer one."""
    return "|".join(_match_base64(each, skip) for each in list_spellings(address) for skip in range(3))


def _match_character(character: str) -> str:
    """Match a character in either case, as it is or escaped."""
    cases = sorted({character.lower(), character.upper()})
    cases = [case for case in cases if len(case) == 1]
    encoded = "|".join(
        "".join(f"(?:%(?:25)*|=){_match_hex(f'{byte:02x}')}" for byte in case.encode()) for case in cases
    )
    numbers = "|".join(_match_hex(f"{ord(case):04x}") for case in cases)
    entities = "|".join(f"{ord(case)}|[xX]0*{_match_hex(f'{ord(case):x}')}" for case in cases)
    literal = "|".join(_escape(case) for case in cases)
    return rf"(?:{literal}|{encoded}|\\+u(?:{numbers})|&#(?:{entities});)"


def _escape(character: str) -> str:
    return character if character.isalnum() else f"\\{character}"


def _match_hex(digits: str) -> str:
    return "".join(digit if digit.isdigit() else f"[{digit}{digit.upper()}]" for digit in digits)


def _match_base64(text: str, skip: int) -> str:
    """Match the Base64 of the text from its byte `skip` on: three bytes at a time, in any case."""
    lower, upper = text.lower().encode(), text.upper().encode()
    if len(lower) != len(upper):
        upper = lower
    groups: list[str] = []
    for start in range(skip, len(lower) - 2, 3):
        cases = [{lower[at : at + 1], upper[at : at + 1]} for at in range(start, start + 3)]
        written = {b64encode(b"".join(part)).decode() for part in product(*cases)}
        groups.append(f"(?:{'|'.join(sorted(each.replace('+', '[+]') for each in written))})")
    return _BASE64_BREAK.join(groups)
