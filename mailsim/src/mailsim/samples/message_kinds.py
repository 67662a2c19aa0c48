"""Every kind of letter: who writes it, in which variants, and how often it comes in ordinary mail."""

from dataclasses import dataclass

from mailsim.samples.document_numbers import invoice_number, note_number
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits


@dataclass(frozen=True, slots=True)
class MessageKind:
    """`writer` is a module of this package and a function in it, imported at the first letter of the kind.

    `weight` is its share of an ordinary mailbox, in thousandths; `personal` kinds may be answered;
    `sender` says who writes: person, news, daemon, supplier or broker.
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
    "plain": MessageKind("personal_messages.plain", 230, personal=True),
    "html": MessageKind("personal_messages.html", 190, personal=True),
    "reply": MessageKind("personal_messages.reply", 230, ("text", "html"), personal=True),
    "sent": MessageKind("personal_messages.sent", 80, personal=True),
    "newsletter": MessageKind("newsletters.newsletter", 130, sender="news"),
    "forward": MessageKind("forwarded_messages.forward", 25, ("inline", "attached"), personal=True),
    "nested": MessageKind("forwarded_messages.nested", 2),
    "auto-reply": MessageKind("automatic_messages.auto_reply", 12, ("vacation", "exchange")),
    "bounce": MessageKind("automatic_messages.bounce", 6, ("message", "headers"), sender="daemon"),
    "meeting": MessageKind("meeting_messages.meeting", 20, ("request", "cancel")),
    "signed": MessageKind("signed_messages.signed", 4, ("smime", "pgp")),
    "charset": MessageKind("charset_messages.charset", 15, _CHARSETS),
    "headers": MessageKind("unusual_headers.odd_headers", 6, _ODD_HEADERS),
    "malformed": MessageKind("malformed_messages.malformed", 3, _MALFORMED),
    "inline-image": MessageKind("inline_images.inline_image", 15, ("related", "only", "between", "bare")),
    "attachment": MessageKind("attachment_messages.with_files", 15, _FILES),
    "reference": MessageKind("reference_attachments.reference", 2),
    "invoice": MessageKind("document_messages.invoice", 30, _INVOICES, sender="supplier"),
    "invoice-scan": MessageKind("document_messages.invoice_scan", 2, _SCANS),
    "invoice-facturx": MessageKind(
        "document_messages.invoice_facturx", 4, ("en16931", "basic"), sender="supplier"
    ),
    "invoice-xrechnung": MessageKind(
        "document_messages.invoice_xrechnung", 3, ("ubl", "cii"), sender="supplier"
    ),
    "invoice-zip": MessageKind("document_messages.invoice_zip", 2, ("flat", "nested"), sender="supplier"),
    "invoice-forwarded": MessageKind("document_messages.invoice_forwarded", 5),
    "invoice-odd": MessageKind("unusual_invoices.odd_invoice", 2, _ODD_INVOICES, sender="supplier"),
    "paper": MessageKind(
        "invoice_lookalikes.paper", 12, ("delivery-note", "offer", "reminder", "brochure"), sender="supplier"
    ),
    "contract-note": MessageKind("document_messages.contract_note", 8, _NOTES, sender="broker"),
    "contract-note-scan": MessageKind("document_messages.contract_note_scan", 1, _SCANS, sender="broker"),
    "big": MessageKind("attachment_messages.big", 0),
}


def kinds() -> tuple[str, ...]:
    return tuple(KINDS)


def variants(kind: str) -> tuple[str, ...]:
    """The shapes of a kind; `("",)` for a kind with one shape."""
    try:
        return KINDS[kind].variants
    except KeyError:
        raise ValueError(f"there is no kind of letter {kind!r}; there are {', '.join(KINDS)}") from None


def variant_for(kind: str, seed: int) -> str:
    shapes = variants(kind)
    return shapes[0] if len(shapes) == 1 else shapes[mix_bits(seed ^ 4) % len(shapes)]


def subject_for(kind: str, seed: int, language: str, year: int) -> str:
    tongue = PHRASES[language]
    if kind.startswith("invoice"):
        return f"{_PREFIXES.get(kind, '')}{tongue.invoice} {invoice_number(seed, year)}"
    if kind.startswith("contract-note"):
        return f"{tongue.contract_note} {note_number(seed)}"
    dice = SeededRandom(seed, 5)
    if kind == "newsletter":
        return dice.pick(tongue.headlines)
    if kind == "bounce":
        return "Undelivered Mail Returned to Sender"
    subject = f"{dice.pick(tongue.subjects)} {dice.between(100, 9999)}"
    if kind == "auto-reply":
        return tongue.away_subject.format(subject=subject)
    return _PREFIXES.get(kind, "") + subject


_PREFIXES = {"reply": "Re: ", "forward": "Fwd: ", "nested": "Fwd: ", "invoice-forwarded": "Fwd: "}
