"""Picks the currency of a document: beside its total, declared, or the most frequent one.

A currency that appears only in conversions is a guess.
"""

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from postroom.documents.fields.document_text import DocumentText
from postroom.documents.fields.extraction_result import ConfidenceSignals, FieldValue
from postroom.documents.fields.label_matching import LabelContext
from postroom.documents.fields.value_parsing import ParsedValue

_CURRENCY_LABEL: Final = re.compile(
    r"(?:(?:rechnungs|abrechnungs|beleg)?wahrung|(?:invoice |document )?currency|devise|valuta|moneda"
    r"|betrage in|amounts? (?:are )?in|montants? en|bedragen in|importi in|importes en)[ :=(]*$"
)
# An amount that is stated again in another currency.
_CONVERTED: Final = re.compile(
    r"\b(?:equivalent|gegenwert|contre[ -]?valeur|controvalore|contravalore?|tegenwaarde"
    r"|rownowartosc|modv(?:ae|æ)rdi|motvarde|karsiligi|converted|umgerechnet|converti\w{0,5}|convertid[oa]|kurs|wechselkurs"
    r"|exchange rate|taux(?: de change)?|cambio|tasso|wisselkoers)\b"
)


@dataclass(frozen=True, slots=True)
class PickedCurrency:
    """A chosen currency at one of its positions, with its evidence."""

    at: ParsedValue
    signals: ConfidenceSignals
    words: str


def pick_currency(
    context: LabelContext, of: FieldValue | None, amounts: AbstractSet[Decimal]
) -> PickedCurrency | None:
    """Pick the currency at the amount, else the declared one, else the most frequent.

    `amounts` are the amounts that were read. One that is only beside other amounts is a guess.
    """
    document = context.document
    every = [value for values_ in context.values.values() for value in values_ if value.shape == "currency"]
    count = Counter(value.content for value in every)
    if not count:
        return None
    beside, before = _currencies_near(context, of) if of else (None, None)
    declared = next(
        (value.content for value in every if _CURRENCY_LABEL.search(_text_before(document, value))), None
    )
    commonest, times = count.most_common(1)[0]
    chosen = beside or declared or before or commonest
    share = count[chosen] / count.total()
    at = next(value for value in every if value.content == chosen)
    # A currency that is only nearby is a guess if the document has another one too.
    label = 1.0 if beside or declared == chosen else 0.4 if len(count) == 1 else 0.3
    if (
        not beside
        and declared != chosen
        and not any(_may_be_documents(context, value, amounts) for value in every if value.content == chosen)
    ):
        label, share = 0.1, 0.0
    signals = ConfidenceSignals("currency", label, share, is_repeated=times > 1)
    words = (
        "beside the amount"
        if beside
        else "declared as the document's currency"
        if declared
        else "before the amount"
        if before
        else "the most frequent currency"
    )
    return PickedCurrency(at, signals, words)


def _may_be_documents(context: LabelContext, value: ParsedValue, amounts: AbstractSet[Decimal]) -> bool:
    """Check whether a currency is on a line with an amount of the document, or without any amount.

    On another line, as in "10 x 2.50 EUR" below an item or "VAT in GBP 9.50", it may be another one.
    """
    beside = {abs(amount) for amount in _amounts(context, value.line)}
    return not _is_converted(context, value) and (not beside or not beside.isdisjoint(amounts))


def _is_converted(context: LabelContext, value: ParsedValue) -> bool:
    """Whether a currency is on a line with a conversion, or beside an amount that such a line repeats."""
    lines = context.document.lines
    converted = [line.index for line in lines if _CONVERTED.search(line.folded)]
    amounts = {amount for line in converted for amount in _amounts(context, line)}
    return value.line in converted or bool(amounts.intersection(_amounts(context, value.line)))


def _amounts(context: LabelContext, line: int) -> list[Decimal]:
    return [
        each.number for each in context.values.get(line, ()) if each.shape == "number" and each.decimals == 2
    ]


def _text_before(document: DocumentText, value: ParsedValue) -> str:
    return document.lines[value.line].folded[: value.start]


def _currencies_near(context: LabelContext, of: FieldValue) -> tuple[Any, Any]:
    """Return the currency beside the amount, and the last one shortly before it."""
    for line in context.document.lines:
        for value in context.values.get(line.index, ()):
            if value.shape != "number" or line.page != of.page or line.box(value.start, value.end) != of.box:
                continue
            before = [
                each
                for index in range(max(line.index - 3, 0), line.index + 1)
                for each in context.values.get(index, ())
                if each.shape == "currency" and (index < line.index or each.end <= value.start)
            ]
            return value.currency, before[-1].content if before else None
    return None, None
