"""Generated contract notes with misleading conventions: each is right or in review, none confirmed wrong."""

from decimal import Decimal
from itertools import product

import pytest

from documents.corpus.judgement import choose, judge
from documents.corpus.pages import LANGUAGES, NOTE_WORDS, NotePage, format_number, read_text

pytestmark = pytest.mark.examples
CHARGED = {
    "en": "Account 0000 Amount EUR {amount}",
    "de": "Konto-Nr. 0000 Betrag zu Ihren Lasten EUR {amount}",
    "fr": "Compte 0000 Somme EUR {amount}",
    "es": "Cuenta 0000 Suma EUR {amount}",
    "it": "Conto 0000 Somma EUR {amount}",
}
RATES = ("1.1003", "1.0874", "0.9120", "1.2958", "1.5021")


@pytest.mark.parametrize("side", ["buy", "sell"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_note_without_a_difficulty_is_confirmed(language, side):
    page = NotePage(language, side=side)
    found = judge(read_text(page.write()))
    assert found.is_confirmed, found.reasons
    assert found.find_wrong_values(page.get_truth()) == {}


@pytest.mark.parametrize("rate, side, language", choose(list(product(RATES, ("buy", "sell"), LANGUAGES))))
def test_an_amount_charged_in_another_currency_is_the_payment(rate, side, language):
    page = NotePage(language, side=side)
    charged = (page.net / Decimal(rate)).quantize(Decimal("0.01"))
    lines = (
        f"EUR/USD {format_number(Decimal(rate), language)}",
        CHARGED[language].format(amount=format_number(charged, language)),
    )
    found = judge(read_text(NotePage(language, side=side, extra=lines).write()))
    assert found.kind == "contract-note"
    truth = {**page.get_truth(), "net": charged, "currency": "EUR", "fees": None}
    assert found.find_wrong_values(truth) == {}


@pytest.mark.parametrize("share, language", choose(list(product((1, 2, 3, 5), LANGUAGES))))
def test_a_payment_without_a_label_is_for_a_person(share, language):
    """The gross amount in another currency is printed beside it; the payment is stated nowhere."""
    page, rate = NotePage(language, quantity=Decimal(100 * share)), Decimal("1.2958")
    worth = (page.gross / rate).quantize(Decimal("0.01"))
    words, lines = NOTE_WORDS[language], page.write().splitlines()
    lines = [line for line in lines if not line.startswith((words["net_buy"], words["fee"]))]
    place = next(number for number, line in enumerate(lines) if line.startswith(words["gross"]))
    lines[place] += f" {format_number(worth, language)} EUR"
    lines += [f"EUR/USD {format_number(rate, language)}"]
    found = judge(read_text("\n".join(lines)))
    assert not found.is_confirmed
