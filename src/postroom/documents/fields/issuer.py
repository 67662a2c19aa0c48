"""Finds the organization that issued a document by label, letterhead, sender line, footer and domain.

Also the one that it is addressed to, by label or as the first line of an address.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

from postroom.documents.fields.currencies import CURRENCIES
from postroom.documents.fields.document_text import DocumentText, TextLine
from postroom.documents.fields.field_selection import FieldPick
from postroom.documents.fields.label_matching import LabelContext
from postroom.documents.fields.label_search import LabelHit, compile_phrases

_LEGAL_FORM: Final = re.compile(
    r"(?<![\w-])(?:GmbH(?: ?& ?Co\.? ?(?:KGaA|KG|OHG))?|gGmbH|mbH|AG(?: ?& ?Co\.? ?KG)?|KGaA|KG|OHG|GbR"
    r"|Sdn\.? ?Bhd\.?|SDN\.? ?BHD\.?|S/B|Pte\.? ?Ltd\.?|Pty\.? ?Ltd\.?|s\.r\.o\.|Kft\.?|d\.o\.o\.|Lda\.?"
    r"|UG(?: \(haftungsbeschränkt\))?|e\.? ?K\.?|e\.? ?V\.?|eG|a\. ?G\.|SE"
    r"|Aktiengesellschaft|Ltd\.?|Limited|LLC|LLP|PLC|plc|Inc\.?|Corp\.?|Corporation|Company|Co\."
    r"|S\.?A\.?R\.?L\.?|SAS|S\.A\.S\.?|S\.A\.?|SA|EURL|SCI|SNC|Sàrl"
    r"|S\.?r\.?l\.?|S\.?p\.?A\.?|B\.?V\.?|N\.?V\.?|S\.?L\.?U?\.?|VOF|GMBH|LTD|A/S|ApS|AB|Oy|Genossenschaft"
    r"|Stiftung|Versicherungsverein[\w ]*|Sparkasse \w+|Volksbank \w+|Kantonalbank|nv|SIM)(?![\w])"
)
_SEPARATORS: Final = re.compile(r"\s[|•·●▪\u2013*-]\s|[|•·●▪]|,\s|;\s|\s/\s|\t")
_ADDRESS: Final = re.compile(
    r"(?<!\d)(?:[A-Z]{1,2}[ -])?\d{4,5}(?!\d) ?[A-ZÄÖÜ][\w.-]+|[A-Z]{1,2}\d{1,2}[A-Z]? \d[A-Z]{2}"
)
_CONTACT: Final = re.compile(
    r"(?:tel|fon|phone|fax|telefon|www\.|http|e-?mail|@|ust-?id|vat|tva|iban|hrb|hra|siret|siren"
    r"|steuernummer|geschaftsfuhrer|handelsregister|bic|p\.? ?iva|kvk|btw|mwst)"
)
_STREET: Final = re.compile(
    r"(?:str\.|(?:stra(?:ss|ß)e|weg|allee|platz|gasse|ring|damm|road|street|avenue|lane|square|via|plaza"
    r"|calle|straat|laan|jalan|lot|viale|corso|avenida)\b|\b(?:av|c/|avda|ave)[. ]).*\d"
    r"|^\d+[a-z]?,? |\brue\b|^jalan\b|\bchemin\b|^\(",
    re.IGNORECASE,
)
_NAME_LABEL: Final = re.compile(r"(?:^|(?<=\s))((?:Name|Nom|Firma|Company)\s*:)\s*(.+?)\s*$")
_DOMAIN: Final = re.compile(
    r"(?:www\.|@|https?://)([a-z0-9-]+(?:\.[a-z0-9-]+)*)\.(?:com|net|org|de|at|ch|fr|it|es|nl|be|lu|li|eu"
    r"|io|co|uk|test|example|invalid)\b"
)
_RECIPIENT: Final = (
    "Käufer, Kunde, Rechnungsempfänger, Leistungsempfänger, Käufer/Leistungsempfänger, Warenempfänger, "
    "Rechnungsadresse, Rechnung an, Lieferadresse, Lieferanschrift, Bill to, Sold to, "
    "Ship to, Buyer, Customer, Invoice to, Deliver to, Delivery address, Billing address, Client, Adresse "
    "du client, Adresse de livraison, Adresse de facturation, Facturé à, Destinataire, Acheteur, "
    "Cliente, Datos del cliente, Facturar a, Spett.le, Cessionario, Destinatario, Klant, Factuuradres, "
    "Empfänger, An, Herrn, Herr, Frau, Firma, "
    "Madame, Monsieur, z. Hd., Auftraggeber, Rechnungsanschrift, Représentant fiscal"
)
_NOT_A_NAME: Final = (
    "*rechnung, invoice, facture, fattura, factura, factuur, rechnung*, datum, date, seite, page, nummer, "
    "number, credit note, gutschrift, logo, "
    "tel, telefon, fax, kopie, copy, duplicata, original, receipt, quittung, "
    "steuernummer, name, anschrift, contact, ansprechpartner, gln, adresse, address, your, our, unser, "
    "bestellung, betreff, iban, kontoauszug, depot, portfolio, kontakt, kunde, wertpapier*, abrechnung*, "
    "contract note, trade, exchange, account*, amount, customer, order, herr, herrn, frau, customer care, "
    "total, summe, gesamt*, bankverbindung, bic, vat, tva, mwst, ust, bill to, ship to"
)
_LABELS: Final = frozenset(
    [
        "bank",
        "lieferant",
        "verkäufer",
        "seller",
        "supplier",
        "vendor",
        "from",
        "fournisseur",
        "vendeur",
        "käufer",
        "client",
        "buyer",
        "kunde",
    ]
)
_GENERIC: Final = re.compile(
    r"(?:Versicherungsverein|Aktiengesellschaft|Gesellschaft|Genossenschaft|GmbH|AG|KG|Limited|Ltd|e\.)"
)


_MAX_ADDRESS_LINE: Final = 25  # an addressee is in the upper part of the first page
_MAX_TOWN_WORDS: Final = 5
_MAX_BLOCK_HEIGHT: Final = 10.0  # of name, address and contact data, as a multiple of the name's height
_ALIGNED: Final = 0.012  # of the width of the page
_MAX_DOMAINS: Final = 50  # of web and mail addresses in the text


Owner = Literal["issuer", "recipient"]


@dataclass(frozen=True, slots=True)
class _NameSegment:
    """A part of a line that may be a name."""

    text: str
    line: TextLine
    start: int
    end: int
    in_sender_line: bool


def find_issuer(context: LabelContext, name: str) -> FieldPick | None:
    document = context.document
    if not document.lines:
        return None
    scores: dict[str, float] = defaultdict(float)
    best: dict[str, tuple[float, _NameSegment, str]] = {}
    named = re.findall(r"[a-z]{4,}", " ".join(_DOMAIN.findall(document.folded)))
    domains = set(list(dict.fromkeys(named))[:_MAX_DOMAINS])
    for segment, score, why in _name_candidates(context, name):
        key = _name_key(segment.text)
        worth = score + (0.5 if _fits_domain(segment.text, domains) else 0.0)
        # Every further occurrence of a name is additional evidence.
        known = best.get(key)
        scores[key] = max(scores[key], worth) + (0.25 if known else 0.0)
        if known is None or known[0] < worth:
            best[key] = (worth, segment, why)
    if not best:
        return None
    ranked = sorted(scores, key=lambda key: -scores[key])
    _, segment, why = best[ranked[0]]
    segment = _join_wrapped_name(document, segment)
    behind = scores[ranked[1]] if len(ranked) > 1 else 0.0
    label = min(scores[ranked[0]] / 2.0, 1.0)
    margin = min((scores[ranked[0]] - behind) / 1.0, 1.0)
    again = _name_key(document.text).count(ranked[0]) > 1
    return FieldPick(
        segment.text, segment.line.index, segment.start, segment.end, label, margin, why, is_repeated=again
    )


def find_recipient(context: LabelContext, name: str, issuers: Sequence[str]) -> FieldPick | None:
    """Find the addressee by its label, or else above the first address that is not an issuer's."""
    left = _find_addressees(context, {name}, issuers)
    if not left:
        return None
    segment, score, why = max(left, key=lambda each: each[1])
    others = [each[1] for each in left if _name_key(each[0].text) != _name_key(segment.text)]
    return FieldPick(
        segment.text,
        segment.line.index,
        segment.start,
        segment.end,
        min(score / 2.0, 1.0),
        min(score - max(others, default=0.0), 1.0),
        why,
    )


def _find_addressees(
    context: LabelContext, names: AbstractSet[str], issuers: Sequence[str]
) -> list[tuple[_NameSegment, float, str]]:
    hits = [hit for found in context.hits.values() for hit in found if hit.field in names]
    labelled = [each for hit in hits for each in _labelled_names(context.document, hit)]
    found = labelled or list(_addressed_names(context.document))
    known = {_name_key(each) for each in issuers}
    return [each for each in found if _name_key(each[0].text) not in known]


def find_owner(context: LabelContext, issuer: str, line: TextLine, start: int, end: int) -> Owner | None:
    """Whose name is on the line of a value, or next above it in its column."""
    key = _name_key(issuer)
    named = [other for other in context.document.lines if key and key in _name_key(other.text)]
    if line in named:
        return "issuer"
    issuers = [each for other in named for each in _segments(other) if key in _name_key(each.text)]
    addressees = [each for each, *_ in _find_addressees(context, context.recipients, [issuer])]
    addressees += _names_above_one_line_addresses(context.document, key)
    owners: dict[Owner, list[_NameSegment]] = {
        "issuer": issuers,
        "recipient": [*addressees, *_recipient_labels(context.document)],
    }
    above: dict[Owner, int] = {
        owner: max(lines)
        for owner, names in owners.items()
        if (lines := [each.line.index for each in names if _is_in_block(each, line, start, end)])
    }
    return max(above, key=above.__getitem__, default=None)


def _recipient_labels(document: DocumentText) -> Iterator[_NameSegment]:
    search = compile_phrases(_RECIPIENT)
    for line in document.lines:
        for _, start, end in search.find(line):
            if line.text[end : end + 1] in {"", ":"} and (start == 0 or line.text[start - 1] == " "):
                yield _NameSegment(line.text[start:end], line, start, end, False)


def _names_above_one_line_addresses(document: DocumentText, issuer: str) -> list[_NameSegment]:
    """Return the names above addresses such as "9 Mill Lane, Leeds LS1 4AB", except the issuer's."""
    found: list[_NameSegment] = []
    for line in document.lines[: _MAX_ADDRESS_LINE + 1]:
        for start, end in _cells(line):
            street, separator, town = line.text[start:end].partition(", ")
            if not separator or not _STREET.search(street) or not _ADDRESS.search(town):
                continue
            left = line.box(start, end).left
            above = [
                segment
                for other in document.lines[max(line.index - 2, 0) : line.index]
                for segment in _segments(other)
                if abs(other.box(segment.start, segment.end).left - left) < _ALIGNED
                and _may_be_name(segment.text)
            ]
            found += [each for each in above[-1:] if _name_key(each.text) != issuer]
    return found


def _is_in_block(name: _NameSegment, line: TextLine, start: int, end: int) -> bool:
    """Whether a part of a line is below a name, aligned with its left or right edge or its center."""
    cell = next((each for each in _cells(line) if each[0] <= start < each[1]), (start, end))
    above, below = name.line.box(name.start, name.end), line.box(*cell)
    distance = (below.top - above.top) / max(above.bottom - above.top, 0.001)
    edges = (
        (above.left, below.left),
        (above.right, below.right),
        (above.left + above.right, below.left + below.right),
    )
    return (
        line.page == name.line.page
        and 0 < distance <= _MAX_BLOCK_HEIGHT
        and any(abs(one - other) < _ALIGNED for one, other in edges)
    )


def _addressed_names(document: DocumentText) -> Iterator[tuple[_NameSegment, float, str]]:
    """Yield the first lines of addresses: a name, a street, and a town with its postcode, in one column."""
    first = document.lines[0].page if document.lines else 0
    for line in document.lines:
        if line.page != first or line.index > _MAX_ADDRESS_LINE:
            continue
        for start, end in _cells(line):
            left = line.box(start, end).left
            town = line.text[start:end]
            if not _ADDRESS.search(town) or len(town.split()) > _MAX_TOWN_WORDS:
                continue
            above = [
                segment
                for index in range(max(line.index - 4, 0), line.index)
                for segment in _segments(document.lines[index])
                if abs(segment.line.box(segment.start, segment.end).left - left) < 0.01
            ]
            names = [each for each in above if not each.in_sender_line and _may_be_name(each.text)]
            streets = [each for each in above if _STREET.search(each.text) or re.search(r"\d", each.text)]
            if names and streets:
                yield names[0], 1.4 - 0.01 * line.index, "above an address"


def _join_wrapped_name(document: DocumentText, segment: _NameSegment) -> _NameSegment:
    """Join a name with its legal form in the next line, or with its beginning in the line before."""
    left = segment.line.box(segment.start, segment.end).left
    for step in (-1, 1):
        index = segment.line.index + step
        if not 0 <= index < len(document.lines):
            continue
        for other in _segments(document.lines[index]):
            beside = abs(other.line.box(other.start, other.end).left - left) < 0.02
            head, tail = (other, segment) if step < 0 else (segment, other)
            if (
                beside
                and _GENERIC.match(tail.text)
                and not _LEGAL_FORM.search(head.text)
                and _may_be_name(head.text)
            ):
                return _NameSegment(
                    f"{head.text} {tail.text}", segment.line, segment.start, segment.end, False
                )
    return segment


def _name_key(text: str) -> str:
    return re.sub(r"\W", "", text.casefold())


def _fits_domain(text: str, domains: set[str]) -> bool:
    words = re.findall(r"[^\W\d_]{4,}", text.casefold())
    joined = re.sub(r"\W", "", text.casefold())
    return any(word in domain or domain in joined for word in words for domain in domains)


def _name_candidates(context: LabelContext, name: str) -> Iterator[tuple[_NameSegment, float, str]]:
    for hits in context.hits.values():
        for hit in hits:
            if hit.field == name:
                yield from _labelled_names(context.document, hit)
    recipients = _recipient_lines(context.document)
    contacts = _ContactCells(context.document)
    first = context.document.lines[0].page
    tallest = _tallest_line(context.document)
    for line in context.document.lines:
        top = line.box(0, len(line.text)).top
        for segment in _segments(line):
            form = bool(_LEGAL_FORM.search(segment.text))
            if not form and not (line.page == first and line.index < 6 and len(segment.text.split()) <= 4):
                continue
            if not _may_be_name(segment.text):
                continue
            yield (
                segment,
                *_score_position(
                    context.document,
                    segment,
                    recipients,
                    contacts,
                    tallest,
                    form=form,
                    top=top,
                    first=line.page == first,
                ),
            )


def _score_position(
    document: DocumentText,
    segment: _NameSegment,
    recipients: Mapping[int, Sequence[float]],
    contacts: "_ContactCells",
    tallest: float,
    *,
    form: bool,
    top: float,
    first: bool,
) -> tuple[float, str]:
    """Score the position: letterhead, sender line, footer, near contact data; or the recipient's address."""
    score, why = (0.5, "has a legal form") if form else (0.15, "at the top")
    box = segment.line.box(segment.start, segment.end)
    if segment.in_sender_line:
        score, why = score + 0.9, "in the sender's line"
    elif first and segment.line.index < 3:
        score, why = score + 0.5 - 0.08 * segment.line.index, "in the letterhead"
    elif first and top < 0.15:
        score += 0.25
    elif top > 0.85 or (not document.has_layout and segment.line.index > len(document.lines) - 8):
        score, why = score + 0.35, "in the footer"
    if first and box.bottom - box.top > 0.95 * tallest and document.has_layout and segment.line.index < 12:
        score += 0.2
    score += 0.35 if contacts.are_near(segment) else 0.0
    if _is_near(recipients.get(segment.line.index, ()), box.left, 0.12) and not segment.in_sender_line:
        score -= 1.2
    return score, why


def _tallest_line(document: DocumentText) -> float:
    heights = [line.box(0, len(line.text)) for line in document.lines[:12]]
    return max(box.bottom - box.top for box in heights)


def _labelled_names(document: DocumentText, hit: LabelHit) -> Iterator[tuple[_NameSegment, float, str]]:
    """Yield names right of a label that starts its cell, or below it."""
    line = document.lines[hit.line]
    cell = next(
        ((start, end) for start, end in _cells(line) if start <= hit.start < end), (0, len(line.text))
    )
    if hit.start > cell[0] + 2:
        return
    label, rest = line.text[hit.start : hit.end], line.text[hit.end : cell[1]].strip()
    if rest.startswith(":") and _may_be_name(rest.strip(": ")):
        text = rest.strip(": ")
        start = line.text.index(text, hit.end)
        yield (
            _NameSegment(text, line, start, start + len(text), False),
            1.6 * hit.weight,
            f"right of “{label}”",
        )
        return
    if rest.strip(":/ ") and not re.match(r"[/:]", rest):
        return
    left = line.box(hit.start, hit.end).left
    found = [
        (segment, sure - 0.1 * (below.index - hit.line))
        for below in document.lines[hit.line + 1 : hit.line + 6]
        for segment, sure in _names_below(below, left)
    ]
    if found:
        segment, sure = max(found, key=lambda each: each[1])
        yield segment, sure * hit.weight, f"below “{label}”"


def _names_below(below: TextLine, left: float) -> Iterator[tuple[_NameSegment, float]]:
    named = _NAME_LABEL.search(below.text)
    if named and abs(below.box(*named.span(1)).left - left) < 0.1 and _may_be_name(named.group(2)):
        yield _NameSegment(named.group(2), below, *named.span(2), False), 2.6
    for segment in _segments(below):
        if abs(below.box(segment.start, segment.end).left - left) < 0.1 and _may_be_name(segment.text):
            yield segment, 2.0 if _LEGAL_FORM.search(segment.text) else 1.4


def _segments(line: TextLine) -> Iterator[_NameSegment]:
    """Yield the parts of a line between wide gaps and separators."""
    sender = bool(_ADDRESS.search(line.text)) and len(_SEPARATORS.split(line.text)) >= 3
    for cell_start, cell_end in _cells(line):
        place = cell_start
        text = line.text[cell_start:cell_end]
        for part in _SEPARATORS.split(text):
            start = line.text.find(part, place, cell_end)
            place = start + len(part)
            name = part.strip(" .,-\u2013")
            # Text with a colon is a label.
            if ":" in name:
                continue
            form = _LEGAL_FORM.search(name)
            # "Trading Company Ltd" has two legal forms; the last one ends the name.
            while form and (other := _LEGAL_FORM.match(name, form.end() + 1)):
                form = other
            # A form in front, as in "SAS Lenoir", is the beginning of the name.
            if form and form.start() and len(name) > form.end() + 1:
                name = name[: form.end()]
            if name:
                begin = line.text.index(name, start)
                yield _NameSegment(name, line, begin, begin + len(name), sender and part is not text)


def _cells(line: TextLine) -> Iterator[tuple[int, int]]:
    start = 0
    for before, after, place in zip(line.words, line.words[1:], line.starts[1:], strict=False):
        if after.box.left - before.box.right > 0.03:
            yield start, place - 1
            start = place
    yield start, len(line.text)


def _may_be_name(text: str) -> bool:
    alphabetic = sum(map(str.isalpha, text))
    if (
        alphabetic < 3
        or "@" in text
        or text.startswith("www.")
        or len(text) > 80
        or alphabetic < 0.6 * len(text.replace(" ", ""))
        or len(text.split()) > 9
    ):
        return False
    if text.casefold() in _LABELS or _STREET.search(text) or re.search(r"\d{4}", text) or text in CURRENCIES:
        return False
    folded = TextLine(0, 0, text, text.casefold(), (), (), False)
    return not any(
        start == 0 for _, start, _ in compile_phrases(_NOT_A_NAME).find(folded)
    ) and not _LEGAL_FORM.fullmatch(text)


def _recipient_lines(document: DocumentText) -> dict[int, list[float]]:
    """Return the lines of the recipient's address, with its left edge."""
    found: dict[int, list[float]] = defaultdict(list)
    search = compile_phrases(_RECIPIENT)
    for line in document.lines:
        for _, start, end in search.find(line):
            left = line.box(start, end).left
            starts_a_word = start == 0 or line.text[start - 1] == " "
            if starts_a_word and line.text[end : end + 1] in {"", " ", ":", "/", "-"}:
                for below in range(line.index, line.index + 5):
                    found[below].append(left)
    return {line: sorted(lefts) for line, lefts in found.items()}


def _is_near(ordered: Sequence[float], wanted: float, within: float) -> bool:
    place = bisect_left(ordered, wanted)
    return any(abs(each - wanted) < within for each in ordered[max(place - 1, 0) : place + 1])


class _ContactCells:
    """The left edges of the cells with contact data, by line."""

    def __init__(self, document: DocumentText) -> None:
        self._lefts = {
            line.index: sorted(
                line.box(start, end).left
                for start, end in _cells(line)
                if _CONTACT.search(line.folded[start:end])
            )
            for line in document.lines
        }

    def are_near(self, segment: _NameSegment) -> bool:
        left = segment.line.box(segment.start, segment.end).left
        lines = range(segment.line.index - 1, segment.line.index + 7)
        return any(_is_near(self._lefts.get(line, ()), left, 0.06) for line in lines)
