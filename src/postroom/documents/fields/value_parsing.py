"""Finds numbers, dates, currencies, ISINs, IBANs and VAT IDs using the document's own notation.

A number with two possible readings is found twice; the less likely reading is marked. It knows no
fields, and of labels only those of IBANs and exchange rates.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Final, Literal

from postroom.documents.fields import currencies, writing_conventions
from postroom.documents.fields.check_digits import check_vat_id, iban_length, is_valid_iban, is_valid_isin
from postroom.documents.fields.currencies import CURRENCIES, WITHOUT_CENTS
from postroom.documents.fields.document_text import DocumentText, TextLine

ValueShape = Literal["number", "date", "currency", "isin", "iban", "vat_id"]
ValueContent = Decimal | date | str


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """A typed value at a position.

    `likely` is false for the second reading of the same characters.
    """

    shape: ValueShape
    content: ValueContent
    line: int
    start: int
    end: int
    decimals: int = 0
    currency: str | None = None
    percent: bool = False
    rate: bool = False  # an exchange rate
    has_time: bool = False  # a date followed by a time of day
    likely: bool = True
    ambiguity: str = ""  # why another reading is as good; empty if the document decides
    other: date | None = None  # that other reading, for dates
    sign_ambiguity: str = ""  # why a minus may be none

    @property
    def number(self) -> Decimal:
        assert isinstance(self.content, Decimal)
        return self.content


_NUMBER: Final = re.compile(
    r"""(?<![\w.,'\u2019/:=-])
    (?P<sign>[-+\u2212\u2013]\ ?)?
    (?P<digits>
      \d{1,3}(?:(?:\.\d{3})+|(?:,\d{3})+|(?:['\u2019\u00b4`]\d{3})+|(?:[ \u00a0\u202f]\d{3})+(?=[.,]\d))
      (?:[.,]\d+)?
      |\d+(?:[.,]\d+)?
      |(?<!\d)[.,]\d{2,})
    (?P<none>,-{1,2}|\.-{1,2}(?!\d)|,\u2014)?
    (?P<minus>-(?![\w]))?
    (?![\w'\u2019/]|[.,:]\d|-\d)""",
    re.VERBOSE,
)
_PAIR: Final = "(?:" + "|".join(CURRENCIES) + ")"
_RATE_BEFORE: Final = re.compile(
    rf"({_PAIR})\ ?[/ -]\ ?(?!\1){_PAIR}[\s:=]*$|(?:^|\s)1\ {_PAIR}\ ?=\ ?(?:{_PAIR}\ )?$"
)
_RATE_BEHIND: Final = re.compile(rf"^\ ?({_PAIR})\ ?/\ ?(?!\1){_PAIR}")
_RATE_WORDS: Final = re.compile(
    r"(?:devisenkurs|dev\. ?kurs|umrechn\. zum|wechselkurs|umrechnungskurs|valutakurs|vekselkurs"
    r"|vaxlingskurs|umrechnungsbasis|exchange rate|conversion rate|fx rate"
    r"|taux de (?:change|conversion)"
    r"|cours de change|wisselkoers|cambio divisa|tasso di cambio|\bchange\b)[^\d]{0,40}$"
)
_RATE_CHARACTERS: Final = 80  # beside a number that are searched for the words of an exchange rate
_TIME: Final = re.compile(
    r"^[\s,/-]*(?P<word>um|at|a|a las|om|alle|kl\.?|(?:[a-z]*(?:zeit|time)|heure|ora|hora|tijd)\b:?)?\s*"
    r"(?:[01]?\d|2[0-3])(?::[0-5]\d(?::\d{1,2})?|(?P<point>\.[0-5]\d(?:\.\d{1,2})?))(?![\d.,])"
    r"(?P<hour> ?(?:uhr|h)\b)?"
)
_CLOCK: Final = re.compile(r"^\d{1,2}:\d{2}:\d{2}(?!\d)")
_MORE_DIGITS: Final = re.compile(r"(?:[ \u00a0\u202f]\d{3})+(?![\d.,])")
_SPACED: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+,\d{2}(?!\d)")
_GLUED: Final = re.compile(
    r"(?<=[€£$¥=])(?=[-\d])|(?<=EUR|CHF|USD|GBP)(?=[-\d])|(?<=\d)(?=EUR|CHF|USD|GBP|Stk|Stück)"
    r"|(?<=\d-)(?=EUR|CHF|USD|GBP)|(?<==)(?=\d)|(?<=[kK]r\.)(?=-?\d)|(?<=\bFr\.)(?=-?\d)"
)
# Signs that are not beside the digits: a minus before the currency, parentheses, "CR" for a credit.
_CURRENCY_MARK: Final = r"(?:[A-Z]{0,3}[€£$¥]|[A-Z]{3})"
_MINUS_BEFORE_CURRENCY: Final = re.compile(
    rf"(?:^|(?<=[\s(:|]))[-\u2212\u2013](?P<gap>\s?){_CURRENCY_MARK}\s?$"
)
_OPENED: Final = re.compile(rf"[(<\[]\s?(?:{_CURRENCY_MARK}\s?)?$")
_CLOSED: Final = re.compile(rf"^\s?(?:{_CURRENCY_MARK}\s?)?[)>\]]")
# "H" and "Haben" mark credits in German bookkeeping; "-/-" and "./." are minus signs in Dutch and German.
_CREDIT: Final = re.compile(rf"^\s?(?:{_CURRENCY_MARK}\s?)?(?:C[Rr]\b|\(-\))")
_BOOKED_CREDIT: Final = re.compile(rf"^\s?(?:{_CURRENCY_MARK}\s?)?(?:H|Haben)\s*$")
_BOOKKEEPERS_MINUS: Final = re.compile(rf"(?:-/-|\./\.)\s?(?:{_CURRENCY_MARK}\s?)?$")
_MINUS_BEHIND_CURRENCY: Final = re.compile(rf"\s?{_CURRENCY_MARK}\s?[-\u2212\u2013]\s*$")
_SIGN_CHARACTERS: Final = 10  # beside a number that are searched for its sign
_ISIN: Final = re.compile(r"(?<![A-Z0-9])([A-Z]{2}[A-Z0-9]{9}\d)(?![A-Z0-9])")
# Looks ahead only: in "VAT DE136695976 IBAN DE89...", another code begins a candidate that contains the IBAN.
_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])(?=([A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]){11,30}))")
_VAT_ID: Final = re.compile(
    r"(?<![A-Z0-9])(ATU ?(?:\d ?){8}|DE ?(?:\d ?){9}|FR ?[A-Z0-9]{2} ?(?:\d ?){9}|BE ?[01](?:[ .]?\d){9}"
    r"|NL ?\d{9} ?B ?\d{2}"
    r"|(?:IT|LV|HR) ?\d{11}|ES ?[A-Z0-9]\d{7}[A-Z0-9]|LU ?\d{8}|PL ?\d{10}|(?:DK|FI|HU|MT|SI) ?\d{8}|GB "
    r"?(?:\d ?){9}"
    r"|SE ?\d{12}|CZ ?\d{8,10}|IE ?\d{7}[A-W][A-I]?|PT ?\d{9}|(?:SK|RO) ?\d{10}"
    r"|CHE-?\d{3}\.?\d{3}\.?\d{3})(?![0-9])"
)  # fmt: skip

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january januar janner jan janvier janv gennaio gen enero ene januari janeiro stycznia ocak",
            "february februar feber feb februari fevrier fevr fev febbraio febrero fevereiro lutego subat",
            "march marz maerz mar mrz mars marzo maart mrt marco marts marca mart",
            "april apr avril avr aprile abril abr kwietnia nisan",
            "may mai maggio mag mayo mei maio maj maja mayis",
            "june juni jun juin giugno giu junio junho czerwca haziran",
            "july juli jul juillet juil luglio lug julio julho lipca temmuz",
            "august aug aout agosto ago augustus augusti sierpnia agustos",
            "september sept sep septembre settembre set septiembre setembro wrzesnia eylul",
            "october oktober okt oct octobre ottobre ott octubre outubro pazdziernika ekim",
            "november nov novembre noviembre novembro listopada kasim",
            "december dezember dez dec decembre dicembre dic diciembre dezembro grudnia aralik",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH: Final = "(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + ")"
_YEAR: Final = r"(?P<year>\d{4}|\d{2})"
_NUMERIC: Final = re.compile(
    r"(?<![\d/-])(?P<day>\d{1,2})(?P<between>[/-])(?P<number>\d{1,2})(?P=between)" + _YEAR + r"(?![\d/]|-\d)"
)
_DATES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\d.])(?P<day>\d{1,2})\. ?(?P<number>\d{1,2})\. ?" + _YEAR + r"(?![\d.]\d)(?!\d)",
        r"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<between>[-/.])(?P<number>\d{1,2})(?P=between)(?P<day>\d{1,2})(?!\d)",
        _NUMERIC,
        r"(?<!\d)(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?[\s./-]{1,2}(?:de |of )?"
        + (_MONTH + r"\.?[\s,./-]{1,2}(?:de |del )?" + _YEAR + r"(?!\d)"),
        r"(?<![a-z])" + _MONTH + r"\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})(?!\d)",
    )
)


def find_values(document: DocumentText) -> tuple[ParsedValue, ...]:
    text, folded = document.text, document.folded
    orders = _detect_date_orders(text, folded)
    meant = currencies.resolve_shared_signs(text)
    marks = _detect_number_marks(text, folded)
    spaces = _SPACED.search(text) is not None
    found: list[ParsedValue] = []
    for line in document.lines:
        clock = any(_CLOCK.match(below.text) for below in document.lines[line.index + 1 : line.index + 3])
        fixed = [*_find_codes(line), *_find_dates(line, orders, clock_below=clock)]
        found.extend(fixed)
        named = list(_find_currency_values(line, meant))
        found.extend(named)
        taken = [(value.start, value.end) for value in fixed]
        found.extend(_find_numbers(line, taken, named, marks=marks, spaces=spaces))
    return tuple(found)


def _overlaps(start: int, end: int, taken: list[tuple[int, int]]) -> bool:
    return any(start < right and left < end for left, right in taken)


def _find_codes(line: TextLine) -> Iterator[ParsedValue]:
    taken: list[tuple[int, int]] = []
    for found in _IBAN.finditer(line.text):
        if _overlaps(found.start(), found.start() + 1, taken):
            continue
        iban = _match_iban(found.group(1)) or _match_labelled_iban(line, found)
        if iban:
            code, length = iban
            taken.append((found.start(), found.start() + length))
            yield ParsedValue("iban", code, line.index, found.start(), found.start() + length)
    for found in _ISIN.finditer(line.text):
        is_vat_id = not is_valid_isin(found.group(1)) and (
            re.fullmatch(r"CHE\d{9}", found.group(1)) or check_vat_id(found.group(1)) is True
        )
        like = sum(map(str.isdigit, found.group(1))) >= (2 if is_valid_isin(found.group(1)) else 3)
        if like and not is_vat_id and not _overlaps(*found.span(1), taken):
            taken.append(found.span(1))
            yield ParsedValue("isin", found.group(1), line.index, *found.span(1))
    for found in _VAT_ID.finditer(line.text):
        if not _overlaps(*found.span(1), taken):
            code = re.sub(r"[ .-]", "", found.group(1))
            yield ParsedValue(
                "vat_id", code, line.index, found.start(1), found.start(1) + len(found.group(1).rstrip())
            )


def _match_labelled_iban(line: TextLine, found: re.Match[str]) -> tuple[str, int] | None:
    """Match digits of a wrong length behind the label IBAN: a misprint that its check digits will reveal."""
    digits = re.match(r"[A-Z]{2}\d{2}(?:[ \u00a0]?\d){11,28}(?!\d)", found.group(1))
    named = re.search(r"\biban[ .:]*(?:nr|no)?[ .:]*$", line.folded[: found.start()])
    return (re.sub(r"\s", "", digits.group()), digits.end()) if digits and named else None


def _match_iban(text: str) -> tuple[str, int] | None:
    """Return the IBAN without spaces and its length in the text, where similar characters may follow it."""
    wanted = iban_length(text[:2])
    code, length = "", 0
    for place, sign in enumerate(text, start=1):
        if not sign.isspace():
            code, length = code + sign, place
        if len(code) == wanted:
            break
    if len(code) != wanted:
        return None
    written = text[:length].split()
    grouped = len(written) > 3 and all(len(part) == 4 for part in written[:-1])
    return (code, length) if is_valid_iban(code) or code[4:].isdigit() or grouped else None


def _find_dates(
    line: TextLine, orders: Mapping[str, tuple[bool, bool]], *, clock_below: bool
) -> Iterator[ParsedValue]:
    """Find dates.

    A time of day follows its date, or starts a line below a date that starts its own line.
    """
    taken: list[tuple[int, int]] = []
    for pattern in _DATES:
        for found in pattern.finditer(line.folded):
            month_first, sure = orders[found["between"]] if pattern is _NUMERIC else (False, True)
            day = None if _overlaps(*found.span(), taken) else _parse_date(found, month_first=month_first)
            if day:
                taken.append(found.span())
                timed = _has_time(line.folded[found.end() :]) or (clock_below and found.start() == 0)
                other = (
                    None
                    if sure or day.day > 12 or day.day == day.month
                    else _parse_date(found, month_first=not month_first)
                )
                doubt = (
                    f"it may also be {other}: nothing shows whether day or month comes first" if other else ""
                )
                yield ParsedValue(
                    "date", day, line.index, *found.span(), has_time=timed, ambiguity=doubt, other=other
                )


def _has_time(behind: str) -> bool:
    """Check for a time of day. "12.30" is an amount unless a word such as "Uhr" says otherwise."""
    found = _TIME.match(behind)
    return bool(found and (not found["point"] or found["word"] or found["hour"]))


def _parse_date(found: re.Match[str], *, month_first: bool) -> date | None:
    parts = found.groupdict()
    month = _MONTHS[parts["month"]] if parts.get("month") else int(parts["number"])
    day, year = int(parts["day"]), int(parts["year"])
    day, month = (month, day) if month_first else (day, month)
    year += 0 if year > 99 else 2000 if year < 70 else 1900
    try:
        return date(year, month, day) if 1950 < year < 2100 else None
    except ValueError:
        return None


def _detect_date_orders(text: str, folded: str) -> dict[str, tuple[bool, bool]]:
    """For each date separator, return whether the month comes first and whether that is certain."""
    sure = (pattern for pattern in _DATES if pattern is not _NUMERIC)
    written_out = {
        day
        for pattern in sure
        for each in pattern.finditer(folded)
        if (day := _parse_date(each, month_first=False))
    }
    return {mark: writing_conventions.detect_month_first(text, folded, mark, written_out) for mark in "/-"}


def _find_currency_values(line: TextLine, meant: Mapping[str, str]) -> Iterator[ParsedValue]:
    for code, certain, start, end in currencies.find_currencies(line.text, meant):
        doubt = "" if certain else f"“{line.text[start:end]}” is used by several currencies"
        yield ParsedValue("currency", code, line.index, start, end, ambiguity=doubt)


_ONLY_COMMA: Final = re.compile(r"(?<![\d.,'])(?:\d{1,3}(?:[.' ]\d{3})*|\d+),(?:\d{2}|\d{4,})(?![\d,.])")
_ONLY_POINT: Final = re.compile(
    r"(?<![\d.,])(?:\d{1,3}(?:[,'\u2019 ]\d{3})*|\d+)\.(?:\d{2}|\d{4,})(?![\d.,])"
)
_MAX_NUMBER_LENGTH: Final = 24  # longer digit strings are not numbers, and Decimal could not round them
_MILLIONS: Final = re.compile(r"(?<![\d.,])\d{1,3}([.,])\d{3}(?:\1\d{3})+(?![\d]|\1\d)")


@dataclass(frozen=True, slots=True)
class _NumberMarks:
    """Whether the decimal separator is a comma (None: unknown), and the thousands separator by language."""

    comma: bool | None
    thousands: str


def _detect_number_marks(text: str, folded: str) -> _NumberMarks:
    """Decide by unambiguous numbers, else by the conventions of the language."""
    grouped = _MILLIONS.findall(text)
    commas = len(_ONLY_COMMA.findall(text)) + grouped.count(".")
    points = len(_ONLY_POINT.findall(text)) + grouped.count(",")
    usual = {"english": ",", "continental": ".", None: ""}[writing_conventions.detect_language(folded)]
    return _NumberMarks(commas > points if commas != points else None, usual)


def _find_numbers(
    line: TextLine,
    taken: list[tuple[int, int]],
    currencies: list[ParsedValue],
    *,
    marks: _NumberMarks,
    spaces: bool,
) -> Iterator[ParsedValue]:
    text = _GLUED.sub("\x00", line.text) if _GLUED.search(line.text) else line.text
    shift = [0] * (len(text) + 1)
    for place, sign in enumerate(text):
        shift[place + 1] = shift[place] + (sign == "\x00")
    for found in _NUMBER.finditer(text.replace("\x00", " ")):
        start, end = (place - shift[place] for place in found.span("digits"))
        if _overlaps(start, end, taken) or end - start > _MAX_NUMBER_LENGTH:
            continue
        yield from _number_readings(line, found, start, end, currencies, marks=marks, spaces=spaces)


def _number_readings(
    line: TextLine,
    found: re.Match[str],
    start: int,
    end: int,
    currencies: list[ParsedValue],
    *,
    marks: _NumberMarks,
    spaces: bool,
) -> Iterator[ParsedValue]:
    rest = line.text[end:].lstrip("-, ")
    first = ParsedValue(
        "number",
        Decimal(0),
        line.index,
        start,
        end,
        currency=_currency_beside(line, start, end, currencies),
        percent=rest[:1] in {"%", "\u2030"},
        rate=_is_rate(line, start, end),
    )
    spellings = _decimal_spellings(found["digits"], comma=marks.comma, small=first.percent or first.rate)
    spellings = spellings[:1] if found["none"] else spellings
    decided = marks.comma is not None or first.percent or first.rate or first.currency in WITHOUT_CENTS
    decided = decided or any(mark in found["digits"] for mark in marks.thousands)
    doubt = f"the separator in {found['digits']} may mark thousands or decimals"
    doubt = "" if decided or len(spellings) == 1 else doubt
    negative, sign_doubt = _find_sign(line, found, first)
    for likely, digits in spellings:
        amount = Decimal(digits)
        yield replace(
            first,
            content=-amount if negative else amount,
            decimals=len(digits.partition(".")[2]),
            likely=likely,
            ambiguity=doubt,
            sign_ambiguity=sign_doubt,
        )
    yield from _spaced_readings(line, found["digits"], first, marks=marks, spaces=spaces)


def _find_sign(line: TextLine, found: re.Match[str], number: ParsedValue) -> tuple[bool, str]:
    """Whether the number is negative, and why that is doubtful if it is."""
    if found["minus"] or (found["sign"] or "").strip() in {"-", "\u2212", "\u2013"}:
        return True, ""
    before = line.text[max(number.start - _SIGN_CHARACTERS, 0) : number.start]
    behind = line.text[number.end : number.end + _SIGN_CHARACTERS]
    written = line.text[number.start : number.end]
    if minus := _MINUS_BEFORE_CURRENCY.search(before):
        return True, f"the dash before {written} may be a minus or punctuation" if minus["gap"] else ""
    if _BOOKKEEPERS_MINUS.search(before):
        return True, ""
    is_money = number.currency is not None or re.search(r"[.,]\d{2}$", written)
    if is_money and not number.percent and _OPENED.search(before) and _CLOSED.search(behind):
        return True, f"the parentheses around {written} may mean a minus"
    if _MINUS_BEHIND_CURRENCY.match(line.text, number.end):
        return True, f"the dash after {written} may be a minus or punctuation"
    if _CREDIT.search(behind):
        return True, f"“CR” after {written} may mark a credit"
    if is_money and _BOOKED_CREDIT.search(behind):
        return False, f"“H” after {written} may mark a credit"
    return False, ""


def _spaced_readings(
    line: TextLine, digits: str, first: ParsedValue, *, marks: _NumberMarks, spaces: bool
) -> Iterator[ParsedValue]:
    """Yield the readings in which a space groups thousands ("1 450") or separates two numbers."""
    more = _MORE_DIGITS.match(line.text[first.end :]) if spaces and len(digits) <= 3 else None
    if more and digits.isdigit() and more.end() <= _MAX_NUMBER_LENGTH:
        whole = Decimal(digits + re.sub(r"\D", "", more.group()))
        yield replace(first, content=whole, end=first.end + more.end(), likely=False, currency=None)
    head, space, tail = digits.rpartition(" ")
    if space:
        (_, spelled), *_ = _decimal_spellings(tail, comma=marks.comma)
        decimals = len(spelled.partition(".")[2])
        cut = first.start + len(head)
        yield replace(first, content=Decimal(spelled), start=cut + 1, decimals=decimals, likely=False)
        yield replace(first, content=Decimal(head.replace(" ", "")), end=cut, likely=False, currency=None)


def _is_rate(line: TextLine, start: int, end: int) -> bool:
    nearby = max(start - _RATE_CHARACTERS, 0)
    before, behind = line.text[nearby:start], line.text[end : end + _RATE_CHARACTERS]
    named = _RATE_WORDS.search(line.folded[nearby:start]) and re.search(r"[.,]\d{3}", line.text[start:end])
    return bool(named or _RATE_BEFORE.search(before) or _RATE_BEHIND.match(behind))


def _currency_beside(line: TextLine, start: int, end: int, currencies: list[ParsedValue]) -> str | None:
    """Return the currency next to the number, preferring the one behind it."""
    next_one = bisect_left(currencies, end, key=lambda each: each.start)
    last_one = bisect_right(currencies, start, key=lambda each: each.end) - 1
    for currency in currencies[next_one : next_one + 1]:
        if not line.text[end : currency.start].strip(" -,\u2014"):
            return str(currency.content)
    for currency in currencies[max(last_one, 0) : last_one + 1]:
        if not line.text[currency.end : start].strip(" -+:\u2212\u2013"):
            return str(currency.content)
    return None


def _decimal_spellings(digits: str, *, comma: bool | None, small: bool = False) -> list[tuple[bool, str]]:
    """Return the number in Python notation, the likely reading first.

    `small` prefers decimals.
    """
    bare = re.sub(r"['\u2019\u00b4` \u00a0\u202f]", "", digits)
    marks = [sign for sign in bare if sign in ".,"]
    if not marks:
        return [(True, bare)]
    whole, _, last = bare.rpartition(marks[-1])
    decimal = re.sub(r"[.,]", "", whole) + "." + last
    grouped = re.sub(r"[.,]", "", bare)
    if (
        len(set(marks)) == 2
        or len(last) != 3
        or whole in {"", "0"}
        or bare != digits
        or (len(whole) > 3 and len(marks) == 1)
    ):
        return [(True, decimal if len(marks) == 1 or len(set(marks)) == 2 else grouped)]
    if len(marks) > 1:
        return [(True, grouped)]
    # One separator and three digits: as in the document's other numbers, else thousands.
    as_decimal = small if comma is None else (marks[-1] == ",") == comma
    readings = [(True, decimal), (False, grouped)]
    return readings if as_decimal else [(True, grouped), (False, decimal)]
