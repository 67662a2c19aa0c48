"""Picks numbers with check digits: the ISIN, and the issuer's IBAN and VAT ID, not the recipient's.

Prefers valid to invalid and labelled to unlabelled numbers. `issuer` locates issuer and recipient.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from postroom.documents.fields.check_digits import check_vat_id, is_valid_iban, is_valid_isin
from postroom.documents.fields.extraction_result import FieldCheck, FieldValue
from postroom.documents.fields.field_selection import FieldPick, pick_best
from postroom.documents.fields.issuer import Owner, find_owner
from postroom.documents.fields.label_matching import FieldCandidate, LabelContext, find_candidates
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldSpec

_NEARBY: Final = 120  # characters before a value that may say whose it is
_ADDRESS_LINES: Final = 5  # below the label of the recipient
_ADDRESS_PENALTY: Final = 0.4  # for a VAT ID there, which is probably the recipient's
_ISSUER_BONUS: Final = 0.5  # for a VAT ID beside or below the issuer's name
_MONEY_PENALTY: Final = 0.6  # for an account in a sentence with an amount, from which it may be collected


_LABELLED_IBAN: Final = re.compile(r"\biban\b[^a-z0-9]{0,6}[a-z]{2} ?\d{2}(?: ?[a-z0-9]){8,30}")
# A VAT ID without its country: "P.IVA 00743110157", "NIF: B12345674".
_WITHOUT_COUNTRY: Final = re.compile(r"[ .:#°]{0,4}[A-Z]?\d{7,11}[A-Z]?\b")


def _is_valid_vat_id(code: str) -> bool:
    return check_vat_id(code) is True


_VALIDATORS: Final[dict[str, Callable[[str], bool]]] = {
    "isin": is_valid_isin,
    "iban": is_valid_iban,
    "vat_id": _is_valid_vat_id,
}


def pick_by_check_digits(
    context: LabelContext, name: str, field: FieldSpec, issuer: str = ""
) -> FieldPick | None:
    """Pick a number with check digits; None if the document has none, or only the recipient's."""
    values = [each for found in context.values.values() for each in found if each.shape == field.shape]
    owners: dict[ParsedValue, Owner | None] = {value: _find_owner(context, value, issuer) for value in values}
    every = [value for value in values if owners[value] != "recipient"]
    if not every:
        return None
    count = Counter(value.content for value in every)
    labelled = {each.value: each for each in find_candidates(context, name, field)}
    found: list[FieldCandidate] = []
    for place, value in enumerate(every):
        known = labelled.get(value)
        score = (known.score if known else 0.2) + (
            0.5 if _VALIDATORS[field.shape](str(value.content)) else 0.0
        )
        score += 0.1 * min(count[value.content] - 1, 3) - 0.01 * min(place, 20)
        score -= _ADDRESS_PENALTY if _is_in_recipients_address(context, value) else 0.0
        score += _ISSUER_BONUS if owners[value] == "issuer" else 0.0
        score -= _MONEY_PENALTY if field.shape == "iban" and _is_beside_money(context, value) else 0.0
        found.append(FieldCandidate(value, score, known.why if known else "without a label", None))
    pick = pick_best(found, count=count)
    assert pick
    pick = _doubt_owner(context, field, pick, owners)
    right = _VALIDATORS[field.shape](str(pick.value))
    return replace(
        pick,
        label=min(pick.label, 1.0),
        margin=min(pick.margin, 1.0),
        why=pick.why + (", check digits valid" if right else ", check digits invalid"),
        checked=right,
    )


def check_unread_accounts(
    context: LabelContext, kind: DocumentKind, fields: Mapping[str, FieldValue]
) -> Iterator[FieldCheck]:
    """Yield a failed check for an IBAN that was not read: it could not be compared with the known ones."""
    name = kind.controls.account
    if name is None or name in fields:
        return
    for line in context.document.lines:
        unread = _LABELLED_IBAN.search(line.folded)
        if unread and not any(value.shape == "iban" for value in context.values.get(line.index, ())):
            words = f"“{line.text[unread.start() : unread.end()]}” could not be read"
            yield FieldCheck(f"{name} was read", False, words, fields=(name,), is_doubt=True)
            return


def has_rivals(context: LabelContext, name: str) -> bool:
    """Whether the document has several VAT IDs, or a labelled one without a country, as in "P.IVA 0074…"."""
    values = [
        each
        for found in context.values.values()
        for each in found
        if each.shape == "vat_id" and not _is_called_recipients(context, each)
    ]
    unread = any(
        hit.field == name and _WITHOUT_COUNTRY.match(context.document.lines[hit.line].text, hit.end)
        for hits in context.hits.values()
        for hit in hits
    )
    return unread or len({value.content for value in values}) > 1


def _doubt_owner(
    context: LabelContext, field: FieldSpec, pick: FieldPick, owners: Mapping[ParsedValue, Owner | None]
) -> FieldPick:
    """Doubt a VAT ID that may be the recipient's, by its position or beside others."""
    same = [value for value in owners if value.content == pick.value]
    if field.shape != "vat_id" or any(owners[value] == "issuer" for value in same):
        return pick
    if any(_is_in_recipients_address(context, value) for value in same):
        return replace(pick, margin=0.0, why=f"{pick.why}, in the recipient's address")
    rivals = {value.content for value, owner in owners.items() if owner != "recipient"}
    if len(rivals) > 1:
        return replace(pick, margin=0.0, why=f"{pick.why}, one of {len(rivals)} VAT IDs")
    return pick


# "von Ihrem Konto", "Your bank account (IBAN)": an account that the document debits, not the issuer's.
_RECIPIENTS_ACCOUNT: Final = re.compile(
    r"\b(?:ihre?[mnrs]?|your|votre|vostr[oa]|vs\.?|su|tu|uw|sua|din|panstwa) (?:\w{1,20} )?"
    r"(?:konto\w{0,20}|bankkonto|bankverbindung|iban|(?:bank )?account|compte|conto|cuenta|rekening\w{0,20})"
    r"[ :(]{0,4}(?:(?:mit der |number |no |nr )?iban)?[ :.()]{0,4}$"
)


# "Ihre USt-IdNr.", "Customer VAT no": a VAT ID that the document repeats, not the issuer's.
_RECIPIENTS_VAT_ID: Final = re.compile(
    r"\b(?:ihre?|your|votre|vostr[oa]|su|uw|kunden?|kaufers?|empfangers?|customer|client|buyer|recipient|cliente"
    r"|acheteur|klant|nabywc[ay]|kundens|alici)\b[ :'s.-]{0,4}(?:[\w°.]{1,20} ){0,2}"
    r"(?:ust|umsatzsteuer|uid|mwst|vat|tva|p\.? ?iva|iva|nif|cif|btw|nip|moms|cvr|vergi)"
    r"[\w .:#°/()-]{0,25}$"
    r"|(?:ust|uid|vat|tva|iva|nif|btw|nip)[\w .:#°/()-]{0,25} (?:du |des |of |del )?"
    r"(?:the )?(?:kunden|kaufers|empfangers|customer|client|buyer|cliente|acheteur)[ :.]*$"
)


def _is_called_recipients(context: LabelContext, value: ParsedValue) -> bool:
    before = context.document.lines[value.line].folded[max(value.start - _NEARBY, 0) : value.start]
    return _RECIPIENTS_VAT_ID.search(before) is not None


def _find_owner(context: LabelContext, value: ParsedValue, issuer: str) -> Owner | None:
    """Say whose IBAN or VAT ID it is, by the words before it or by its position."""
    line = context.document.lines[value.line]
    match value.shape:
        case "vat_id":
            position = find_owner(context, issuer, line, value.start, value.end)
            return "recipient" if _is_called_recipients(context, value) else position
        case "iban":
            return "recipient" if _is_recipients_account(context, value) else None
        case _:
            return None


def _is_in_recipients_address(context: LabelContext, value: ParsedValue) -> bool:
    """Whether a VAT ID is shortly below the label of the recipient, in its column."""
    if value.shape != "vat_id":
        return False
    lines = context.document.lines
    line = lines[value.line]
    left = line.box(value.start, value.end).left
    return any(
        hit.field in context.recipients
        and lines[index].page == line.page
        and lines[index].box(hit.start, hit.end).left <= left
        for index in range(max(value.line - _ADDRESS_LINES, 0), value.line + 1)
        for hit in context.hits.get(index, ())
    )


# A collection by direct debit, on one line with the account that is debited.
_DIRECT_DEBIT: Final = re.compile(
    r"abgebucht|abbuch|eingezogen|einzug|lastschrift|direct debit|debited|be collected|prelev|domicilia"
    r"|addebit|adeudo|afgeschreven|incass|automatische afschrijving|debit(?:o direto|ar)|polecenie zaplaty"
    r"|cargar|pobier|pobran|tr(?:ae|æ|e)kk|autogiro|betalingsservice"
)


def _is_beside_money(context: LabelContext, value: ParsedValue) -> bool:
    here = context.values.get(value.line, ())
    return any(each.shape == "number" and each.decimals == 2 and not each.percent for each in here)


def _is_recipients_account(context: LabelContext, value: ParsedValue) -> bool:
    """Whether the words before an IBAN, on its line or the line above, make it the recipient's."""
    lines = context.document.lines
    before = lines[value.line].folded[max(value.start - _NEARBY, 0) : value.start]
    if value.shape != "iban":
        return False
    if _DIRECT_DEBIT.search(lines[value.line].folded):
        return True
    if value.line and before.strip(" :.()") in {"", "iban"}:
        before = f"{lines[value.line - 1].folded[-_NEARBY:]} {before}"
    return _RECIPIENTS_ACCOUNT.search(before) is not None
