"""Page layouts of an Invoice: five layouts, each with its own typeface, arrangement and terms.

They draw; `invoices` has the data, `pdf` and `scans` render the drawing.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

from mailsim.samples.check_digits import group_digits
from mailsim.samples.document_terms import DocumentTerms, get_invoice_terms
from mailsim.samples.invoices import Invoice, InvoiceLine
from mailsim.samples.localized_formats import (
    format_long_date,
    format_number,
    format_percent,
    format_price,
    format_short_date,
)
from mailsim.samples.page_drawing import HEIGHT, WIDTH, DrawnText, PageDrawing, TableColumn

_LEFT, _RIGHT = 57, 538
_BOTTOM = 730
# Below this position, a page has no room left for the totals and the text after them.
_ROOM = 600
_WIDE = (
    TableColumn("position", _LEFT),
    TableColumn("text", 90),
    TableColumn("quantity", 320, "right"),
    TableColumn("unit", 330),
    TableColumn("price", 430, "right"),
    TableColumn("rate", 470, "right"),
    TableColumn("amount", _RIGHT, "right"),
)


def draw_invoice(invoice: Invoice, layout: str) -> PageDrawing:
    style = LAYOUTS.index(layout)
    terms = get_invoice_terms(invoice.language, style)
    drawing = _LAYOUTS[layout](invoice, terms)
    _number_pages(drawing, terms)
    return drawing


def _draw_letterhead(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Draw a letterhead with address window, details on the right, bank account in the footer."""
    drawing = PageDrawing()
    firm = invoice.supplier
    drawing.text(_RIGHT, 60, firm.name, size=17, bold=True, align="right", colour=0x224466)
    drawing.text(_LEFT, 128, f"{firm.name} · {firm.street} · {firm.city_line}", size=6.5, colour=0x555555)
    drawing.rule(_LEFT, 131, 290, 131, width=0.4)
    drawing.texts(_LEFT, 148, _format_address(invoice), size=10.5)
    drawing.pairs(340, 148, _list_details(invoice, terms, long=True), gap=95)
    drawing.text(_LEFT, 268, f"{terms['invoice']} {invoice.number}", size=15, bold=True)
    y = _draw_table(drawing, 300, invoice, terms, _WIDE)
    y = _draw_totals(drawing, y + 8, invoice, terms, left=330)
    drawing.text(_LEFT, y + 24, terms["pay"].format(due=format_long_date(invoice.due, invoice.language)))
    drawing.text(_LEFT, y + 40, terms["thanks"])
    drawing.rule(_LEFT, 768, _RIGHT, 768, width=0.4)
    contact = (firm.name, firm.street, firm.city_line)
    bank = (terms["bank"], f"IBAN {group_digits(firm.iban)}", f"BIC {firm.bic}")
    legal = (f"{terms['vat_id']} {firm.vat_id}", f"{terms['phone']} {firm.phone}", firm.email("info"))
    for x, lines in ((_LEFT, contact), (215, bank), (400, legal)):
        drawing.texts(x, 780, lines, size=7, step=9.5, colour=0x444444)
    return drawing


def _draw_modern(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Draw a coloured header, large figures and currency symbols."""
    drawing = PageDrawing(size=9)
    firm = invoice.supplier
    drawing.box(0, 0, WIDTH, 92, 0x1F6F5C)
    drawing.text(40, 42, firm.name, size=19, bold=True, colour=0xFFFFFF)
    drawing.text(
        40, 60, f"{firm.street}, {firm.city_line}  |  {firm.email('hello')}", size=8, colour=0xD8EEE8
    )
    drawing.text(555, 50, terms["invoice"].upper(), size=22, bold=True, align="right", colour=0xFFFFFF)
    drawing.text(40, 122, terms["bill_to"], size=8, colour=0x1F6F5C, bold=True)
    drawing.texts(40, 137, _format_address(invoice), size=9.5)
    drawing.pairs(330, 122, _list_details(invoice, terms, long=False), gap=225, right=True)
    drawing.box(330, 226, 225, 34, 0xE7F3F0)
    drawing.text(340, 247, terms["gross"], bold=True, size=10)
    total = format_price(invoice.gross, invoice.currency, invoice.language, symbol=True)
    drawing.text(548, 248, total, bold=True, size=14, align="right", colour=0x1F6F5C)
    columns = (
        TableColumn("text", 40),
        TableColumn("quantity", 320, "right"),
        TableColumn("price", 400, "right"),
        TableColumn("rate", 450, "right"),
        TableColumn("amount", 555, "right"),
    )
    y = _draw_table(drawing, 290, invoice, terms, columns, symbol=True, tint=0xE7F3F0)
    y = _draw_totals(drawing, y + 10, invoice, terms, left=330, right=555, symbol=True)
    drawing.text(40, y + 30, terms["bank"], bold=True, colour=0x1F6F5C)
    drawing.texts(
        40,
        y + 46,
        (f"IBAN: {group_digits(firm.iban)}", f"BIC: {firm.bic}", f"{terms['vat_id']}: {firm.vat_id}"),
    )
    drawing.text(
        40, y + 100, terms["pay"].format(due=format_short_date(invoice.due, invoice.language)), size=8
    )
    return drawing


def _draw_typewriter(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Draw monospaced text with dashes for rules, as old accounting software prints."""
    drawing = PageDrawing(family="mono", size=9)
    firm = invoice.supplier
    y = drawing.texts(_LEFT, 56, (firm.name, firm.street, firm.city_line, f"{terms['phone']} {firm.phone}"))
    drawing.text(_LEFT, y, f"{terms['vat_id']} {firm.vat_id}")
    drawing.texts(_LEFT, 150, _format_address(invoice))
    drawing.text(_LEFT, 226, f"{terms['invoice']}  {invoice.number}", bold=True, size=11)
    y = drawing.pairs(_LEFT, 246, _list_details(invoice, terms, long=False), gap=170, step=12)
    columns = (
        TableColumn("position", _LEFT),
        TableColumn("text", 92),
        TableColumn("quantity", 340, "right"),
        TableColumn("price", 430, "right"),
        TableColumn("amount", _RIGHT, "right"),
    )
    drawing.text(_LEFT, y + 10, "-" * 89)
    y = _draw_table(drawing, y + 24, invoice, terms, columns, ruled=False)
    drawing.text(_LEFT, y, "-" * 89)
    y = _draw_totals(drawing, y + 14, invoice, terms, left=280)
    drawing.text(_LEFT, y, "=" * 89)
    drawing.text(
        _LEFT, y + 26, terms["pay"].format(due=format_short_date(invoice.due, invoice.language)), size=8.5
    )
    drawing.text(_LEFT, y + 46, f"{terms['bank']}: {firm.iban}  BIC {firm.bic}")
    return drawing


def _draw_boxed(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Draw serif type with frames around all blocks."""
    drawing = PageDrawing(family="serif", size=10)
    firm = invoice.supplier
    drawing.frame(40, 36, 515, 84)
    drawing.text(WIDTH / 2, 62, firm.name, size=18, bold=True, align="centre")
    drawing.text(WIDTH / 2, 82, f"{firm.street} - {firm.city_line} - {firm.country_name}", align="centre")
    drawing.text(
        WIDTH / 2, 100, f"{terms['vat_id']} {firm.vat_id} - {terms['phone']} {firm.phone}", align="centre"
    )
    drawing.frame(40, 130, 255, 116)
    drawing.text(48, 146, terms["bill_to"], bold=True)
    drawing.texts(48, 164, _format_address(invoice))
    drawing.frame(300, 130, 255, 116)
    drawing.text(308, 146, terms["invoice"], bold=True, size=12)
    drawing.pairs(308, 163, _list_details(invoice, terms, long=True), gap=115, step=13)
    columns = (
        TableColumn("quantity", 85, "right"),
        TableColumn("unit", 95),
        TableColumn("text", 150),
        TableColumn("price", 410, "right"),
        TableColumn("rate", 465, "right"),
        TableColumn("amount", 548, "right"),
    )
    y = _draw_table(drawing, 272, invoice, terms, columns, grid=True)
    y = _draw_totals(drawing, y + 12, invoice, terms, left=310, right=548)
    drawing.frame(40, y + 14, 515, 46)
    drawing.text(48, y + 32, f"{terms['bank']}: IBAN {group_digits(firm.iban)}   BIC {firm.bic}", bold=True)
    drawing.text(48, y + 50, terms["pay"].format(due=format_long_date(invoice.due, invoice.language)))
    return drawing


def _draw_compact(invoice: Invoice, terms: DocumentTerms) -> PageDrawing:
    """Draw the totals first and the invoice lines after them in small print."""
    drawing = PageDrawing(size=8.5)
    firm = invoice.supplier
    drawing.text(_LEFT, 58, firm.name, size=12, bold=True)
    drawing.texts(
        _LEFT,
        74,
        (f"{firm.street}, {firm.city_line}", firm.email("billing"), f"{terms['vat_id']} {firm.vat_id}"),
    )
    drawing.texts(_RIGHT - 170, 58, _format_address(invoice))
    drawing.rule(_LEFT, 128, _RIGHT, 128, width=2, colour=0xB03A2E)
    drawing.text(_LEFT, 150, terms["invoice"], size=14, bold=True, colour=0xB03A2E)
    y = drawing.pairs(_LEFT, 170, _list_details(invoice, terms, long=True), gap=110, step=12.5)
    _draw_totals(drawing, 170, invoice, terms, left=330)
    drawing.text(_LEFT, y + 8, f"IBAN {group_digits(firm.iban)}  BIC {firm.bic}", bold=True)
    columns = (
        TableColumn("position", _LEFT),
        TableColumn("text", 85),
        TableColumn("quantity", 330, "right"),
        TableColumn("unit", 340),
        TableColumn("price", 440, "right"),
        TableColumn("rate", 478, "right"),
        TableColumn("amount", _RIGHT, "right"),
    )
    y = _draw_table(drawing, y + 36, invoice, terms, columns, step=12.5)
    drawing.text(
        _LEFT, y + 22, terms["pay"].format(due=format_long_date(invoice.due, invoice.language)), size=8
    )
    return drawing


_LAYOUTS: dict[str, Callable[[Invoice, DocumentTerms], PageDrawing]] = {
    "letterhead": _draw_letterhead,
    "modern": _draw_modern,
    "typewriter": _draw_typewriter,
    "boxed": _draw_boxed,
    "compact": _draw_compact,
}
LAYOUTS = tuple(_LAYOUTS)


def _format_address(invoice: Invoice) -> tuple[str, ...]:
    firm = invoice.buyer
    abroad = firm.country != invoice.supplier.country
    return firm.name, firm.street, firm.city_line, firm.country_name if abroad else ""


def _list_details(invoice: Invoice, terms: DocumentTerms, *, long: bool) -> Sequence[tuple[str, str]]:
    day = format_long_date if long else format_short_date
    return (
        (terms["number"], invoice.number),
        (terms["date"], day(invoice.issued, invoice.language)),
        (terms["delivered"], day(invoice.delivered, invoice.language)),
        (terms["customer"], invoice.customer),
        (terms["purchase_order"], invoice.purchase_order),
        (terms["due"], day(invoice.due, invoice.language)),
    )


def _draw_table(
    drawing: PageDrawing,
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
    """Draw the invoice lines over as many pages as needed.

    Return the position below the last one.
    """
    left, right = columns[0].x, columns[-1].x
    if columns[0].align == "right":
        left = 40
    y = _draw_column_titles(drawing, y, terms, columns, left, right, step=step, ruled=ruled)
    for position, line in enumerate(invoice.lines, 1):
        if y > _BOTTOM:
            drawing.new_page()
            y = _draw_column_titles(drawing, 70, terms, columns, left, right, step=step, ruled=ruled)
        if tint and position % 2:
            drawing.box(left - 6, y - step * 0.72, right - left + 12, step, tint)
        cells = _format_cells(position, line, invoice, symbol=symbol)
        for column in columns:
            drawing.text(column.x, y, cells[column.key], align=column.align)
        if grid:
            drawing.rule(left, y + step * 0.3, 555, y + step * 0.3, width=0.3)
        y += step
    if ruled:
        drawing.rule(left, y - step * 0.5, right, y - step * 0.5)
    return y


def _draw_column_titles(
    drawing: PageDrawing,
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
        drawing.text(column.x, y, terms[column.key], bold=True, align=column.align)
    if ruled:
        drawing.rule(left, y + 5, right, y + 5)
    return y + step * 1.2


def _format_cells(position: int, line: InvoiceLine, invoice: Invoice, *, symbol: bool) -> dict[str, str]:
    language = invoice.language

    def format_amount(value: Decimal) -> str:
        return (
            format_price(value, invoice.currency, language, symbol=True)
            if symbol
            else format_number(value, language)
        )

    return {
        "position": str(position),
        "text": line.text,
        "quantity": format_number(line.quantity, language),
        "unit": line.unit,
        "price": format_amount(line.price),
        "rate": format_percent(line.rate, language),
        "amount": format_amount(line.amount),
    }


def _draw_totals(
    drawing: PageDrawing,
    y: float,
    invoice: Invoice,
    terms: DocumentTerms,
    *,
    left: float,
    right: float = _RIGHT,
    symbol: bool = False,
) -> float:
    """Draw net, VAT per rate and gross; return the position below."""
    if y > _ROOM:
        drawing.new_page()
        y = 80

    def format_amount(value: Decimal) -> str:
        return format_price(value, invoice.currency, invoice.language, symbol=symbol)

    drawing.text(left, y, terms["net"])
    drawing.text(right, y, format_amount(invoice.net), align="right")
    for tax in invoice.taxes:
        y += 15
        label = terms["vat"].format(
            rate=format_percent(tax.rate, invoice.language), base=format_number(tax.base, invoice.language)
        )
        drawing.text(left, y, label)
        drawing.text(right, y, format_amount(tax.amount), align="right")
    if len(invoice.taxes) > 1:
        y += 15
        drawing.text(left, y, terms["vat_total"])
        drawing.text(right, y, format_amount(invoice.vat), align="right")
    y += 8
    drawing.rule(left, y, right, y)
    drawing.text(left, y + 14, terms["gross"], bold=True, size=drawing.size + 1)
    drawing.text(right, y + 14, format_amount(invoice.gross), bold=True, align="right", size=drawing.size + 1)
    return y + 26


def _number_pages(drawing: PageDrawing, terms: DocumentTerms) -> None:
    if len(drawing.pages) < 2:
        return
    for page, marks in enumerate(drawing.pages, 1):
        label = terms["page"].format(page=page, pages=len(drawing.pages))
        marks.append(DrawnText(_RIGHT, HEIGHT - 14, label, 7, False, "right", 0x444444, drawing.family))
