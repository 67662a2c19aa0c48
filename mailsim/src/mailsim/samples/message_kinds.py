"""The table of message kinds: writer function, sender, variants, share of mail. Also their subjects.

The writers are in other modules.
"""

from dataclasses import dataclass

from mailsim.samples.document_numbers import make_contract_note_number, make_invoice_number
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits


@dataclass(frozen=True, slots=True)
class MessageKind:
    """A kind of message.

    `writer` is a module of this package and a function in it, imported with the first message of the kind.
    `weight` is the share of an ordinary mailbox, in thousandths. `personal` kinds may get replies.
    `sender` is person, newsletter, daemon, supplier or broker.
    """

    writer: str
    weight: int
    variants: tuple[str, ...] = ("",)
    personal: bool = False
    sender: str = "person"


_CHARSETS = (
    "us-ascii/7bit",
    "utf-8/quoted-printable",
    "utf-8/base64",
    "utf-8/8bit",
    "iso-8859-1/quoted-printable",
    "iso-8859-1/8bit",
    "iso-8859-2/quoted-printable",
    "iso-8859-7/base64",
    "iso-8859-8/base64",
    "iso-8859-9/quoted-printable",
    "iso-8859-15/quoted-printable",
    "windows-1250/8bit",
    "windows-1251/base64",
    "windows-1252/quoted-printable",
    "windows-1252/8bit",
    "windows-1256/base64",
    "koi8-r/base64",
    "koi8-r/8bit",
    "tis-620/base64",
    "iso-2022-jp/7bit",
    "shift_jis/base64",
    "shift_jis/8bit",
    "euc-jp/base64",
    "gb2312/base64",
    "gb18030/base64",
    "gb18030/8bit",
    "big5/base64",
    "big5/quoted-printable",
    "euc-kr/base64",
    "euc-kr/quoted-printable",
    "utf-16/base64",
)
_ODD_HEADERS = (
    "rfc2231",
    "rfc2231-continued",
    "rfc2231-both",
    "encoded-word-filename",
    "bare-filename",
    "semicolon-filename",
    "words-b",
    "words-q",
    "words-mixed",
    "words-language",
    "folded",
    "repeated",
    "groups",
    "quoted-names",
    "comments",
    "many-recipients",
    "old-date",
    "date-comment",
    "no-subject",
    "empty-subject",
    "on-behalf",
    "resent",
    "bcc-only",
    "utf8-address",
)
_MALFORMED = (
    "utf8-called-ascii",
    "utf8-called-latin1",
    "cp1252-called-utf8",
    "unknown-charset",
    "empty-charset",
    "unknown-encoding",
    "broken-base64",
    "broken-quoted-printable",
    "content-type-garbage",
    "content-type-twice",
    "uuencoded",
    "nul-bytes",
    "long-line",
    "no-final-boundary",
    "cut-in-base64",
    "no-boundary",
    "boundary-prefix",
    "multipart-base64",
    "enclosed-base64",
    "bare-lf",
    "bare-cr",
    "no-message-id",
    "no-date",
    "bad-date",
    "no-from",
    "two-froms",
    "open-quote",
    "space-before-colon",
    "no-colon",
    "mbox-line",
    "raw-utf8-headers",
    "raw-latin1-headers",
    "split-character",
    "unfinished-word",
    "quoted-word",
    "no-body",
    "empty-body",
    "path-filename",
    "long-filename",
    "control-filename",
)
_FILES = ("zip", "vcf", "ics", "csv", "docx", "winmail", "nameless", "bytes", "several", "twins")
_INVOICES = ("letterhead", "modern", "typewriter", "boxed", "compact")
_ODD_INVOICES = (
    "octet-stream",
    "no-ending",
    "upper-case",
    "wrong-ending",
    "inline",
    "locked",
    "cut-off",
    "not-a-pdf",
    "empty",
)
_NOTES = ("register", "brief", "slip", "statement", "avis", "grid")
_SCANS = ("png", "jpeg", "tiff", "pdf")

KINDS: dict[str, MessageKind] = {
    "plain": MessageKind("personal_messages.write_plain", 230, personal=True),
    "html": MessageKind("personal_messages.write_html", 190, personal=True),
    "reply": MessageKind("personal_messages.write_reply", 230, ("text", "html"), personal=True),
    "sent": MessageKind("personal_messages.write_sent", 80, personal=True),
    "newsletter": MessageKind("newsletters.write_newsletter", 130, sender="newsletter"),
    "forward": MessageKind("forwarded_messages.write_forward", 25, ("inline", "attached"), personal=True),
    "nested": MessageKind("forwarded_messages.write_nested", 2),
    "auto-reply": MessageKind("automatic_messages.write_auto_reply", 12, ("vacation", "exchange")),
    "bounce": MessageKind("automatic_messages.write_bounce", 6, ("message", "headers"), sender="daemon"),
    "meeting": MessageKind("meeting_messages.write_meeting", 20, ("request", "cancel")),
    "signed": MessageKind("signed_messages.write_signed", 4, ("smime", "pgp")),
    "charset": MessageKind("charset_messages.write_charset", 15, _CHARSETS),
    "headers": MessageKind("unusual_headers.write_unusual_headers", 6, _ODD_HEADERS),
    "malformed": MessageKind("malformed_messages.write_malformed", 3, _MALFORMED),
    "inline-image": MessageKind(
        "inline_images.write_inline_image", 15, ("related", "only", "between", "bare")
    ),
    "attachment": MessageKind("attachment_messages.write_with_files", 15, _FILES),
    "reference": MessageKind("reference_attachments.write_reference", 2),
    "invoice": MessageKind("document_messages.write_invoice", 30, _INVOICES, sender="supplier"),
    "invoice-scan": MessageKind("document_messages.write_invoice_scan", 2, _SCANS),
    "invoice-facturx": MessageKind(
        "document_messages.write_invoice_facturx", 4, ("en16931", "basic"), sender="supplier"
    ),
    "invoice-xrechnung": MessageKind(
        "document_messages.write_invoice_xrechnung", 3, ("ubl", "cii"), sender="supplier"
    ),
    "invoice-zip": MessageKind(
        "document_messages.write_invoice_zip", 2, ("flat", "nested"), sender="supplier"
    ),
    "invoice-forwarded": MessageKind("document_messages.write_invoice_forwarded", 5),
    "invoice-odd": MessageKind("unusual_invoices.write_unusual_invoice", 2, _ODD_INVOICES, sender="supplier"),
    "other-document": MessageKind(
        "invoice_lookalikes.write_lookalike",
        12,
        ("delivery-note", "offer", "reminder", "brochure"),
        sender="supplier",
    ),
    "contract-note": MessageKind("document_messages.write_contract_note", 8, _NOTES, sender="broker"),
    "contract-note-scan": MessageKind(
        "document_messages.write_contract_note_scan", 1, _SCANS, sender="broker"
    ),
    "big": MessageKind("attachment_messages.write_big", 0),
}


def list_kinds() -> tuple[str, ...]:
    return tuple(KINDS)


def list_variants(kind: str) -> tuple[str, ...]:
    """List the variants of a kind; `("",)` for a kind without variants."""
    try:
        return KINDS[kind].variants
    except KeyError:
        raise ValueError(f"unknown message kind {kind!r}; known kinds: {', '.join(KINDS)}") from None


def choose_variant(kind: str, seed: int) -> str:
    shapes = list_variants(kind)
    return shapes[0] if len(shapes) == 1 else shapes[mix_bits(seed ^ 4) % len(shapes)]


def make_subject(kind: str, seed: int, language: str, year: int) -> str:
    phrases = PHRASES[language]
    if kind.startswith("invoice"):
        return f"{_PREFIXES.get(kind, '')}{phrases.invoice} {make_invoice_number(seed, year)}"
    if kind.startswith("contract-note"):
        return f"{phrases.contract_note} {make_contract_note_number(seed)}"
    rng = SeededRandom(seed, 5)
    if kind == "newsletter":
        return rng.pick(phrases.headlines)
    if kind == "bounce":
        return "Undelivered Mail Returned to Sender"
    subject = f"{rng.pick(phrases.subjects)} {rng.between(100, 9999)}"
    if kind == "auto-reply":
        return phrases.away_subject.format(subject=subject)
    return _PREFIXES.get(kind, "") + subject


_PREFIXES = {"reply": "Re: ", "forward": "Fwd: ", "nested": "Fwd: ", "invoice-forwarded": "Fwd: "}
