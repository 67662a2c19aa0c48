"""Finds currencies in text by code and sign, and resolves signs that several countries share.

Also the tables of known codes and signs. Amounts are parsed in `value_parsing`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

CURRENCIES: Final = """
    EUR CHF USD GBP GBX JPY AUD CAD SEK NOK DKK PLN CZK HUF RON BGN TRY ZAR HKD SGD CNY INR NZD ILS MXN BRL
    KRW THB RUB MYR TWD
    """.split()  # noqa: SIM905  # a literal of many strings is no better to read
WITHOUT_CENTS: Final = frozenset({"JPY", "KRW"})  # have no minor unit
# Signs of several currencies, the most likely first.
SHARED_SIGNS: Final = {
    "$": ("USD", "AUD", "CAD", "NZD", "HKD", "SGD", "MXN", "TWD"),
    "¥": ("JPY", "CNY"),
}
_STATES: Final = (
    "AK|AL|AR|AZ|CA|CO|CT|DC|FL|GA|HI|IA|ID|IL|IN|KS|KY|LA|MA|MD|ME|MI|MN|MO|MS|MT|NC|ND|NE|NH|NJ|NM|NV|NY|OH|OK"
    "|OR|PA|RI|SC|SD|TN|TX|UT|VA|VT|WA|WI|WV|WY"
)
# A US town with state and ZIP code, US taxes and regulators, and US time zones.
AMERICAN: Final = re.compile(
    rf"(?:, ?(?:{_STATES}|DE)|[a-z] (?:{_STATES})) \d{{5}}(?:-\d{{4}})?(?!\d)|\b(?i:sales tax)\b"
    r"|\bEIN:? ?\d\d-\d{7}\b|\bFINRA\b|\bSIPC\b"
    r"|\d:\d\d ?(?:[AaPp]\.?[Mm]\.? ?)?(?:E[SD]T|C[SD]T|M[SD]T|P[SD]T|ET)\b"
)
_COUNTRY_EVIDENCE: Final = {
    "USD": re.compile(rf"{AMERICAN.pattern}|\bU\.?S\.?A\b|\b(?i:united states|us dollars?)\b|\bU\.S\. "),
    "AUD": re.compile(r"\b(?i:australian?)\b|\bABN\b|\bPty\b"),
    "CAD": re.compile(r"\b(?i:canada|canadian)\b|\bHST\b|\b[A-CEGHJ-NPR-TVXY]\d[A-Z] \d[A-Z]\d\b"),
    "NZD": re.compile(r"\b(?i:new zealand)\b"),
    "HKD": re.compile(r"\b(?i:hong ?kong)\b"),
    "SGD": re.compile(r"\b(?i:singapore)\b"),
    "MXN": re.compile(r"\b(?i:m[eé]xico)\b"),
    "TWD": re.compile(r"\b(?i:taiwan)\b"),
    "JPY": re.compile(r"\b(?i:japan|tokyo|osaka)\b|[円税]"),
    "CNY": re.compile(r"\b(?i:china|beijing|shanghai|shenzhen)\b|[元币]"),
}
_PREFIXES: Final = {
    **dict.fromkeys(("us", "u.s."), "USD"),
    **dict.fromkeys(("a", "au"), "AUD"),
    **dict.fromkeys(("c", "ca", "can"), "CAD"),
    **dict.fromkeys(("s", "sg"), "SGD"),
    "nz": "NZD",
    "hk": "HKD",
    "mx": "MXN",
    "nt": "TWD",
    "r": "BRL",
    "cn": "CNY",
    "jp": "JPY",
}
_SIGNS: Final = {"€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "euro": "EUR", "rmb": "CNY", "rm": "MYR"}
_CURRENCY: Final = re.compile(
    rf"""(?<![^\W\d_])(?P<code>{"|".join(CURRENCIES)})(?:\ ?\$(?=\ ?\d)|(?![^\W\d_]))
    |(?<![\w.])(?P<prefix>US\ ?|U\.S\.\ ?|AU?|CAN?|C|NZ|HK|SG?|MX|NT|R|CN|JP)(?=[$¥])[$¥]
    |\$(?P<suffix>US|CA|AU|NZ|HK)(?!\w)
    |(?P<sign>[€£₹₩]|(?<!\w)(?:[Ee][Uu][Rr][Oo]|S[Ff]r\.?)(?!\w)|(?<!\w)(?:RMB|RM)(?=\ ?\d))
    |(?P<shared>[$¥])""",
    re.VERBOSE,
)


def find_currencies(text: str, meant: Mapping[str, str]) -> Iterator[tuple[str, bool, int, int]]:
    """Yield every currency, whether it is certain, and its span.

    `meant` resolves the shared signs.
    """
    for match in _CURRENCY.finditer(text):
        shared = match["shared"]
        code = meant.get(shared, SHARED_SIGNS[shared][0]) if shared else _currency_code(match)
        yield code, not shared or shared in meant, *match.span()


def _currency_code(each: re.Match[str]) -> str:
    if each["code"]:
        return each["code"]
    if prefix := each["prefix"] or each["suffix"]:
        return _PREFIXES[prefix.strip().lower()]
    return _SIGNS.get(each["sign"].lower(), "CHF")


def resolve_shared_signs(text: str) -> dict[str, str]:
    """Resolve shared signs: by the only such currency named by code, else by the only country."""
    named = {_currency_code(each) for each in _CURRENCY.finditer(text) if not each["shared"]}
    decided: dict[str, str] = {}
    for sign, codes in SHARED_SIGNS.items():
        if sign in text:
            full = [code for code in codes if code in named]
            homes = full or [code for code in codes if _COUNTRY_EVIDENCE[code].search(text)]
            if len(homes) == 1:
                decided[sign] = homes[0]
    return decided


def list_sharing_sign(code: str) -> tuple[str, ...]:
    """Return the currencies with the same sign."""
    return next((codes for codes in SHARED_SIGNS.values() if code in codes), (code,))
