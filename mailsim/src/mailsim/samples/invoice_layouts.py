"""How invoices look: five layouts, each with its own typeface, order and words."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from mailsim.samples.check_digits import spaced
from mailsim.samples.document_terms import DocumentTerms, invoice_terms
from mailsim.samples.invoices import Invoice, InvoiceLine
from mailsim.samples.localized_formats import long_date, number, percent, price, short_date
from mailsim.samples.page_drawing import HEIGHT, WIDTH, DrawnText, PageDrawing, TableColumn

_LEFT, _RIGHT = 57, 538
_BOTTOM = 730
# Below this a page has no room left for the sums and what follows them.
_ROOM = 600
_WIDE = (
    TableColumn("position", _LEFT), TableColumn("text", 90), TableColumn("quantity", 320, "right"), TableColumn("unit", 330),
    TableColumn("price", 430, "right"), TableColumn("rate", 470, "right"), TableColumn("amount", _RIGHT, "right"),
)  # fmt: skip


def draw(invoice: Invoice, layout: str) -> PageDrawing:
    style = LAYOUTS.index(layout)
    terms = invoice_terms(invoice.language, style)
    sheet = _LAYOUTS[layout](invoice, terms)
    _number_pages(sheet, terms)
    return sheet


def _letterhead(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """A business letter with an address window, facts at the right, the bank in the footer."""
    sheet = PageDrawing()
    firm = invoice.supplier
    sheet.text(_RIGHT, 60, firm.name, size=17, bold=True, align="right", colour=0x224466)
    sheet.text(_LEFT, 128, f"{firm.name} · {firm.street} · {firm.place}", size=6.5, colour=0x555555)
    sheet.rule(_LEFT, 131, 290, 131, width=0.4)
    sheet.texts(_LEFT, 148, _address(invoice), size=10.5)
    sheet.pairs(340, 148, _facts(invoice, terms, long=True), gap=95)
    sheet.text(_LEFT, 268, f"{terms['invoice']} {invoice.number}", size=15, bold=True)
    y = _table(sheet, 300, invoice, terms, _WIDE)
    y = _totals(sheet, y + 8, invoice, terms, left=330)
    sheet.text(_LEFT, y + 24, terms["pay"].format(due=long_date(invoice.due, invoice.language)))
    sheet.text(_LEFT, y + 40, terms["thanks"])
    sheet.rule(_LEFT, 768, _RIGHT, 768, width=0.4)
    contact = (firm.name, firm.street, firm.place)
    bank = (terms["bank"], f"IBAN {spaced(firm.iban)}", f"BIC {firm.bic}")
    legal = (f"{terms['vat_id']} {firm.vat_id}", f"{terms['phone']} {firm.phone}", firm.mail("info"))
    for x, lines in ((_LEFT, contact), (215, bank), (400, legal)):
        sheet.texts(x, 780, lines, size=7, step=9.5, colour=0x444444)
    return sheet


def _modern(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """A coloured band, big figures, currency symbols."""
    sheet = PageDrawing(size=9)
    firm = invoice.supplier
    sheet.box(0, 0, WIDTH, 92, 0x1F6F5C)
    sheet.text(40, 42, firm.name, size=19, bold=True, colour=0xFFFFFF)
    sheet.text(40, 60, f"{firm.street}, {firm.place}  |  {firm.mail('hello')}", size=8, colour=0xD8EEE8)
    sheet.text(555, 50, terms["invoice"].upper(), size=22, bold=True, align="right", colour=0xFFFFFF)
    sheet.text(40, 122, terms["bill_to"], size=8, colour=0x1F6F5C, bold=True)
    sheet.texts(40, 137, _address(invoice), size=9.5)
    sheet.pairs(330, 122, _facts(invoice, terms, long=False), gap=225, right=True)
    sheet.box(330, 226, 225, 34, 0xE7F3F0)
    sheet.text(340, 247, terms["gross"], bold=True, size=10)
    total = price(invoice.gross, invoice.currency, invoice.language, symbol=True)
    sheet.text(548, 248, total, bold=True, size=14, align="right", colour=0x1F6F5C)
    columns = (
        TableColumn("text", 40), TableColumn("quantity", 320, "right"), TableColumn("price", 400, "right"),
        TableColumn("rate", 450, "right"), TableColumn("amount", 555, "right"),
    )  # fmt: skip
    y = _table(sheet, 290, invoice, terms, columns, symbol=True, tint=0xE7F3F0)
    y = _totals(sheet, y + 10, invoice, terms, left=330, right=555, symbol=True)
    sheet.text(40, y + 30, terms["bank"], bold=True, colour=0x1F6F5C)
    sheet.texts(
        40, y + 46, (f"IBAN: {spaced(firm.iban)}", f"BIC: {firm.bic}", f"{terms['vat_id']}: {firm.vat_id}")
    )
    sheet.text(40, y + 100, terms["pay"].format(due=short_date(invoice.due, invoice.language)), size=8)
    return sheet


def _typewriter(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Fixed width, no rules but dashes, as old accounting programs print."""
    sheet = PageDrawing(family="mono", size=9)
    firm = invoice.supplier
    y = sheet.texts(_LEFT, 56, (firm.name, firm.street, firm.place, f"{terms['phone']} {firm.phone}"))
    sheet.text(_LEFT, y, f"{terms['vat_id']} {firm.vat_id}")
    sheet.texts(_LEFT, 150, _address(invoice))
    sheet.text(_LEFT, 226, f"{terms['invoice']}  {invoice.number}", bold=True, size=11)
    y = sheet.pairs(_LEFT, 246, _facts(invoice, terms, long=False), gap=170, step=12)
    columns = (
        TableColumn("position", _LEFT), TableColumn("text", 92), TableColumn("quantity", 340, "right"),
        TableColumn("price", 430, "right"), TableColumn("amount", _RIGHT, "right"),
    )  # fmt: skip
    sheet.text(_LEFT, y + 10, "-" * 89)
    y = _table(sheet, y + 24, invoice, terms, columns, ruled=False)
    sheet.text(_LEFT, y, "-" * 89)
    y = _totals(sheet, y + 14, invoice, terms, left=280)
    sheet.text(_LEFT, y, "=" * 89)
    sheet.text(_LEFT, y + 26, terms["pay"].format(due=short_date(invoice.due, invoice.language)), size=8.5)
    sheet.text(_LEFT, y + 46, f"{terms['bank']}: {firm.iban}  BIC {firm.bic}")
    return sheet


def _boxed(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Serif type and frames around everything."""
    sheet = PageDrawing(family="serif", size=10)
    firm = invoice.supplier
    sheet.frame(40, 36, 515, 84)
    sheet.text(WIDTH / 2, 62, firm.name, size=18, bold=True, align="centre")
    sheet.text(WIDTH / 2, 82, f"{firm.street} - {firm.place} - {firm.land}", align="centre")
    sheet.text(
        WIDTH / 2, 100, f"{terms['vat_id']} {firm.vat_id} - {terms['phone']} {firm.phone}", align="centre"
    )
    sheet.frame(40, 130, 255, 116)
    sheet.text(48, 146, terms["bill_to"], bold=True)
    sheet.texts(48, 164, _address(invoice))
    sheet.frame(300, 130, 255, 116)
    sheet.text(308, 146, terms["invoice"], bold=True, size=12)
    sheet.pairs(308, 163, _facts(invoice, terms, long=True), gap=115, step=13)
    columns = (
        TableColumn("quantity", 85, "right"), TableColumn("unit", 95), TableColumn("text", 150),
        TableColumn("price", 410, "right"), TableColumn("rate", 465, "right"), TableColumn("amount", 548, "right"),
    )  # fmt: skip
    y = _table(sheet, 272, invoice, terms, columns, grid=True)
    y = _totals(sheet, y + 12, invoice, terms, left=310, right=548)
    sheet.frame(40, y + 14, 515, 46)
    sheet.text(48, y + 32, f"{terms['bank']}: IBAN {spaced(firm.iban)}   BIC {firm.bic}", bold=True)
    sheet.text(48, y + 50, terms["pay"].format(due=long_date(invoice.due, invoice.language)))
    return sheet


def _compact(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """The sums first, the lines after them in small print."""
    sheet = PageDrawing(size=8.5)
    firm = invoice.supplier
    sheet.text(_LEFT, 58, firm.name, size=12, bold=True)
    sheet.texts(
        _LEFT, 74, (f"{firm.street}, {firm.place}", firm.mail("billing"), f"{terms['vat_id']} {firm.vat_id}")
    )
    sheet.texts(_RIGHT - 170, 58, _address(invoice))
    sheet.rule(_LEFT, 128, _RIGHT, 128, width=2, colour=0xB03A2E)
    sheet.text(_LEFT, 150, terms["invoice"], size=14, bold=True, colour=0xB03A2E)
    y = sheet.pairs(_LEFT, 170, _facts(invoice, terms, long=True), gap=110, step=12.5)
    _totals(sheet, 170, invoice, terms, left=330)
    sheet.text(_LEFT, y + 8, f"IBAN {spaced(firm.iban)}  BIC {firm.bic}", bold=True)
    columns = (
        TableColumn("position", _LEFT), TableColumn("text", 85), TableColumn("quantity", 330, "right"),
        TableColumn("unit", 340), TableColumn("price", 440, "right"), TableColumn("rate", 478, "right"),
        TableColumn("amount", _RIGHT, "right"),
    )  # fmt: skip
    y = _table(sheet, y + 36, invoice, terms, columns, step=12.5)
    sheet.text(_LEFT, y + 22, terms["pay"].format(due=long_date(invoice.due, invoice.language)), size=8)
    return sheet


_LAYOUTS: dict[str, Callable[[Invoice, DocumentTerms], PageDrawing]] = {
    "letterhead": _letterhead,
    "modern": _modern,
    "typewriter": _typewriter,
    "boxed": _boxed,
    "compact": _compact,
}
LAYOUTS = tuple(_LAYOUTS)


def _address(invoice: Invoice) -> tuple[str, ...]:
    firm = invoice.buyer
    abroad = firm.country != invoice.supplier.country
    return firm.name, firm.street, firm.place, firm.land if abroad else ""


def _facts(invoice: Invoice, terms: DocumentTerms, *, long: bool) -> Sequence[tuple[str, str]]:
    day = long_date if long else short_date
    return (
        (terms["number"], invoice.number),
        (terms["date"], day(invoice.issued, invoice.language)),
        (terms["delivered"], day(invoice.delivered, invoice.language)),
        (terms["customer"], invoice.customer),
        (terms["purchase_order"], invoice.purchase_order),
        (terms["due"], day(invoice.due, invoice.language)),
    )


def _table(
    sheet: PageDrawing,
    y: float,
    invoice: Invoice,
    terms: DocumentTerms,
    columns: Sequence[TableColumn],
    *,
    step: float = 16,
    symbol: bool = False,
    ruled: bool = True,
    grid: bool = False,
    tint: int = 0,
) -> float:
    """The lines, over as many pages as they need; the place below the last one."""
    left, right = columns[0].x, columns[-1].x
    if columns[0].align == "right":
        left = 40
    y = _titles(sheet, y, terms, columns, left, right, step=step, ruled=ruled)
    for position, line in enumerate(invoice.lines, 1):
        if y > _BOTTOM:
            sheet.new_page()
            y = _titles(sheet, 70, terms, columns, left, right, step=step, ruled=ruled)
        if tint and position % 2:
            sheet.box(left - 6, y - step * 0.72, right - left + 12, step, tint)
        cells = _cells(position, line, invoice, symbol=symbol)
        for column in columns:
            sheet.text(column.x, y, cells[column.key], align=column.align)
        if grid:
            sheet.rule(left, y + step * 0.3, 555, y + step * 0.3, width=0.3)
        y += step
    if ruled:
        sheet.rule(left, y - step * 0.5, right, y - step * 0.5)
    return y


def _titles(
    sheet: PageDrawing,
    y: float,
    terms: DocumentTerms,
    columns: Sequence[TableColumn],
    left: float,
    right: float,
    *,
    step: float,
    ruled: bool,
) -> float:
    for column in columns:
        sheet.text(column.x, y, terms[column.key], bold=True, align=column.align)
    if ruled:
        sheet.rule(left, y + 5, right, y + 5)
    return y + step * 1.2


def _cells(position: int, line: InvoiceLine, invoice: Invoice, *, symbol: bool) -> dict[str, str]:
    language = invoice.language

    def shown(value: Decimal) -> str:
        return price(value, invoice.currency, language, symbol=True) if symbol else number(value, language)

    return {
        "position": str(position),
        "text": line.text,
        "quantity": number(line.quantity, language),
        "unit": line.unit,
        "price": shown(line.price),
        "rate": percent(line.rate, language),
        "amount": shown(line.amount),
    }


def _totals(
    sheet: PageDrawing,
    y: float,
    invoice: Invoice,
    terms: DocumentTerms,
    *,
    left: float,
    right: float = _RIGHT,
    symbol: bool = False,
) -> float:
    """Net, each VAT rate, gross; the place below."""
    if y > _ROOM:
        sheet.new_page()
        y = 80

    def shown(value: Decimal) -> str:
        return price(value, invoice.currency, invoice.language, symbol=symbol)

    sheet.text(left, y, terms["net"])
    sheet.text(right, y, shown(invoice.net), align="right")
    for tax in invoice.taxes:
        y += 15
        label = terms["vat"].format(
            rate=percent(tax.rate, invoice.language), base=number(tax.base, invoice.language)
        )
        sheet.text(left, y, label)
        sheet.text(right, y, shown(tax.amount), align="right")
    if len(invoice.taxes) > 1:
        y += 15
        sheet.text(left, y, terms["vat_total"])
        sheet.text(right, y, shown(invoice.vat), align="right")
    y += 8
    sheet.rule(left, y, right, y)
    sheet.text(left, y + 14, terms["gross"], bold=True, size=sheet.size + 1)
    sheet.text(right, y + 14, shown(invoice.gross), bold=True, align="right", size=sheet.size + 1)
    return y + 26


def _number_pages(sheet: PageDrawing, terms: DocumentTerms) -> None:
    if len(sheet.pages) < 2:
        return
    for page, marks in enumerate(sheet.pages, 1):
        label = terms["page"].format(page=page, pages=len(sheet.pages))
        marks.append(DrawnText(_RIGHT, HEIGHT - 14, label, 7, False, "right", 0x444444, sheet.family))
