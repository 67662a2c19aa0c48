"""Invoices that arrive in odd ways: under a wrong name or type, inline, locked, cut off, or not at all."""

import functools

from mailsim.samples.document_messages import cover, invoice_pdf, invoice_sheet
from mailsim.samples.invoices import invoice
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, attachment

PASSWORD = "4711"  # noqa: S105 (it stands in the covering letter of the locked document, as people do)
UNREADABLE = frozenset({"locked", "cut-off", "not-a-pdf", "empty"})


def odd_invoice(order: MessageSpec) -> bytes:
    return cover(order, _file(order), below=f"\nPasswort: {PASSWORD}\n" if order.variant == "locked" else "")


def _file(order: MessageSpec) -> EncodedPart:
    name, media = _LABELS.get(order.variant, ("Rechnung.pdf", "application/pdf"))
    return attachment(name, media, _content(order), inline=order.variant == "inline")


_LABELS = {
    "octet-stream": ("Rechnung.pdf", "application/octet-stream"),
    "no-ending": ("Rechnung", "application/octet-stream"),
    "upper-case": ("RECHNUNG.PDF", "application/pdf"),
    "wrong-ending": ("rechnung.txt", "text/plain"),
}


def _content(order: MessageSpec) -> bytes:
    match order.variant:
        case "locked":
            return locked_pdf(order)
        case "cut-off":
            return invoice_pdf(order)[:-1500]
        case "not-a-pdf":
            return b"<html><body>Sitzung abgelaufen</body></html>\r\n"
        case "empty":
            return b""
        case _:
            return invoice_pdf(order)


@functools.lru_cache(maxsize=32)
def locked_pdf(order: MessageSpec) -> bytes:
    from mailsim.samples.pdf import pdf

    bill = invoice(order)
    return pdf(invoice_sheet(order), bill.number, bill.supplier.name, password=PASSWORD)
