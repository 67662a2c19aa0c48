"""Writers of messages with invoices and contract notes in every delivery format, and their PDF files.

The documents' data and layouts are in other modules. Odd files are in `unusual_invoices`.
"""

import functools
from dataclasses import replace
from datetime import timedelta

from mailsim.samples import contract_notes, invoices
from mailsim.samples.attachment_messages import make_zip
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import (
    EncodedPart,
    build_message,
    embed_message,
    make_attachment,
    make_boundary,
    make_multipart,
    make_text,
)
from mailsim.samples.page_drawing import PageDrawing
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits

_PDF = "application/pdf"
_INVOICE_NAMES = {"de": "Rechnung", "en": "Invoice", "fr": "Facture"}
_NOTE_NAMES = {"de": "Abrechnung", "en": "ContractNote", "fr": "AvisOpere"}
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "tiff": "image/tiff", "pdf": _PDF}
_ENDINGS = {"png": "png", "jpeg": "jpg", "tiff": "tif", "pdf": "pdf"}


def write_invoice(spec: MessageSpec) -> bytes:
    return write_cover_message(
        spec, make_attachment(_get_invoice_filename(spec, "pdf"), _PDF, render_invoice_pdf(spec))
    )


def write_invoice_scan(spec: MessageSpec) -> bytes:
    return write_cover_message(spec, _make_scan_part(spec))


def write_invoice_facturx(spec: MessageSpec) -> bytes:
    return write_cover_message(
        spec, make_attachment(_get_invoice_filename(spec, "pdf"), _PDF, render_facturx_pdf(spec))
    )


def write_invoice_xrechnung(spec: MessageSpec) -> bytes:
    """Write a message with an XRechnung.

    The XML is the invoice; the PDF only visualizes it.
    """
    from mailsim.samples.cii import render_cii
    from mailsim.samples.ubl import render_ubl

    invoice = invoices.make_invoice(spec)
    xml = render_ubl(invoice) if spec.variant == "ubl" else render_cii(invoice, "xrechnung")
    return write_cover_message(
        spec,
        make_attachment(_get_invoice_filename(spec, "xml"), "application/xml", xml),
        make_attachment(_get_invoice_filename(spec, "pdf"), _PDF, render_invoice_pdf(spec)),
    )


def write_invoice_zip(spec: MessageSpec) -> bytes:
    """Write a message with zipped invoices.

    Variant `nested` puts the archive in a folder of another one.
    """
    files = {
        _get_invoice_filename(inner_spec, "pdf"): render_invoice_pdf(inner_spec)
        for inner_spec in list_zipped_specs(spec)
    }
    data = make_zip(files)
    if spec.variant == "nested":
        data = make_zip({"2024/Belege.zip": data, "2024/lies mich.txt": b"Siehe Belege.zip\r\n"})
    return write_cover_message(spec, make_attachment("Belege.zip", "application/zip", data))


def list_zipped_specs(spec: MessageSpec) -> list[MessageSpec]:
    """List the specs of the invoices in an archive."""
    count = 2 + spec.seed % 3
    return [
        replace(spec, seed=mix_bits(spec.seed + place + 1), kind="invoice", variant="boxed")
        for place in range(count)
    ]


def write_invoice_forwarded(spec: MessageSpec) -> bytes:
    """Write a message in which a colleague forwards a supplier's invoice message."""
    message = embed_message(write_invoice(make_forwarded_spec(spec)), "invoice.eml")
    return build_message(
        spec, make_multipart("mixed", (_make_cover_text(spec), message), make_boundary(spec.seed, 1))
    )


def make_forwarded_spec(spec: MessageSpec) -> MessageSpec:
    """Make the spec of the supplier's message inside the forwarding one."""
    return MessageSpec(
        seed=spec.seed,
        kind="invoice",
        variant="modern",
        language=spec.language,
        to=(spec.sender,),
        date=spec.date - timedelta(hours=1 + spec.seed % 90),
    )


def write_contract_note(spec: MessageSpec) -> bytes:
    return write_cover_message(
        spec, make_attachment(_get_contract_note_filename(spec), _PDF, render_contract_note_pdf(spec))
    )


def write_contract_note_scan(spec: MessageSpec) -> bytes:
    return write_cover_message(spec, _make_scan_part(spec))


@functools.lru_cache(maxsize=128)
def render_invoice_pdf(spec: MessageSpec, *, embedded: bool = False) -> bytes:
    from mailsim.samples.pdf import render_pdf

    invoice = invoices.make_invoice(spec)
    return render_pdf(draw_invoice_pages(spec), invoice.number, invoice.supplier.name, embedded=embedded)


@functools.lru_cache(maxsize=64)
def render_facturx_pdf(spec: MessageSpec) -> bytes:
    from mailsim.samples.cii import render_cii
    from mailsim.samples.facturx import render_facturx

    xml = render_cii(invoices.make_invoice(spec), spec.variant)
    return render_facturx(render_invoice_pdf(spec, embedded=True), xml, spec.variant)


@functools.lru_cache(maxsize=128)
def render_contract_note_pdf(spec: MessageSpec) -> bytes:
    from mailsim.samples.pdf import render_pdf

    note = contract_notes.make_contract_note(spec)
    return render_pdf(_draw_contract_note_pages(spec), note.number, note.broker.name)


@functools.lru_cache(maxsize=32)
def _make_scan(spec: MessageSpec) -> bytes:
    from mailsim.samples.scans import make_scan

    drawing = (
        _draw_contract_note_pages(spec) if spec.kind == "contract-note-scan" else draw_invoice_pages(spec)
    )
    return make_scan(drawing, spec.seed, spec.variant)


def draw_invoice_pages(spec: MessageSpec) -> PageDrawing:
    from mailsim.samples import invoice_layouts

    layouts = invoice_layouts.LAYOUTS
    layout = spec.variant if spec.variant in layouts else SeededRandom(spec.seed, 40).pick(layouts)
    return invoice_layouts.draw_invoice(invoices.make_invoice(spec), layout)


def _draw_contract_note_pages(spec: MessageSpec) -> PageDrawing:
    from mailsim.samples import contract_note_layouts

    return contract_note_layouts.draw_contract_note(contract_notes.make_contract_note(spec))


def _make_scan_part(spec: MessageSpec) -> EncodedPart:
    name = f"Scan_{spec.date:%Y%m%d}_{spec.seed % 10_000:04d}.{_ENDINGS[spec.variant]}"
    return make_attachment(name, _MEDIA[spec.variant], _make_scan(spec))


def _get_invoice_filename(spec: MessageSpec, ending: str) -> str:
    number = invoices.make_invoice(spec).number.replace("/", "-")
    return f"{_INVOICE_NAMES[spec.language]}_{number}.{ending}"


def _get_contract_note_filename(spec: MessageSpec) -> str:
    return (
        f"{_NOTE_NAMES[spec.language]}_{contract_notes.make_contract_note(spec).number.replace('/', '-')}.pdf"
    )


def write_cover_message(spec: MessageSpec, *files: EncodedPart, below: str = "") -> bytes:
    """Write a short cover message with the files attached.

    `below` is appended to its text.
    """
    return build_message(
        spec, make_multipart("mixed", (_make_cover_text(spec, below), *files), make_boundary(spec.seed))
    )


def _make_cover_text(spec: MessageSpec, below: str = "") -> EncodedPart:
    phrases = PHRASES[spec.language]
    greeting = phrases.greetings[spec.seed % len(phrases.greetings)]
    return make_text(f"{greeting}\n\n{phrases.attached}\n\n{phrases.closings[0]}\n{spec.sender[0]}\n{below}")
