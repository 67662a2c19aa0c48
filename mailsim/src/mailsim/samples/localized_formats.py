"""Amounts and dates as people of each language write them. Amounts are Decimal; nothing is ever a float."""

from datetime import date
from decimal import ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")
_SPACE = "\N{NO-BREAK SPACE}"
# thousands, decimal point
_MARKS = {"de": (".", ","), "en": (",", "."), "fr": (_SPACE, ",")}
_MONTHS = {
    "de": ("Januar", "Februar", "März", "April", "Mai", "Juni",
           "Juli", "August", "September", "Oktober", "November", "Dezember"),
    "en": ("January", "February", "March", "April", "May", "June",
           "July", "August", "September", "October", "November", "December"),
    "fr": ("janvier", "février", "mars", "avril", "mai", "juin",
           "juillet", "août", "septembre", "octobre", "novembre", "décembre"),
}  # fmt: skip
_SYMBOLS = {"EUR": "€", "GBP": "£", "USD": "$", "CHF": "CHF"}


def cents(value: Decimal) -> Decimal:
    return value.quantize(_CENT, ROUND_HALF_UP)


def number(value: Decimal, language: str) -> str:
    """All its digits, with the language's marks."""
    thousands, point = _MARKS[language]
    return f"{value:,f}".replace(",", "\0").replace(".", point).replace("\0", thousands)


def price(value: Decimal, currency: str, language: str, *, symbol: bool = False) -> str:
    """An amount with its currency, as code or as symbol, on the side where the language puts it."""
    digits = number(value, language)
    sign = _SYMBOLS[currency] if symbol else currency
    if language != "en":
        return f"{digits}{_SPACE}{sign}"
    return f"{sign}{digits}" if symbol and len(sign) == 1 else f"{sign}{_SPACE}{digits}"


def percent(rate: Decimal, language: str) -> str:
    digits = number(rate.normalize() if rate % 1 else rate.quantize(Decimal(1)), language)
    return f"{digits}%" if language == "en" else f"{digits}{_SPACE}%"


def short_date(day: date, language: str) -> str:
    match language:
        case "de":
            return f"{day:%d.%m.%Y}"
        case "fr":
            return f"{day:%d/%m/%Y}"
        case _:
            return f"{day.day} {_MONTHS['en'][day.month - 1][:3]} {day.year}"


def long_date(day: date, language: str) -> str:
    month = _MONTHS[language][day.month - 1]
    if language == "de":
        return f"{day.day}. {month} {day.year}"
    return f"{'1er' if language == 'fr' and day.day == 1 else day.day} {month} {day.year}"
