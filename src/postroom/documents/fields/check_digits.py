"""Numbers that prove themselves: IBAN, ISIN, VAT id. A wrong digit lowers a confidence, it drops no value."""

from typing import Final

# How long an IBAN is, by country (the countries of the registry that mail from Europe is likely to name).
IBAN_LENGTHS: Final = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "BA": 20, "BE": 16, "BG": 22, "CH": 21, "CY": 28, "CZ": 24,
    "DE": 22, "DK": 18, "EE": 20, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23,
    "GL": 18, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IS": 26, "IT": 27, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MT": 31, "NL": 18, "NO": 15, "PL": 28,
    "PT": 25, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TR": 26, "UA": 29,
    "XK": 20,
}  # fmt: skip


def _digits(text: str) -> str:
    """Letters as two digits: A is 10, Z is 35."""
    return "".join(str(int(sign, 36)) for sign in text)


def iban_is_right(iban: str) -> bool:
    """ISO 13616: the length of its country, and the remainder by 97."""
    if not iban.isascii() or not iban.isalnum() or IBAN_LENGTHS.get(iban[:2]) != len(iban):
        return False
    return int(_digits(iban[4:] + iban[:4])) % 97 == 1


def isin_is_right(isin: str) -> bool:
    """ISO 6166: every second digit from the right doubled, the sum of all digits divisible by ten."""
    if len(isin) != 12 or not isin.isascii() or not isin.isalnum():
        return False
    digits = _digits(isin)
    doubled = [int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits))]
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def _german_vat(digits: str) -> bool:
    product = 10
    for digit in digits[:8]:
        total = (int(digit) + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(digits[8])


def _austrian_vat(rest: str) -> bool:
    digits = [int(sign) for sign in rest[1:]]
    total = sum(digits[0:7:2]) + sum(2 * digit // 10 + 2 * digit % 10 for digit in digits[1:6:2])
    return (96 - total) % 10 == digits[7]


def vat_id_is_right(vat_id: str) -> bool | None:
    """Whether the check digit agrees; None where this country's rule is not known here."""
    country, rest = vat_id[:2], vat_id[2:]
    if country == "DE":
        return len(rest) == 9 and rest.isdecimal() and _german_vat(rest)
    if country == "AT":
        return len(rest) == 9 and rest[0] == "U" and rest[1:].isdecimal() and _austrian_vat(rest)
    if country == "FR" and len(rest) == 11 and rest.isdecimal():
        return int(rest[:2]) == (12 + 3 * (int(rest[2:]) % 97)) % 97
    if country == "BE":
        return len(rest) == 10 and rest.isdecimal() and 97 - int(rest[:8]) % 97 == int(rest[8:])
    return None
