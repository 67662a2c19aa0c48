"""Generated credit notes under the titles that firms print: each is for a person, none is skipped."""

from itertools import product

import pytest

from documents.corpus.judgement import choose, combine, judge
from documents.corpus.pages import INVOICE_WORDS, InvoicePage, read_text

pytestmark = pytest.mark.examples
TITLES = {
    "en": "Sales credit note|Credit invoice|Credit memorandum|CREDIT ADJUSTMENT|Tax credit note|Kreditnota"
    "|Creditfactuur|Korekta faktury",
    "de": "Warengutschrift|Rechnungskorrektur|Korrekturrechnung|GUTSCHRIFT|Gutschriftsbeleg|Kreditrechnung"
    "|Kreditfaktura|Faktura korygująca",
    "fr": "Facture d'avoir|Note de crédit|AVOIR|Avoir client|Avoir commercial",
    "es": "Factura rectificativa|Nota de abono|ABONO|Factura de abono|Nota de crédito",
    "it": "Nota credito|Nota di accredito|NOTA DI CREDITO|Nota accredito|Nota di credito differita",
}
CASES = [(language, title) for language, titles in TITLES.items() for title in titles.split("|")]


@pytest.mark.parametrize(
    "case, line", choose(list(product(CASES, ("{title}", "{firm}   {title}", "{title} {number} 14.10.2026"))))
)
def test_a_credit_note_with_any_title_is_for_a_person(case: tuple[str, str], line: str) -> None:
    language, title = case
    page, words = InvoicePage(language), INVOICE_WORDS[language]
    shown = line.format(title=title, firm=words["firm"], number=page.number)
    lines = [shown if each == words["title"] else each for each in page.write().splitlines()]
    assert shown in lines
    found = judge(read_text("\n".join(lines)))
    assert found.kind == "invoice", found.reasons
    assert any("amounts of a credit note must be negative" in reason for reason in found.reasons)


ORIGINALS = {
    "en": "Relates to invoice|Against invoice|Credit for invoice no.|Original invoice number",
    "de": "zu Rechnung Nr.|Bezug: Rechnung|Storno zu Rechnung|Korrektur der Rechnung",
    "fr": "Sur facture N°|Facture d'origine|Réf. facture initiale|Avoir sur facture",
    "es": "Rectifica la factura|Factura rectificada|Factura original|Abono de la factura",
    "it": "Rif. fattura n.|Storno fattura|Fattura originale|Riferimento fattura",
}


@pytest.mark.parametrize("place, variant, language, layout", combine((0, 1), (0, 1, 2, 3)))
def test_the_number_of_the_original_invoice_is_not_the_credit_notes(
    place: int, variant: int, language: str, layout: str
) -> None:
    page = InvoicePage(language, layout, "2026.5371")
    label, words = ORIGINALS[language].split("|")[variant], INVOICE_WORDS[language]
    # Under titles that say nothing, so that nothing but the label distinguishes the numbers.
    lines = page.write().splitlines()
    where = lines.index(words["title"]) + (1 if place == 0 else 5)
    lines[where:where] = [f"{label} 50818"]
    assert judge(read_text("\n".join(lines))).find_wrong_values(page.get_truth()) == {}
