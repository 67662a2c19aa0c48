"""Letters that bring business documents: invoices and contract notes in every form they travel in."""

import functools
from dataclasses import replace
from datetime import timedelta

from mailsim.samples import contract_notes, invoices
from mailsim.samples.attachment_messages import archive
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, attachment, boundary, enclosed, letter, multipart, text
from mailsim.samples.page_drawing import PageDrawing
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits

_PDF = "application/pdf"
_INVOICE_NAMES = {"de": "Rechnung", "en": "Invoice", "fr": "Facture"}
_NOTE_NAMES = {"de": "Abrechnung", "en": "ContractNote", "fr": "AvisOpere"}
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "tiff": "image/tiff", "pdf": _PDF}
_ENDINGS = {"png": "png", "jpeg": "jpg", "tiff": "tif", "pdf": "pdf"}


def invoice(order: MessageSpec) -> bytes:
    return cover(order, attachment(_invoice_name(order, "pdf"), _PDF, invoice_pdf(order)))


def invoice_scan(order: MessageSpec) -> bytes:
    return cover(order, _scanned(order))


def invoice_facturx(order: MessageSpec) -> bytes:
    return cover(order, attachment(_invoice_name(order, "pdf"), _PDF, facturx_pdf(order)))


def invoice_xrechnung(order: MessageSpec) -> bytes:
    """The XML is the invoice, the PDF only shows it."""
    from mailsim.samples.cii import cii
    from mailsim.samples.ubl import ubl

    bill = invoices.invoice(order)
    xml = ubl(bill) if order.variant == "ubl" else cii(bill, "xrechnung")
    return cover(
        order,
        attachment(_invoice_name(order, "xml"), "application/xml", xml),
        attachment(_invoice_name(order, "pdf"), _PDF, invoice_pdf(order)),
    )


def invoice_zip(order: MessageSpec) -> bytes:
    """`flat`: several invoices in one archive. `nested`: the archive inside a folder and an archive."""
    files = {_invoice_name(inside, "pdf"): invoice_pdf(inside) for inside in zipped_orders(order)}
    data = archive(files)
    if order.variant == "nested":
        data = archive({"2024/Belege.zip": data, "2024/lies mich.txt": b"Siehe Belege.zip\r\n"})
    return cover(order, attachment("Belege.zip", "application/zip", data))


def zipped_orders(order: MessageSpec) -> list[MessageSpec]:
    """The orders whose invoices an archive holds."""
    count = 2 + order.seed % 3
    return [
        replace(order, seed=mix_bits(order.seed + place + 1), kind="invoice", variant="boxed")
        for place in range(count)
    ]


def invoice_forwarded(order: MessageSpec) -> bytes:
    """A colleague forwards the supplier's letter, the invoice inside it."""
    message = enclosed(invoice(forwarded_order(order)), "invoice.eml")
    return letter(order, multipart("mixed", (_note(order), message), boundary(order.seed, 1)))


def forwarded_order(order: MessageSpec) -> MessageSpec:
    """The order for the supplier's letter inside the forwarded one."""
    return MessageSpec(
        seed=order.seed,
        kind="invoice",
        variant="modern",
        language=order.language,
        to=(order.sender,),
        date=order.date - timedelta(hours=1 + order.seed % 90),
    )


def contract_note(order: MessageSpec) -> bytes:
    return cover(order, attachment(_note_name(order), _PDF, note_pdf(order)))


def contract_note_scan(order: MessageSpec) -> bytes:
    return cover(order, _scanned(order))


@functools.lru_cache(maxsize=128)
def invoice_pdf(order: MessageSpec, *, embedded: bool = False) -> bytes:
    from mailsim.samples.pdf import pdf

    bill = invoices.invoice(order)
    return pdf(invoice_sheet(order), bill.number, bill.supplier.name, embedded=embedded)


@functools.lru_cache(maxsize=64)
def facturx_pdf(order: MessageSpec) -> bytes:
    from mailsim.samples.cii import cii
    from mailsim.samples.facturx import facturx

    xml = cii(invoices.invoice(order), order.variant)
    return facturx(invoice_pdf(order, embedded=True), xml, order.variant)


@functools.lru_cache(maxsize=128)
def note_pdf(order: MessageSpec) -> bytes:
    from mailsim.samples.pdf import pdf

    note = contract_notes.note(order)
    return pdf(_note_sheet(order), note.number, note.broker.name)


@functools.lru_cache(maxsize=32)
def _scan(order: MessageSpec) -> bytes:
    from mailsim.samples.scans import scan

    sheet = _note_sheet(order) if order.kind == "contract-note-scan" else invoice_sheet(order)
    return scan(sheet, order.seed, order.variant)


def invoice_sheet(order: MessageSpec) -> PageDrawing:
    from mailsim.samples import invoice_layouts

    layouts = invoice_layouts.LAYOUTS
    layout = order.variant if order.variant in layouts else SeededRandom(order.seed, 40).pick(layouts)
    return invoice_layouts.draw(invoices.invoice(order), layout)


def _note_sheet(order: MessageSpec) -> PageDrawing:
    from mailsim.samples import contract_note_layouts

    return contract_note_layouts.draw(contract_notes.note(order))


def _scanned(order: MessageSpec) -> EncodedPart:
    name = f"Scan_{order.date:%Y%m%d}_{order.seed % 10_000:04d}.{_ENDINGS[order.variant]}"
    return attachment(name, _MEDIA[order.variant], _scan(order))


def _invoice_name(order: MessageSpec, ending: str) -> str:
    number = invoices.invoice(order).number.replace("/", "-")
    return f"{_INVOICE_NAMES[order.language]}_{number}.{ending}"


def _note_name(order: MessageSpec) -> str:
    return f"{_NOTE_NAMES[order.language]}_{contract_notes.note(order).number.replace('/', '-')}.pdf"


def cover(order: MessageSpec, *files: EncodedPart, below: str = "") -> bytes:
    """A short letter around the files; `below` stands under it."""
    return letter(order, multipart("mixed", (_note(order, below), *files), boundary(order.seed)))


def _note(order: MessageSpec, below: str = "") -> EncodedPart:
    tongue = PHRASES[order.language]
    greeting = tongue.greetings[order.seed % len(tongue.greetings)]
    return text(f"{greeting}\n\n{tongue.attached}\n\n{tongue.closings[0]}\n{order.sender[0]}\n{below}")
