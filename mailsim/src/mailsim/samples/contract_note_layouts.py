"""How contract notes look: six broker houses, each with its own layout and words, in three languages."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from mailsim.samples.check_digits import spaced
from mailsim.samples.contract_notes import ContractNote
from mailsim.samples.document_terms import DocumentTerms, note_terms
from mailsim.samples.localized_formats import long_date, number, price, short_date
from mailsim.samples.page_drawing import WIDTH, PageDrawing

_LEFT, _RIGHT = 57, 538
Pairs = Sequence[tuple[str, str]]


def draw(note: ContractNote) -> PageDrawing:
    terms = note_terms(note.language, tuple(_LAYOUTS).index(note.layout))
    return _LAYOUTS[note.layout](note, terms)


def _register(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """A bank's form: the trade in one ruled line, charges below with a minus behind what the client pays."""
    sheet = PageDrawing()
    sheet.box(_LEFT, 40, 22, 22, 0x9C1C2E)
    sheet.text(_LEFT + 30, 57, note.broker.name, size=15, bold=True, colour=0x9C1C2E)
    sheet.text(
        _RIGHT, 57, f"{note.broker.street}, {note.broker.place}", size=7.5, align="right", colour=0x555555
    )
    sheet.texts(_LEFT, 130, (note.client,), size=10.5)
    sheet.pairs(330, 130, _references(note, terms), gap=100)
    sheet.text(_LEFT, 246, _title(note, terms), size=14, bold=True)
    heads = (
        (terms["quantity"], _LEFT),
        (terms["security"], 150),
        (terms["isin"], 330),
        (terms["ticker"], 450),
    )
    values = (_quantity(note, terms), note.security.name, note.security.isin, note.security.ticker)
    for (head, x), value in zip(heads, values, strict=True):
        sheet.text(x, 276, head, size=8, colour=0x555555)
        sheet.text(x, 296, value, bold=True)
    sheet.rule(_LEFT, 281, _RIGHT, 281)
    y = sheet.pairs(_LEFT, 326, _execution(note, terms), gap=150)
    y += 16
    for label, amount, sign, currency in _sums(note, terms):
        sheet.text(_LEFT, y, label)
        mark = "-" if sign < 0 or note.direction == "buy" else ""
        sheet.text(_RIGHT - 26, y, f"{number(amount, note.language)}{mark}", align="right")
        sheet.text(_RIGHT, y, currency, align="right")
        y += 15
    sheet.rule(_LEFT, y - 6, _RIGHT, y - 6)
    sheet.text(_LEFT, y + 10, _net_label(note, terms), bold=True, size=11)
    mark = "-" if note.direction == "buy" else ""
    sheet.text(
        _RIGHT - 30, y + 10, f"{number(note.net, note.language)}{mark}", bold=True, size=11, align="right"
    )
    sheet.text(_RIGHT, y + 10, note.currency, bold=True, size=11, align="right")
    sheet.text(_LEFT, y + 40, f"{terms['cash_account']} {spaced(note.cash_account)}")
    sheet.text(_LEFT, 800, terms["unsigned"], size=7.5, colour=0x555555)
    return sheet


def _brief(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """A letter with dotted leaders."""
    sheet = PageDrawing(family="serif", size=11)
    sheet.text(WIDTH / 2, 64, note.broker.name, size=20, align="centre")
    sheet.text(WIDTH / 2, 82, f"{note.broker.street} · {note.broker.place}", size=9, align="centre")
    sheet.rule(_LEFT, 94, _RIGHT, 94)
    sheet.text(_LEFT, 134, note.client)
    sheet.text(_RIGHT, 134, long_date(note.traded, note.language), align="right")
    sheet.text(_LEFT, 190, _title(note, terms), bold=True, size=13)
    sheet.text(_LEFT, 216, terms["done"])
    rows = [*_references(note, terms), *_paper(note, terms), *_execution(note, terms), *_priced(note, terms)]
    rows.append((_net_label(note, terms), price(note.net, note.currency, note.language)))
    y = 246
    for label, value in rows:
        sheet.text(_LEFT, y, label)
        dots = max(3, round((_RIGHT - _LEFT - 5.4 * (len(label) + len(value))) / 2.75))
        sheet.text(
            (_LEFT + _RIGHT) / 2 + 2.7 * (len(label) - len(value)),
            y,
            "." * dots,
            align="centre",
            colour=0xAAAAAA,
        )
        sheet.text(_RIGHT, y, value, align="right", bold=label == rows[-1][0])
        y += 17
    sheet.text(_LEFT, y + 20, f"{terms['cash_account']}: {spaced(note.cash_account)}")
    sheet.text(_LEFT, y + 60, terms["unsigned"], size=9)
    return sheet


def _slip(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """A dealing slip in fixed width."""
    sheet = PageDrawing(family="mono", size=9)
    sheet.text(_LEFT, 56, note.broker.name.upper(), bold=True, size=12)
    sheet.text(_LEFT, 70, f"{note.broker.street}, {note.broker.place}")
    sheet.text(_LEFT, 96, "=" * 88)
    sheet.text(_LEFT, 110, _title(note, terms).upper(), bold=True)
    sheet.text(_LEFT, 122, "=" * 88)
    y = sheet.pairs(_LEFT, 142, ((terms["client"], note.client), *_references(note, terms)), gap=170, step=13)
    sheet.text(_LEFT, y, "-" * 88)
    y = sheet.pairs(_LEFT, y + 16, (*_paper(note, terms), *_execution(note, terms)), gap=170, step=13)
    sheet.text(_LEFT, y, "-" * 88)
    y += 16
    for label, amount, sign, currency in _sums(note, terms):
        sheet.text(_LEFT, y, label)
        sheet.text(330, y, currency)
        sheet.text(450, y, f"{'-' if sign < 0 else ' '}{number(amount, note.language)}", align="right")
        y += 13
    sheet.text(330, y, "-" * 23)
    sheet.text(_LEFT, y + 13, _net_label(note, terms), bold=True)
    sheet.text(330, y + 13, note.currency, bold=True)
    sheet.text(450, y + 13, number(note.net, note.language), bold=True, align="right")
    sheet.text(330, y + 26, "=" * 23)
    sheet.pairs(_LEFT, y + 56, ((terms["cash_account"], note.cash_account),), gap=170)
    sheet.text(_LEFT, y + 90, terms["unsigned"], size=7)
    return sheet


def _statement(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """A wide table with a dark head; charges in columns."""
    sheet = PageDrawing(size=8.5)
    sheet.text(40, 58, note.broker.name, size=16, bold=True, colour=0x123A5E)
    sheet.text(555, 58, _title(note, terms), size=13, align="right")
    sheet.rule(40, 70, 555, 70, width=1.5, colour=0x123A5E)
    sheet.text(40, 92, note.client, bold=True)
    sheet.pairs(330, 92, _references(note, terms), gap=225, step=13, right=True)
    y = _band(sheet, 200, (
        (terms["direction"], _direction(note, terms)),
        (terms["quantity"], number(note.quantity, note.language)),
        (terms["security"], note.security.name), (terms["ticker"], note.security.ticker),
        (terms["isin"], note.security.isin),
    ), (40, 90, 190, 345, 430))  # fmt: skip
    y = _band(sheet, y + 12, (
        (terms["price"], price(note.price, note.security.currency, note.language)),
        (terms["gross"], price(note.gross, note.security.currency, note.language)),
        (terms["traded"], f"{short_date(note.traded, note.language)} {note.time}"),
        (terms["settled"], short_date(note.settled, note.language)), (terms["venue"], note.venue),
    ), (40, 135, 240, 350, 440))  # fmt: skip
    y += 20
    for label, amount, sign, currency in _sums(note, terms):
        sheet.text(300, y, label)
        shown = price(amount, currency, note.language, symbol=True)
        sheet.text(555, y, f"({shown})" if sign < 0 else shown, align="right")
        y += 14
    if note.rate != 1:
        sheet.text(300, y, _rate(note, terms)[0])
        sheet.text(555, y, _rate(note, terms)[1], align="right")
        y += 14
    sheet.box(294, y - 4, 267, 22, 0xDDE6EE)
    sheet.text(300, y + 11, _net_label(note, terms), bold=True, size=10)
    sheet.text(
        555,
        y + 11,
        price(note.net, note.currency, note.language, symbol=True),
        bold=True,
        size=10,
        align="right",
    )
    sheet.text(40, y + 60, f"{terms['cash_account']}: {spaced(note.cash_account)}")
    sheet.text(
        40,
        806,
        f"{note.broker.name}, {note.broker.street}, {note.broker.place}. {terms['unsigned']}",
        size=6.5,
    )
    return sheet


def _avis(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Two columns: the trade at the left, the money at the right."""
    sheet = PageDrawing(size=9)
    sheet.text(40, 60, note.broker.name, size=18, bold=True, colour=0x3B5D3A)
    sheet.texts(40, 78, (note.broker.street, note.broker.place, note.broker.mail("contact")), size=8)
    sheet.texts(360, 110, (note.client,), size=10.5)
    sheet.box(40, 160, 515, 26, 0xE9F0E6)
    sheet.text(50, 177, _title(note, terms), size=12, bold=True, colour=0x3B5D3A)
    sheet.text(40, 212, terms["done"])
    facts = (*_references(note, terms), *_paper(note, terms), *_execution(note, terms))
    sheet.pairs(40, 240, facts, gap=110, step=16)
    y = 240
    for label, amount, sign, currency in _sums(note, terms):
        sheet.text(320, y, label)
        sheet.text(
            555, y, f"{'-' if sign < 0 else ''}{price(amount, currency, note.language)}", align="right"
        )
        y += 16
    sheet.rule(320, y - 4, 555, y - 4, colour=0x3B5D3A)
    sheet.text(320, y + 12, _net_label(note, terms), bold=True)
    sheet.text(555, y + 12, price(note.net, note.currency, note.language), bold=True, align="right")
    sheet.text(320, y + 40, terms["cash_account"])
    sheet.text(320, y + 54, spaced(note.cash_account))
    sheet.text(40, 800, terms["unsigned"], size=7.5)
    return sheet


def _grid(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Everything in framed cells, label above value."""
    sheet = PageDrawing(size=9)
    sheet.text(40, 56, note.broker.name, size=14, bold=True)
    sheet.text(555, 56, f"{note.broker.street}, {note.broker.place}", align="right", size=8)
    sheet.text(40, 92, _title(note, terms), size=13, bold=True)
    cells = [
        (terms["client"], note.client),
        *_references(note, terms),
        *_paper(note, terms),
        *_execution(note, terms),
        (terms["cash_account"], spaced(note.cash_account)),
        *_priced(note, terms),
        (_net_label(note, terms), price(note.net, note.currency, note.language)),
    ]
    for place, (label, value) in enumerate(cells):
        x, y = 40 + place % 2 * 258, 112 + place // 2 * 36
        last = place == len(cells) - 1
        if last:
            sheet.box(x, y, 257, 36, 0xFFF2CC)
        sheet.frame(x, y, 257, 36)
        sheet.text(x + 8, y + 13, label, size=7.5, colour=0x555555)
        sheet.text(x + 8, y + 28, value, size=10.5, bold=last)
    sheet.text(40, 800, terms["unsigned"], size=7.5)
    return sheet


_LAYOUTS: dict[str, Callable[[ContractNote, DocumentTerms], PageDrawing]] = {
    "register": _register,
    "brief": _brief,
    "slip": _slip,
    "statement": _statement,
    "avis": _avis,
    "grid": _grid,
}


def _direction(note: ContractNote, terms: DocumentTerms) -> str:
    return terms[note.direction]


def _title(note: ContractNote, terms: DocumentTerms) -> str:
    return terms["title"].format(direction=_direction(note, terms))


def _net_label(note: ContractNote, terms: DocumentTerms) -> str:
    return terms[f"net_{note.direction}"]


def _quantity(note: ContractNote, terms: DocumentTerms) -> str:
    return f"{number(note.quantity, note.language)} {terms['units']}"


def _rate(note: ContractNote, terms: DocumentTerms) -> tuple[str, str]:
    pair = f"{note.security.currency}/{note.currency}"
    return f"{terms['rate']} {pair}", number(note.rate, note.language)


def _references(note: ContractNote, terms: DocumentTerms) -> Pairs:
    return (
        (terms["number"], note.number),
        (terms["order_number"], note.order_number),
        (terms["account"], note.account),
        (terms["date"], short_date(note.traded, note.language)),
    )


def _paper(note: ContractNote, terms: DocumentTerms) -> Pairs:
    return (
        (terms["direction"], _direction(note, terms)),
        (terms["security"], note.security.name),
        (terms["isin"], note.security.isin),
        (terms["ticker"], note.security.ticker),
        (terms["quantity"], number(note.quantity, note.language)),
    )


def _execution(note: ContractNote, terms: DocumentTerms) -> Pairs:
    rows = [
        (terms["price"], price(note.price, note.security.currency, note.language)),
        (terms["venue"], note.venue),
        (terms["traded"], short_date(note.traded, note.language)),
        (terms["time"], note.time),
        (terms["settled"], short_date(note.settled, note.language)),
    ]
    if note.rate != 1:
        rows.append(_rate(note, terms))
    return rows


def _sums(note: ContractNote, terms: DocumentTerms) -> list[tuple[str, Decimal, int, str]]:
    """From the gross to the net: label, amount, whether it adds (1) or takes away (-1), currency."""
    rows = [(terms["gross"], note.gross, 1, note.security.currency)]
    if note.rate != 1:
        rows.append((terms["value"].format(currency=note.currency), note.value, 1, note.currency))
    sign = 1 if note.direction == "buy" else -1
    rows += [(terms[charge.name], charge.amount, sign, note.currency) for charge in (*note.fees, *note.taxes)]
    return rows


def _priced(note: ContractNote, terms: DocumentTerms) -> Pairs:
    return [
        (label, f"{'-' if sign < 0 else ''}{price(amount, currency, note.language)}")
        for label, amount, sign, currency in _sums(note, terms)
    ]


def _band(sheet: PageDrawing, y: float, pairs: Pairs, places: Sequence[float]) -> float:
    """A dark line of labels over a line of values."""
    sheet.box(36, y - 12, 523, 17, 0x123A5E)
    for (label, value), x in zip(pairs, places, strict=True):
        sheet.text(x, y, label, size=8, bold=True, colour=0xFFFFFF)
        sheet.text(x, y + 19, value)
    return y + 38
