"""Formatting of amounts, percentages and dates per language. Amounts are Decimal, never float."""

from datetime import date
from decimal import ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")
_SPACE = "\N{NO-BREAK SPACE}"
# thousands separator, decimal separator
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


def round_to_cents(value: Decimal) -> Decimal:
    return value.quantize(_CENT, ROUND_HALF_UP)


def format_number(value: Decimal, language: str) -> str:
    """Format a number with all its digits and the language's separators."""
    thousands, point = _MARKS[language]
    return f"{value:,f}".replace(",", "\0").replace(".", point).replace("\0", thousands)


def format_price(value: Decimal, currency: str, language: str, *, symbol: bool = False) -> str:
    """Format an amount with its currency code or symbol, on the side the language puts it."""
    digits = format_number(value, language)
    sign = _SYMBOLS[currency] if symbol else currency
    if language != "en":
        return f"{digits}{_SPACE}{sign}"
    return f"{sign}{digits}" if symbol and len(sign) == 1 else f"{sign}{_SPACE}{digits}"


def format_percent(rate: Decimal, language: str) -> str:
    digits = format_number(rate.normalize() if rate % 1 else rate.quantize(Decimal(1)), language)
    return f"{digits}%" if language == "en" else f"{digits}{_SPACE}%"


def format_short_date(day: date, language: str) -> str:
    match language:
        case "de":
            return f"{day:%d.%m.%Y}"
        case "fr":
            return f"{day:%d/%m/%Y}"
        case _:
            return f"{day.day} {_MONTHS['en'][day.month - 1][:3]} {day.year}"


def format_long_date(day: date, language: str) -> str:
    month = _MONTHS[language][day.month - 1]
    if language == "de":
        return f"{day.day}. {month} {day.year}"
    return f"{'1er' if language == 'fr' and day.day == 1 else day.day} {month} {day.year}"
