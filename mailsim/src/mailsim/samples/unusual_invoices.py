"""Writer of messages with unusual invoice files: misnamed, inline, encrypted, truncated, empty."""

import functools

from mailsim.samples.document_messages import draw_invoice_pages, render_invoice_pdf, write_cover_message
from mailsim.samples.invoices import make_invoice
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, make_attachment

PASSWORD = "4711"  # noqa: S105 (printed in the cover message, as real senders do)
UNREADABLE = frozenset({"locked", "cut-off", "not-a-pdf", "empty"})


def write_unusual_invoice(spec: MessageSpec) -> bytes:
    return write_cover_message(
        spec, _make_file_part(spec), below=f"\nPasswort: {PASSWORD}\n" if spec.variant == "locked" else ""
    )


def _make_file_part(spec: MessageSpec) -> EncodedPart:
    name, media_type = _LABELS.get(spec.variant, ("Rechnung.pdf", "application/pdf"))
    return make_attachment(name, media_type, _make_content(spec), inline=spec.variant == "inline")


_LABELS = {
    "octet-stream": ("Rechnung.pdf", "application/octet-stream"),
    "no-ending": ("Rechnung", "application/octet-stream"),
    "upper-case": ("RECHNUNG.PDF", "application/pdf"),
    "wrong-ending": ("rechnung.txt", "text/plain"),
}


def _make_content(spec: MessageSpec) -> bytes:
    match spec.variant:
        case "locked":
            return render_locked_pdf(spec)
        case "cut-off":
            return render_invoice_pdf(spec)[:-1500]
        case "not-a-pdf":
            return b"<html><body>Sitzung abgelaufen</body></html>\r\n"
        case "empty":
            return b""
        case _:
            return render_invoice_pdf(spec)


@functools.lru_cache(maxsize=32)
def render_locked_pdf(spec: MessageSpec) -> bytes:
    from mailsim.samples.pdf import render_pdf

    invoice = make_invoice(spec)
    return render_pdf(draw_invoice_pages(spec), invoice.number, invoice.supplier.name, password=PASSWORD)
