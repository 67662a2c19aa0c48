"""Generated contract notes that change others or hold two trades: each is for a person."""

from decimal import Decimal
from itertools import product

import pytest

from documents.corpus.judgement import choose, judge
from documents.corpus.pages import LANGUAGES, NOTE_WORDS, NotePage, format_number, read_text

pytestmark = pytest.mark.examples
REVISIONS = {
    "en": "{} - replaces our note of 2026-10-13|Corrected {}|Reversal of {}|{} - supersedes CN1000",
    "de": "Berichtigte {}|{} (ersetzt die Abrechnung CN1000)|Stornierung der {}|Korrigierte {}",
    "fr": "{} rectificatif|Annule et remplace {}|{} annulé|{} - remplace notre avis du 13/10/2026",
    "es": "{} (anula la anterior)|{} anulada|Rectificación {}|{} - sustituye la nota del 13/10/2026",
    "it": "{} - sostituisce la precedente|{} annullata|Rettifica {}|Annullamento {}",
}


@pytest.mark.parametrize(
    "side, language, variant", choose(list(product(("buy", "sell"), LANGUAGES, range(4))))
)
def test_a_note_that_changes_another_is_for_a_person(side: str, language: str, variant: int) -> None:
    page, title = NotePage(language, side=side), NOTE_WORDS[language]["title"]
    revised = REVISIONS[language].split("|")[variant].format(title)
    assert not judge(read_text(page.write().replace(title, revised, 1))).is_confirmed


@pytest.mark.parametrize("side", ["buy", "sell"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_two_trades_in_a_document_are_for_a_person(side: str, language: str) -> None:
    words, other = NOTE_WORDS[language], "sell" if side == "buy" else "buy"
    second = (
        words[other],
        f"{words['quantity']} 100",
        f"{words['price']} {format_number(Decimal('181.00'), language)}",
        f"{words[f'net_{other}']} {format_number(Decimal('18100.00'), language)} USD",
    )
    found = judge(read_text(NotePage(language, side=side, extra=second).write()))
    assert not found.is_confirmed


def test_a_security_called_valor_is_no_settlement_date() -> None:
    page = NotePage("es")
    words = NOTE_WORDS["es"]
    text = page.write().replace(words["security"], "Valor").replace(words["settled"], "Fecha de liquidación")
    found = judge(read_text(text))
    assert found.find_wrong_values(page.get_truth()) == {}
    assert found.recorded["settlement_date"] == page.settled
