"""Numbers, amounts, dates and durations as pages show them, in the formats of the browser's language.

Only for text that people read. Inputs, URLs, exports and the API have one fixed format.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final

from postroom.documents import record_matching

_MAX_LANGUAGES: Final = 20  # of one Accept-Language header


@dataclass(frozen=True, slots=True)
class Formats:
    """The separators of numbers and the patterns of dates. The defaults are unambiguous in every language."""

    group: str = ","
    decimal: str = "."
    day_pattern: str = "{0.year:04}-{0.month:02}-{0.day:02}"
    month_pattern: str = "{0.year:04}-{0.month:02}"

    def count(self, number: float, is_estimate: bool = False) -> str:  # noqa: FBT001, FBT002  a filter of templates
        """Format a whole number with separators. An estimate is rounded to two significant digits."""
        number = round(number)
        if is_estimate and number >= 100:
            unit = 10 ** (len(str(number)) - 2)
            number = round(number / unit) * unit
        return self._localize(f"{number:,}")

    def amount(self, value: object) -> str:
        """Format an amount with at least two decimals. Other values stay unchanged."""
        number = record_matching.to_decimal(value)
        if number is None:
            return str(value)
        exponent = number.as_tuple().exponent
        decimals = max(2, -exponent if isinstance(exponent, int) else 2)
        return self._localize(f"{number:,.{decimals}f}")

    def quantity(self, value: object) -> str:
        """Format a number without trailing zeros. Other values stay unchanged."""
        number = record_matching.to_decimal(value)
        return str(value) if number is None else self._localize(f"{number.normalize():,f}")

    def size(self, count: float) -> str:
        for unit in ("B", "kB", "MB", "GB"):
            if count < 1000:
                digits = f"{count:.0f}" if unit == "B" or count >= 10 else f"{count:.1f}"
                return f"{self._localize(digits)} {unit}"
            count /= 1000
        return f"{self._localize(f'{count:,.1f}')} TB"

    def day(self, value: object) -> str:
        """Format a date, or a text that holds one (`2026-02-04`). Other values stay unchanged."""
        if not isinstance(value, date):
            try:
                value = date.fromisoformat(str(value))
            except ValueError:
                return str(value)
        return self.day_pattern.format(value)

    def month(self, first: date) -> str:
        return self.month_pattern.format(first)

    def moment(self, value: datetime) -> str:
        """Format a time exactly, in UTC."""
        value = value.astimezone(UTC)
        return f"{self.day(value)} {value:%H:%M:%S} UTC"

    def field_value(self, value: object, shape: str) -> str:
        """Format the value of a document field, or a cell of one, by the shape that its kind declares."""
        if shape in ("amount", "price"):
            return self.amount(value)
        if shape in ("quantity", "number"):
            return self.quantity(value)
        if shape == "choice":  # as in lists: "Buy"
            return str(value)[:1].upper() + str(value)[1:]
        return self.day(value) if shape == "date" else str(value)

    def duration(self, seconds: float) -> str:
        """Format an age or a remaining time in the largest unit that fits."""
        if seconds < 1:
            return f"{max(seconds, 0) * 1000:.0f} ms"
        for limit, length, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
            if seconds < limit:
                return f"{seconds / length:.0f} {unit}"
        return f"{self.count(seconds / 86400)} d"

    def ago(self, seconds: float) -> str:
        return "just now" if seconds < 60 else f"{self.duration(seconds)} ago"

    def seconds(self, seconds: float) -> str:
        """Format a measured duration with at most one decimal, as on an axis."""
        if seconds == 0:
            return "0"
        for limit, length, unit in ((1, 0.001, "ms"), (60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
            if seconds < limit:
                return f"{self._shorten(seconds / length)} {unit}"
        return f"{self._shorten(seconds / 86400)} d"

    def _shorten(self, number: float) -> str:
        is_whole = number >= 10 or number == round(number)
        return self._localize(f"{number:,.0f}" if is_whole else f"{number:.1f}")

    def _localize(self, digits: str) -> str:
        return digits.translate({ord(","): self.group, ord("."): self.decimal})


DEFAULT: Final = Formats()
_POINTS: Final = ("{0.day:02}.{0.month:02}.{0.year:04}", "{0.month:02}.{0.year:04}")
_SLASHES: Final = ("{0.day:02}/{0.month:02}/{0.year:04}", "{0.month:02}/{0.year:04}")
_HYPHENS: Final = ("{0.day:02}-{0.month:02}-{0.year:04}", "{0.month:02}-{0.year:04}")
_NARROW_SPACE: Final = "\u202f"  # non-breaking
_APOSTROPHE: Final = "\u2019"
# By language, or by language and region where that differs.
_BY_LANGUAGE: Final[Mapping[str, Formats]] = MappingProxyType(
    {
        "en": DEFAULT,
        "da": Formats(".", ",", *_POINTS),
        "de": Formats(".", ",", *_POINTS),
        "de-ch": Formats(_APOSTROPHE, ".", *_POINTS),
        "de-li": Formats(_APOSTROPHE, ".", *_POINTS),
        "es": Formats(".", ",", *_SLASHES),
        "fr": Formats(_NARROW_SPACE, ",", *_SLASHES),
        "fr-ch": Formats(_NARROW_SPACE, ",", *_POINTS),
        "it": Formats(".", ",", *_SLASHES),
        "it-ch": Formats(_APOSTROPHE, ".", *_POINTS),
        "nb": Formats(_NARROW_SPACE, ",", *_POINTS),
        "nl": Formats(".", ",", *_HYPHENS),
        "nn": Formats(_NARROW_SPACE, ",", *_POINTS),
        "no": Formats(_NARROW_SPACE, ",", *_POINTS),
        "pl": Formats(_NARROW_SPACE, ",", *_POINTS),
        "pt": Formats(".", ",", *_SLASHES),
        "pt-pt": Formats(_NARROW_SPACE, ",", *_SLASHES),
        "sv": Formats(_NARROW_SPACE, ","),
    }
)


def choose_formats(accept_language: str) -> Formats:
    """The formats of the first language that the browser prefers and Postroom knows (RFC 9110, 12.5.4)."""
    ranked: list[tuple[float, str]] = []
    for item in accept_language.split(",")[:_MAX_LANGUAGES]:
        tag, _, weight = item.partition(";")
        quality = _parse_quality(weight)
        if quality > 0:
            ranked.append((quality, tag.strip().lower()))
    for _, tag in sorted(ranked, key=lambda each: -each[0]):
        found = _BY_LANGUAGE.get(tag) or _BY_LANGUAGE.get(tag.partition("-")[0])
        if found:
            return found
    return DEFAULT


def _parse_quality(weight: str) -> float:
    """Read `q=0.8`. A language without a weight is preferred; one with an invalid weight is ignored."""
    if not weight.strip():
        return 1
    name, _, number = weight.strip().partition("=")
    try:
        quality = float(number)
    except ValueError:
        return 0
    return quality if name.strip().lower() == "q" and 0 < quality <= 1 else 0
