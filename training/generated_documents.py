"""Generates documents as text, each from a seed: invoices, contract notes, and documents that are neither."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from stdnum import iban as stdnum_iban
from stdnum import numdb

from postroom.documents.fields.check_digits import is_valid_isin
from training import invented_names
from training import vocabulary as w

_CENT: Final = Decimal("0.01")
_MONTHS: Final = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "en": "January February March April May June July August September October November December",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
_DATED: Final = {"de": "Datum", "en": "Date", "fr": "Date", "it": "Data", "es": "Fecha", "nl": "Datum"}
_COUNTRIES: Final = {"de": "DE AT CH", "en": "GB IE", "fr": "FR BE", "it": "IT", "es": "ES", "nl": "NL BE"}


@dataclass(frozen=True, slots=True)
class GeneratedDocument:
    """A document's text, what kind it is, and the values that stand in it."""

    kind: str
    language: str
    text: str
    truth: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class _WritingStyle:
    """How one document writes: its language, its numbers, its dates, how values stand beside labels."""

    dice: Random
    language: str
    words: dict[str, str]
    comma: bool
    group: str
    day: Callable[[date], str]
    layout: str
    hard: float

    def say(self, name: str) -> str:
        """A phrase; the last of several only in hard documents."""
        phrases = self.words[name].split("|")
        if len(phrases) > 2 and self.dice.random() > self.hard:
            phrases = phrases[:-1]
        return self.dice.choice(phrases)

    def number(self, value: Decimal) -> str:
        whole, _, rest = f"{abs(value):f}".partition(".")
        groups: list[str] = []
        while len(whole) > 3 and self.group:
            whole, last = whole[:-3], whole[-3:]
            groups.insert(0, last)
        text = self.group.join([whole, *groups]) + (("," if self.comma else ".") + rest if rest else "")
        return f"-{text}" if value < 0 else text

    def money(self, value: Decimal, currency: str) -> str:
        amount = self.number(value)
        return (
            self.dice.choice([f"{amount} {currency}", f"{currency} {amount}"])
            if self.layout != "table"
            else f"{amount} {currency}"
        )

    def row(self, label: str, value: str) -> str:
        match self.layout:
            case "colon":
                return f"{label}: {value}"
            case "leaders":
                return f"{label} {'.' * max(60 - len(label), 5)} {value}"
            case "column":
                return f"{label:<45}{value:>30}"
            case _:
                return f"{label} {value}"


def _draw_style(dice: Random, kind: dict[str, dict[str, str]], hard: float) -> _WritingStyle:
    language = dice.choice(["de"] * 5 + ["en"] * 3 + ["fr"] * 3 + ["it", "es", "nl"])
    comma = language != "en" and dice.random() > 0.15
    group = dice.choice([".", " ", ""]) if comma else dice.choice([",", "'", ""])
    shapes = (
        ["%d.%m.%Y", "%Y-%m-%d"]
        if language in {"de", "it"}
        else ["%d/%m/%Y", "%d %b %Y" if language == "en" else "%d-%m-%Y"]
    )
    shape = dice.choice(shapes)
    long = language in _MONTHS and dice.random() < 0.3

    def day(value: date) -> str:
        if long:
            month = _MONTHS[language].split()[value.month - 1]
            return f"{value.day}{'.' if language == 'de' else ''} {month} {value.year}"
        return value.strftime(shape)

    layout = dice.choice(["colon", "plain", "column", "leaders", "table"])
    return _WritingStyle(dice, language, kind[language], comma, group, day, layout, hard)


def _iban(dice: Random, language: str) -> str:
    country = dice.choice(_COUNTRIES[language].split())
    body = "".join(_iban_character(dice, shape) for shape in _bban_shapes(country))
    code = f"{country}{stdnum_iban.calc_check_digits(f'{country}00{body}')}{body}"
    return (
        code if dice.random() < 0.3 else " ".join(code[place : place + 4] for place in range(0, len(code), 4))
    )


def _bban_shapes(country: str) -> Iterator[str]:
    """Yield `a` for each A-Z character and `n` or `c` for each other one behind a country's check digits."""
    structure = numdb.get("iban").info(country)[0][1]["bban"]
    for count, shape in re.findall(r"(\d+)!([nac])", structure):
        yield from shape * int(count)


def _iban_character(dice: Random, shape: str) -> str:
    digit = dice.choice("0123456789")
    return chr(ord("A") + int(digit)) if shape == "a" else digit


def _isin(dice: Random) -> str:
    body = dice.choice(["DE", "US", "IE", "LU", "FR", "GB", "CH", "NL"]) + "".join(
        dice.choice("0123456789ABCDEFGH") for _ in range(9)
    )
    return next(f"{body}{digit}" for digit in range(10) if is_valid_isin(f"{body}{digit}"))


def _firm(dice: Random, language: str) -> str:
    parts = [
        dice.choice(invented_names.FIRMS.split("|")),
        dice.choice(invented_names.BRANCHES.split("|")),
        dice.choice(invented_names.FORMS[language].split("|")),
    ]
    return " ".join(parts[:2] if dice.random() < 0.12 else parts)


def _head(style: _WritingStyle, firm: str) -> list[str]:
    dice, place = style.dice, style.dice.choice(invented_names.PLACES[style.language].split("|"))
    street = f"{dice.choice(invented_names.STREETS.split('|'))} {dice.randint(1, 99)}"
    domain = firm.split(maxsplit=1)[0].lower()
    shapes = [
        [firm, street, place, f"info@{domain}.example"],
        [f"{firm} · {street} · {place}"],
        [firm, f"{firm} | {street} | {place}"],
        [f"www.{domain}.example", firm],
    ]
    return dice.choice(shapes)


def _recipient(style: _WritingStyle) -> list[str]:
    dice = style.dice
    label = dice.choice(style.words["to"].split("|")) if "to" in style.words else ""
    name = dice.choice(["Erika Mustermann", "Jane Sample", "Camille Exemple", _firm(dice, style.language)])
    return [
        label,
        name,
        f"{dice.choice(invented_names.STREETS.split('|'))} {dice.randint(1, 99)}",
        dice.choice(invented_names.PLACES[style.language].split("|")),
    ]


def _foot(style: _WritingStyle) -> list[str]:
    prose = w.PROSE[style.language].split("|")
    return style.dice.sample(prose, k=min(style.dice.randint(2, 5), len(prose)))


def generate_invoice(seed: int, *, hard: float = 0.15) -> GeneratedDocument:
    dice = Random(seed)
    style = _draw_style(dice, w.INVOICE, hard)
    supplier, issued = _firm(dice, style.language), date(2019, 1, 1) + timedelta(days=dice.randrange(2500))
    british = style.language == "en" and dice.random() < 0.5
    currency = "CHF" if dice.random() < 0.1 else "GBP" if british else "EUR"
    running = dice.randint(1000, 9999999)
    number = dice.choice(
        [
            f"RE-{issued.year}-{running % 10000:04d}",
            f"{running}",
            f"{issued.year}/{running % 999}",
            f"INV{running}",
        ]
    )
    rows, net = _goods(style)
    rate = dice.choice([Decimal(19), Decimal(20), Decimal(7), Decimal("8.1"), Decimal(21), Decimal(0)])
    vat = (net * rate / 100).quantize(_CENT)
    iban = _iban(dice, style.language)
    sums = [style.row(style.say("net"), style.money(net, currency))]
    if rate:
        label = style.say("vat").format(rate=style.number(rate), net=style.money(net, currency))
        sums.append(style.row(label, style.money(vat, currency)))
    sums.append(style.row(style.say("gross"), style.money(net + vat, currency)))
    bank = f"{style.say('bank')}: IBAN {iban}" if dice.random() < 0.8 else f"IBAN {iban}"
    title = [dice.choice([style.say("title"), f"{style.say('title')} {number}"])]
    parts = [_head(style, supplier), _recipient(style), title, _invoice_facts(style, number, issued)]
    if style.dice.random() < hard:
        parts = [parts[1], parts[3], parts[0], parts[2]]
    lines = [line for part in parts for line in part]
    lines += [style.say("table"), *rows, *sums, style.say("thanks"), bank, *_foot(style)]
    truth = {"supplier": supplier, "number": number, "issued_on": issued, "currency": currency}
    truth |= {"gross": net + vat, "net": net, "iban": iban.replace(" ", "")}
    return GeneratedDocument("invoice", style.language, "\n".join(filter(None, lines)), truth)


def _invoice_facts(style: _WritingStyle, number: str, issued: date) -> list[str]:
    """Write number and date, among other numbers and dates."""
    dice = style.dice
    facts = [style.row(style.say("number"), number), style.row(style.say("date"), style.day(issued))]
    dated_line = issued + timedelta(days=dice.choice([0, 0, 1, 5]))
    others = [
        (0.7, style.row(style.say("customer"), str(dice.randint(1000, 99999)))),
        (0.5, style.row(style.say("due"), style.day(issued + timedelta(days=30)))),
        (0.4, style.row(style.say("delivered"), style.day(issued - timedelta(days=dice.randint(1, 20))))),
        (0.4, style.row(style.say("order"), f"PO-{dice.randint(100, 99999)}")),
        (0.2, f"{dice.choice(invented_names.TOWNS.split('|'))}, {style.day(dated_line)}"),
        (
            0.2,
            style.row(_DATED[style.language], style.day(issued + timedelta(days=dice.choice([0, 0, 0, 3])))),
        ),
    ]
    facts += [line for chance, line in others if dice.random() < chance]
    dice.shuffle(facts)
    return facts


def _goods(style: _WritingStyle) -> tuple[list[str], Decimal]:
    rows: list[str] = []
    net = Decimal(0)
    for place in range(style.dice.randint(1, 7)):
        quantity = Decimal(style.dice.randint(1, 40))
        price = Decimal(style.dice.randint(50, 90_000)) / 100
        net += quantity * price
        text = style.dice.choice(w.GOODS[style.language].split("|"))
        rows.append(f"{place + 1} {text} {quantity} {style.number(price)} {style.number(quantity * price)}")
    return rows, net


def generate_contract_note(seed: int, *, hard: float = 0.15) -> GeneratedDocument:
    dice = Random(seed)
    style = _draw_style(dice, w.NOTE, hard)
    side = dice.choice(["buy", "sell"])
    traded = date(2015, 1, 1) + timedelta(days=dice.randrange(3800))
    currency = dice.choice(["EUR", "EUR", "EUR", "CHF", "USD", "GBP"])
    whole = dice.random() < 0.6
    quantity = Decimal(dice.randint(1, 900)) if whole else Decimal(dice.randint(100, 900_000)) / 10000
    price = Decimal(dice.randint(150, 600_000)) / dice.choice([100, 1000])
    gross = (quantity * price).quantize(_CENT)
    (net, paid_in), rows, extras = _settlement(style, side, gross, currency, foreign=dice.random() < 0.15)
    isin, account, security = (
        _isin(dice),
        str(dice.randint(10**6, 10**9)),
        dice.choice(invented_names.SECURITIES.split("|")),
    )
    forms = invented_names.FORMS[style.language]
    broker = f"{dice.choice(invented_names.BROKERS.split('|'))} {dice.choice(forms.split('|'))}"
    dated_line, facts = _note_facts(style, traded, quantity)
    shape = dice.choice(["{title} {side}", "{title}: {side}", "{side}", "{title}\n{side}"])
    done = [style.say(f"done_{side}").format(date=style.day(traded))] if dice.random() < 0.5 else []
    if dice.random() < 0.25:
        done.append(style.say("ran").format(date=style.day(traded), side=style.say(side)))
    lines = [*_head(style, broker), *_recipient(style), dated_line, style.row(style.say("account"), account)]
    lines += [shape.format(title=style.say("title"), side=style.say(side)), *done]
    lines += _security(style, (security, isin, side), quantity, price, currency)
    lines += [*facts, style.row(style.say("gross"), style.money(gross, currency)), *rows, *_foot(style)]
    truth = {"isin": isin, "direction": side, "trade_date": traded, "quantity": quantity, "price": price}
    truth |= {"gross": gross, "net": net, "currency": paid_in, "name": security, "broker": broker}
    truth |= {"account": account, **extras}
    return GeneratedDocument("contract-note", style.language, "\n".join(filter(None, lines)), truth)


def _note_facts(style: _WritingStyle, traded: date, quantity: Decimal) -> tuple[str, list[str]]:
    """Return the line with the document date, and the rows with dates, place and other numbers."""
    dice = style.dice
    time = dice.choice(["", f" {dice.randint(8, 19):02d}:{dice.randint(0, 59):02d}"])
    venue = dice.choice(["Xetra", "OTC", "SIX Swiss Exchange", "London Stock Exchange", "Euronext Paris"])
    facts = [
        style.row(style.say("settled"), style.day(traded + timedelta(days=2))),
        style.row(style.say("venue"), venue),
    ]
    # Some notes have no trade date; then it is the document date.
    named = dice.random() > 0.04
    facts += [style.row(style.say("traded"), style.day(traded) + time)] if named else []
    dated = traded + timedelta(days=dice.choice([0, 0, 0, 1, 3]) if named else 0)
    town = f"{dice.choice(invented_names.TOWNS.split('|'))}, {style.day(dated)}"
    dated_line = dice.choice([style.row(_DATED[style.language], style.day(dated)), town])
    if dice.random() < 0.3:
        facts.append(style.row(style.say("ordered"), style.day(traded - timedelta(days=dice.randint(0, 4)))))
    if dice.random() < 0.3:
        facts.append(style.row(style.say("booked"), style.day(traded + timedelta(days=dice.randint(0, 3)))))
    if dice.random() < 0.25:
        facts.append(style.row(style.say("balance"), style.number(quantity + dice.randint(1, 500))))
    dice.shuffle(facts)
    return dated_line, facts


def _security(
    style: _WritingStyle, what: tuple[str, str, str], quantity: Decimal, price: Decimal, currency: str
) -> list[str]:
    security, isin, side = what
    amount, each = style.number(quantity), style.money(price, currency)
    match style.dice.randrange(6):
        case 0:
            return [
                style.row(style.say("security"), security),
                style.row("ISIN", isin),
                style.row(style.say("quantity"), amount),
                style.row(style.say("price"), each),
            ]
        case 1:
            head = f"{style.say('quantity')} {style.say('security')} ISIN {style.say('price')}"
            return [head, f"{amount} {security} {isin} {each}"]
        case 2:
            worth = style.number((quantity * price).quantize(_CENT))
            row = (
                f"{security} {amount} {style.say('unit')} {style.number(price)} {currency} {worth} {currency}"
            )
            return [style.say("head"), row, f"ISIN: {isin}"]
        case 3:
            head = f"{style.say('quantity')} ISIN: {isin} {style.say('price')}"
            return [head, f"{style.say('unit')} {amount} {security} {currency} {style.number(price)}"]
        case 4:
            return [f"{style.say(side)} {amount} {security} ({isin}) {style.say('at')} {each}"]
        case _:
            return [
                f"{style.say('security')} ISIN",
                f"{security} {isin}",
                f"{style.say('quantity')} {amount} {style.say('price')} {each}",
            ]


def _settlement(
    style: _WritingStyle, side: str, gross: Decimal, currency: str, *, foreign: bool
) -> tuple[tuple[Decimal, str], list[str], dict[str, Decimal]]:
    dice, sign = style.dice, 1 if side == "buy" else -1
    rows: list[str] = []
    total = gross
    extras: dict[str, Decimal] = {}
    for name in dice.sample(["fee", "fee", "tax"], k=dice.randint(0, 3)):
        extra = min(Decimal(dice.randint(5, 4000)) / 100, gross / 10).quantize(_CENT)
        total += sign * extra
        field_name = "fees" if name == "fee" else "taxes"
        extras[field_name] = extras.get(field_name, Decimal(0)) + extra
        rows.append(style.row(style.say(name), style.money(extra, currency)))
    label = style.say(f"net_{side}")
    if side == "sell" and dice.random() < 0.15:
        return _taxed(style, total, currency, rows, extras)
    if not foreign:
        if dice.random() < 0.2:
            rows.insert(0, style.row(label := style.say("total"), style.money(gross, currency)))
        paid = -total if side == "buy" and dice.random() < 0.2 else total
        return (total, currency), [*rows, style.row(label, style.money(paid, currency))], extras
    home = "CHF" if currency != "CHF" else "EUR"
    rate = Decimal(dice.randint(8000, 12500)) / 10000
    settled = (total * rate).quantize(_CENT)
    if dice.random() < 0.3:
        rows.append(style.row(style.say(f"net_{side}"), style.money(total, currency)))
    rows.append(style.row(f"{style.say('rate')} {currency}/{home}", style.number(rate)))
    return (settled, home), [*rows, style.row(label, style.money(settled, home))], extras


def _taxed(
    style: _WritingStyle, total: Decimal, currency: str, rows: list[str], extras: dict[str, Decimal]
) -> tuple[tuple[Decimal, str], list[str], dict[str, Decimal]]:
    """What is paid before taxes, a tax, and what is paid after them."""
    before, after = style.words["taxed"].split("|")
    tax = (total * style.dice.randint(1, 20) / 100).quantize(_CENT)
    rows += [
        style.row(before, style.money(total, currency)),
        style.row(style.say("tax"), style.money(tax, currency)),
    ]
    rows.append(style.row(after, style.money(total - tax, currency)))
    return (total - tax, currency), rows, {**extras, "taxes": extras.get("taxes", Decimal(0)) + tax}


def generate_other(seed: int) -> GeneratedDocument:
    """Generate a document of another kind, which may share many words with the two kinds."""
    dice = Random(seed)
    bank = dice.random() < 0.6
    style = _draw_style(dice, w.NOTE if bank else w.INVOICE, 0.0)
    firm = dice.choice(invented_names.BROKERS.split("|")) if bank else _firm(dice, style.language)
    title, *said = dice.choice(w.OTHERS[style.language]).split("|")
    lines = [*_head(style, firm), *_recipient(style), title]
    for _ in range(dice.randint(3, 14)):
        phrase = dice.choice([title, *said])
        value = _any_value(style, bank=bank)
        lines.append(style.row(phrase, value) if value else phrase)
    # Words that such documents share with the others, so that they carry no information.
    common = (
        "account settled quantity tax net_sell security balance" if bank else "customer order net bank vat_id"
    )
    lines += [
        style.row(style.say(name), _any_value(style, bank=bank))
        for name in dice.sample(common.split(), k=dice.randint(0, 5))
    ]
    if bank:
        lines += [f"{dice.choice(invented_names.SECURITIES.split('|'))} {_isin(dice)}"]
    elif dice.random() < 0.5:
        lines += _goods(style)[0]
    lines += _foot(style)
    if dice.random() < 0.4:
        lines.append(f"IBAN {_iban(dice, style.language)}")
    return GeneratedDocument("other", style.language, "\n".join(filter(None, lines)), {"bank": bank})


def _any_value(style: _WritingStyle, *, bank: bool) -> str:
    dice = style.dice
    amount = style.number(Decimal(dice.randint(1, 900_000)) / 100)
    day = style.day(date(2020, 1, 1) + timedelta(days=dice.randrange(2000)))
    return dice.choice([amount, day, str(dice.randint(1, 99999)), "", _isin(dice) if bank else ""])


def generate_documents(count: int, *, first: int = 0, hard: float = 0.15) -> list[GeneratedDocument]:
    """As many of each kind, by the numbers from `first` on."""
    numbers = range(first, first + count)
    return [
        *(generate_invoice(number, hard=hard) for number in numbers),
        *(generate_contract_note(number + 1_000_000, hard=hard) for number in numbers),
        *(generate_other(number + 2_000_000) for number in numbers),
    ]
