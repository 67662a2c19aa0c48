"""Page layouts of a ContractNote: six brokers, each with its own layout and terms, in three languages.

They draw; `contract_notes` has the data, `pdf` and `scans` render the drawing.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

from mailsim.samples.check_digits import group_digits
from mailsim.samples.contract_notes import ContractNote
from mailsim.samples.document_terms import DocumentTerms, get_contract_note_terms
from mailsim.samples.localized_formats import format_long_date, format_number, format_price, format_short_date
from mailsim.samples.page_drawing import WIDTH, PageDrawing

_LEFT, _RIGHT = 57, 538
Pairs = Sequence[tuple[str, str]]


def draw_contract_note(note: ContractNote) -> PageDrawing:
    terms = get_contract_note_terms(note.language, tuple(_LAYOUTS).index(note.layout))
    return _LAYOUTS[note.layout](note, terms)


def _draw_register(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Draw a bank form: the trade in one ruled row, charges below with a trailing minus on debits."""
    drawing = PageDrawing()
    drawing.box(_LEFT, 40, 22, 22, 0x9C1C2E)
    drawing.text(_LEFT + 30, 57, note.broker.name, size=15, bold=True, colour=0x9C1C2E)
    drawing.text(
        _RIGHT, 57, f"{note.broker.street}, {note.broker.city_line}", size=7.5, align="right", colour=0x555555
    )
    drawing.texts(_LEFT, 130, (note.client,), size=10.5)
    drawing.pairs(330, 130, _list_references(note, terms), gap=100)
    drawing.text(_LEFT, 246, _format_title(note, terms), size=14, bold=True)
    heads = (
        (terms["quantity"], _LEFT),
        (terms["security"], 150),
        (terms["isin"], 330),
        (terms["ticker"], 450),
    )
    values = (_format_quantity(note, terms), note.security.name, note.security.isin, note.security.ticker)
    for (head, x), value in zip(heads, values, strict=True):
        drawing.text(x, 276, head, size=8, colour=0x555555)
        drawing.text(x, 296, value, bold=True)
    drawing.rule(_LEFT, 281, _RIGHT, 281)
    y = drawing.pairs(_LEFT, 326, _list_execution_details(note, terms), gap=150)
    y += 16
    for label, amount, sign, currency in _list_amounts(note, terms):
        drawing.text(_LEFT, y, label)
        mark = "-" if sign < 0 or note.direction == "buy" else ""
        drawing.text(_RIGHT - 26, y, f"{format_number(amount, note.language)}{mark}", align="right")
        drawing.text(_RIGHT, y, currency, align="right")
        y += 15
    drawing.rule(_LEFT, y - 6, _RIGHT, y - 6)
    drawing.text(_LEFT, y + 10, _get_net_label(note, terms), bold=True, size=11)
    mark = "-" if note.direction == "buy" else ""
    drawing.text(
        _RIGHT - 30,
        y + 10,
        f"{format_number(note.net, note.language)}{mark}",
        bold=True,
        size=11,
        align="right",
    )
    drawing.text(_RIGHT, y + 10, note.currency, bold=True, size=11, align="right")
    drawing.text(_LEFT, y + 40, f"{terms['cash_account']} {group_digits(note.cash_account)}")
    drawing.text(_LEFT, 800, terms["unsigned"], size=7.5, colour=0x555555)
    return drawing


def _draw_brief(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Draw serif type with dotted leaders."""
    drawing = PageDrawing(family="serif", size=11)
    drawing.text(WIDTH / 2, 64, note.broker.name, size=20, align="centre")
    drawing.text(WIDTH / 2, 82, f"{note.broker.street} · {note.broker.city_line}", size=9, align="centre")
    drawing.rule(_LEFT, 94, _RIGHT, 94)
    drawing.text(_LEFT, 134, note.client)
    drawing.text(_RIGHT, 134, format_long_date(note.traded, note.language), align="right")
    drawing.text(_LEFT, 190, _format_title(note, terms), bold=True, size=13)
    drawing.text(_LEFT, 216, terms["done"])
    rows = [
        *_list_references(note, terms),
        *_list_security_details(note, terms),
        *_list_execution_details(note, terms),
        *_format_amounts(note, terms),
    ]
    rows.append((_get_net_label(note, terms), format_price(note.net, note.currency, note.language)))
    y = 246
    for label, value in rows:
        drawing.text(_LEFT, y, label)
        dots = max(3, round((_RIGHT - _LEFT - 5.4 * (len(label) + len(value))) / 2.75))
        drawing.text(
            (_LEFT + _RIGHT) / 2 + 2.7 * (len(label) - len(value)),
            y,
            "." * dots,
            align="centre",
            colour=0xAAAAAA,
        )
        drawing.text(_RIGHT, y, value, align="right", bold=label == rows[-1][0])
        y += 17
    drawing.text(_LEFT, y + 20, f"{terms['cash_account']}: {group_digits(note.cash_account)}")
    drawing.text(_LEFT, y + 60, terms["unsigned"], size=9)
    return drawing


def _draw_slip(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Draw a dealing slip in a monospaced font."""
    drawing = PageDrawing(family="mono", size=9)
    drawing.text(_LEFT, 56, note.broker.name.upper(), bold=True, size=12)
    drawing.text(_LEFT, 70, f"{note.broker.street}, {note.broker.city_line}")
    drawing.text(_LEFT, 96, "=" * 88)
    drawing.text(_LEFT, 110, _format_title(note, terms).upper(), bold=True)
    drawing.text(_LEFT, 122, "=" * 88)
    y = drawing.pairs(
        _LEFT, 142, ((terms["client"], note.client), *_list_references(note, terms)), gap=170, step=13
    )
    drawing.text(_LEFT, y, "-" * 88)
    y = drawing.pairs(
        _LEFT,
        y + 16,
        (*_list_security_details(note, terms), *_list_execution_details(note, terms)),
        gap=170,
        step=13,
    )
    drawing.text(_LEFT, y, "-" * 88)
    y += 16
    for label, amount, sign, currency in _list_amounts(note, terms):
        drawing.text(_LEFT, y, label)
        drawing.text(330, y, currency)
        drawing.text(
            450, y, f"{'-' if sign < 0 else ' '}{format_number(amount, note.language)}", align="right"
        )
        y += 13
    drawing.text(330, y, "-" * 23)
    drawing.text(_LEFT, y + 13, _get_net_label(note, terms), bold=True)
    drawing.text(330, y + 13, note.currency, bold=True)
    drawing.text(450, y + 13, format_number(note.net, note.language), bold=True, align="right")
    drawing.text(330, y + 26, "=" * 23)
    drawing.pairs(_LEFT, y + 56, ((terms["cash_account"], note.cash_account),), gap=170)
    drawing.text(_LEFT, y + 90, terms["unsigned"], size=7)
    return drawing


def _draw_statement(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Draw a wide table with a dark header; charges in columns."""
    drawing = PageDrawing(size=8.5)
    drawing.text(40, 58, note.broker.name, size=16, bold=True, colour=0x123A5E)
    drawing.text(555, 58, _format_title(note, terms), size=13, align="right")
    drawing.rule(40, 70, 555, 70, width=1.5, colour=0x123A5E)
    drawing.text(40, 92, note.client, bold=True)
    drawing.pairs(330, 92, _list_references(note, terms), gap=225, step=13, right=True)
    y = _draw_band(drawing, 200, (
        (terms["direction"], _get_direction_label(note, terms)),
        (terms["quantity"], format_number(note.quantity, note.language)),
        (terms["security"], note.security.name), (terms["ticker"], note.security.ticker),
        (terms["isin"], note.security.isin),
    ), (40, 90, 190, 345, 430))  # fmt: skip
    y = _draw_band(drawing, y + 12, (
        (terms["price"], format_price(note.price, note.security.currency, note.language)),
        (terms["gross"], format_price(note.gross, note.security.currency, note.language)),
        (terms["traded"], f"{format_short_date(note.traded, note.language)} {note.time}"),
        (terms["settled"], format_short_date(note.settled, note.language)), (terms["venue"], note.venue),
    ), (40, 135, 240, 350, 440))  # fmt: skip
    y += 20
    for label, amount, sign, currency in _list_amounts(note, terms):
        drawing.text(300, y, label)
        price_text = format_price(amount, currency, note.language, symbol=True)
        drawing.text(555, y, f"({price_text})" if sign < 0 else price_text, align="right")
        y += 14
    if note.rate != 1:
        drawing.text(300, y, _format_exchange_rate(note, terms)[0])
        drawing.text(555, y, _format_exchange_rate(note, terms)[1], align="right")
        y += 14
    drawing.box(294, y - 4, 267, 22, 0xDDE6EE)
    drawing.text(300, y + 11, _get_net_label(note, terms), bold=True, size=10)
    drawing.text(
        555,
        y + 11,
        format_price(note.net, note.currency, note.language, symbol=True),
        bold=True,
        size=10,
        align="right",
    )
    drawing.text(40, y + 60, f"{terms['cash_account']}: {group_digits(note.cash_account)}")
    drawing.text(
        40,
        806,
        f"{note.broker.name}, {note.broker.street}, {note.broker.city_line}. {terms['unsigned']}",
        size=6.5,
    )
    return drawing


def _draw_avis(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Draw two columns: the trade on the left, the amounts on the right."""
    drawing = PageDrawing(size=9)
    drawing.text(40, 60, note.broker.name, size=18, bold=True, colour=0x3B5D3A)
    drawing.texts(40, 78, (note.broker.street, note.broker.city_line, note.broker.email("contact")), size=8)
    drawing.texts(360, 110, (note.client,), size=10.5)
    drawing.box(40, 160, 515, 26, 0xE9F0E6)
    drawing.text(50, 177, _format_title(note, terms), size=12, bold=True, colour=0x3B5D3A)
    drawing.text(40, 212, terms["done"])
    facts = (
        *_list_references(note, terms),
        *_list_security_details(note, terms),
        *_list_execution_details(note, terms),
    )
    drawing.pairs(40, 240, facts, gap=110, step=16)
    y = 240
    for label, amount, sign, currency in _list_amounts(note, terms):
        drawing.text(320, y, label)
        drawing.text(
            555, y, f"{'-' if sign < 0 else ''}{format_price(amount, currency, note.language)}", align="right"
        )
        y += 16
    drawing.rule(320, y - 4, 555, y - 4, colour=0x3B5D3A)
    drawing.text(320, y + 12, _get_net_label(note, terms), bold=True)
    drawing.text(555, y + 12, format_price(note.net, note.currency, note.language), bold=True, align="right")
    drawing.text(320, y + 40, terms["cash_account"])
    drawing.text(320, y + 54, group_digits(note.cash_account))
    drawing.text(40, 800, terms["unsigned"], size=7.5)
    return drawing


def _draw_grid(note: ContractNote, terms: DocumentTerms) -> PageDrawing:
    """Everything in framed cells, label above value."""
    drawing = PageDrawing(size=9)
    drawing.text(40, 56, note.broker.name, size=14, bold=True)
    drawing.text(555, 56, f"{note.broker.street}, {note.broker.city_line}", align="right", size=8)
    drawing.text(40, 92, _format_title(note, terms), size=13, bold=True)
    cells = [
        (terms["client"], note.client),
        *_list_references(note, terms),
        *_list_security_details(note, terms),
        *_list_execution_details(note, terms),
        (terms["cash_account"], group_digits(note.cash_account)),
        *_format_amounts(note, terms),
        (_get_net_label(note, terms), format_price(note.net, note.currency, note.language)),
    ]
    for position, (label, value) in enumerate(cells):
        x, y = 40 + position % 2 * 258, 112 + position // 2 * 36
        last = position == len(cells) - 1
        if last:
            drawing.box(x, y, 257, 36, 0xFFF2CC)
        drawing.frame(x, y, 257, 36)
        drawing.text(x + 8, y + 13, label, size=7.5, colour=0x555555)
        drawing.text(x + 8, y + 28, value, size=10.5, bold=last)
    drawing.text(40, 800, terms["unsigned"], size=7.5)
    return drawing


_LAYOUTS: dict[str, Callable[[ContractNote, DocumentTerms], PageDrawing]] = {
    "register": _draw_register,
    "brief": _draw_brief,
    "slip": _draw_slip,
    "statement": _draw_statement,
    "avis": _draw_avis,
    "grid": _draw_grid,
}


def _get_direction_label(note: ContractNote, terms: DocumentTerms) -> str:
    return terms[note.direction]


def _format_title(note: ContractNote, terms: DocumentTerms) -> str:
    return terms["title"].format(direction=_get_direction_label(note, terms))


def _get_net_label(note: ContractNote, terms: DocumentTerms) -> str:
    return terms[f"net_{note.direction}"]


def _format_quantity(note: ContractNote, terms: DocumentTerms) -> str:
    return f"{format_number(note.quantity, note.language)} {terms['units']}"


def _format_exchange_rate(note: ContractNote, terms: DocumentTerms) -> tuple[str, str]:
    pair = f"{note.security.currency}/{note.currency}"
    return f"{terms['rate']} {pair}", format_number(note.rate, note.language)


def _list_references(note: ContractNote, terms: DocumentTerms) -> Pairs:
    return (
        (terms["number"], note.number),
        (terms["order_number"], note.order_number),
        (terms["account"], note.account),
        (terms["date"], format_short_date(note.traded, note.language)),
    )


def _list_security_details(note: ContractNote, terms: DocumentTerms) -> Pairs:
    return (
        (terms["direction"], _get_direction_label(note, terms)),
        (terms["security"], note.security.name),
        (terms["isin"], note.security.isin),
        (terms["ticker"], note.security.ticker),
        (terms["quantity"], format_number(note.quantity, note.language)),
    )


def _list_execution_details(note: ContractNote, terms: DocumentTerms) -> Pairs:
    rows = [
        (terms["price"], format_price(note.price, note.security.currency, note.language)),
        (terms["venue"], note.venue),
        (terms["traded"], format_short_date(note.traded, note.language)),
        (terms["time"], note.time),
        (terms["settled"], format_short_date(note.settled, note.language)),
    ]
    if note.rate != 1:
        rows.append(_format_exchange_rate(note, terms))
    return rows


def _list_amounts(note: ContractNote, terms: DocumentTerms) -> list[tuple[str, Decimal, int, str]]:
    """List the amounts from gross to net: label, amount, sign (1 or -1) and currency."""
    rows = [(terms["gross"], note.gross, 1, note.security.currency)]
    if note.rate != 1:
        rows.append((terms["value"].format(currency=note.currency), note.value, 1, note.currency))
    sign = 1 if note.direction == "buy" else -1
    rows += [(terms[charge.name], charge.amount, sign, note.currency) for charge in (*note.fees, *note.taxes)]
    return rows


def _format_amounts(note: ContractNote, terms: DocumentTerms) -> Pairs:
    return [
        (label, f"{'-' if sign < 0 else ''}{format_price(amount, currency, note.language)}")
        for label, amount, sign, currency in _list_amounts(note, terms)
    ]


def _draw_band(drawing: PageDrawing, y: float, pairs: Pairs, places: Sequence[float]) -> float:
    """Draw a dark row of labels above a row of values."""
    drawing.box(36, y - 12, 523, 17, 0x123A5E)
    for (label, value), x in zip(pairs, places, strict=True):
        drawing.text(x, y, label, size=8, bold=True, colour=0xFFFFFF)
        drawing.text(x, y + 19, value)
    return y + 38
