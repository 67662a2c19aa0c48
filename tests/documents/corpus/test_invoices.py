"""Generated invoices with what was once read wrongly: each is right or in review, none confirmed wrong."""

from datetime import date
from decimal import Decimal

import pytest

from documents.corpus.judgement import combine, judge
from documents.corpus.pages import LANGUAGES, LAYOUTS, VAT_IDS, InvoicePage, Item, format_number, read_text
from postroom.documents.accounting_controls import EarlierRecord, KnownFacts
from postroom.documents.fields.check_digits import check_vat_id

pytestmark = pytest.mark.examples
NUMBERS = (
    "HF 2026 0117",
    "2026 0117",
    "R 26 / 441",
    "A-12 345",
    "2026-11 / 12",
    "RE 2026 / 0117",
    "INV 000 123",
    "F 26 11 0042",
    "2026/ 117",
    "117 / 2026",
    "26-0117 A",
    "B 12.345 / 26",
    "26 0117 02",
    "RG 2026-0117",
    "AB 12 CD 34",
    "2026 - 0117",
    "R-26 441 B",
    "FA 2026 11 017",
    "0026 0441",
    "S/2026 /17",
    "10 2026 117",
    "K 4711 / 2 / 26",
    "2026 11 14 003",
    "X 1",
)
MINUS = (
    "-{symbol}{amount}",
    "- {symbol}{amount}",
    "{symbol}-{amount}",
    "{symbol} -{amount}",
    "({amount})",
    "({symbol}{amount})",
    "{symbol}({amount})",
    "{amount}-",
    "{amount} -",
    "{symbol}{amount}-",
    "{symbol}{amount} CR",
    "{amount} CR",
    "CR {amount}",
    "-{amount}",
    "\N{MINUS SIGN}{amount}",
    "\N{EN DASH}{amount}",
    "-{amount} {currency}",
    "{currency} -{amount}",
    "-{currency} {amount}",
    "{amount}- {currency}",
    "({amount}) {currency}",
    "- {amount} {symbol}",
    "{amount} {symbol} -",
    "{amount} {currency} CR",
    "-/- {amount}",
    "-/- {symbol}{amount}",
    "./. {amount}",
    "<{amount}>",
    "[{amount}]",
    "{amount}(-)",
    "{amount} H",
)
RATES = ((Decimal(20),), (Decimal(20), Decimal("5.5")), (Decimal("8.1"), Decimal("2.6")))
QUANTITIES = (7, 10, 19, 20, 21, 5, 22, 25)


def assert_right_or_in_review(page, **given):
    found = judge(read_text(page.write()), **given)
    assert found.kind == "invoice", found.reasons
    assert found.find_wrong_values(page.get_truth()) == {}
    return found


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_invoice_without_a_difficulty_is_confirmed(language, layout):
    assert assert_right_or_in_review(InvoicePage(language, layout)).is_confirmed


@pytest.mark.parametrize("number, language, layout", combine(NUMBERS))
def test_a_number_with_spaces_is_not_cut(number, language, layout):
    assert_right_or_in_review(InvoicePage(language, layout, number))


@pytest.mark.parametrize("notation, is_credit, language, layout", combine(MINUS, (False, True)))
def test_a_minus_is_not_lost(notation, is_credit, language, layout):
    currency = "GBP" if language == "en" else "EUR"
    page = InvoicePage(
        language, layout, notation=notation, sign=-1, currency=currency, is_credit=is_credit, hides_lines=True
    )
    assert_right_or_in_review(page)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_credit_note_with_amounts_as_printed_needs_a_minus(language):
    found = judge(read_text(InvoicePage(language, is_credit=True).write()))
    assert any("amounts of a credit note must be negative" in reason for reason in found.reasons)


@pytest.mark.parametrize("quantity, prices, language, layout", combine(QUANTITIES, (1, 2, 3)))
def test_a_quantity_is_not_a_tax_rate(quantity, prices, language, layout):
    items = tuple(Item(Decimal(quantity), Decimal(f"{12 + 7 * place}.50")) for place in range(prices))
    check_tables(InvoicePage(language, layout, items=items))


@pytest.mark.parametrize("low, high, language, layout", combine((5, 7, 10), (19, 20, 21)))
def test_taxes_at_two_rates_are_summed(low, high, language, layout):
    items = (
        Item(Decimal(3), Decimal("40.00"), Decimal(low)),
        Item(Decimal(high), Decimal("12.50"), Decimal(high)),
    )
    check_tables(InvoicePage(language, layout, items=items))


@pytest.mark.parametrize("rates, price, language, layout", combine(RATES, ("109.89", "238.86", "529.57")))
def test_a_part_of_an_amount_is_not_a_tax_rate(rates, price, language, layout):
    """In "1 098,90", the 1 is not a rate."""
    items = tuple(
        Item(Decimal(50 if place == 0 else 11), Decimal(price), rate) for place, rate in enumerate(rates)
    )
    check_tables(InvoicePage(language, layout, items=items, hides_lines=True))


def check_tables(page):
    """Rows that the machine confirms are the printed ones, all of them."""
    found = assert_right_or_in_review(page)
    if not found.is_confirmed:
        return
    if rows := found.recorded.get("vat_rates"):
        assert {row.rate: row.vat for row in rows} == page.taxes
    if rows := found.recorded.get("lines"):
        assert [row.amount for row in rows] == [item.amount for item in page.items]
        assert [row.quantity for row in rows] in ([item.quantity for item in page.items], [None] * len(rows))


@pytest.mark.parametrize("vat_id, language, layout", combine(VAT_IDS))
def test_a_valid_vat_id_is_not_called_wrong(vat_id, language, layout):
    assert check_vat_id(vat_id) is not False
    page = InvoicePage(language, layout, vat_id=vat_id)
    found = assert_right_or_in_review(page)
    assert not any("vat_id" in reason for reason in found.reasons)


@pytest.mark.parametrize("vat_id, language, layout", combine(VAT_IDS))
def test_the_buyers_vat_id_is_not_the_suppliers(vat_id, language, layout):
    assert_right_or_in_review(InvoicePage(language, layout, buyer_vat_id=vat_id))


CONTROLS = {
    "changed account": ({"iban": "FR7630006000011234567890189"}, "known iban"),
    "changed account of the same country": ({"iban": "DE88200800000970375700"}, "known iban"),
    "a date years ago": ({"issued": date(2021, 10, 14), "due": date(2021, 11, 13)}, "plausible issued_on"),
    "a date years ahead": ({"issued": date(2029, 10, 14), "due": date(2029, 11, 13)}, "plausible issued_on"),
    "a due date years ahead": ({"due": date(2062, 11, 13)}, "plausible due_on"),
    "another addressee": ({"buyer": "Birkenhain Logistik GmbH"}, "known buyer"),
    "a similar addressee": ({"buyer": "Alder Trading Ltd"}, "known buyer"),
    "a much larger amount": ({"items": (Item(Decimal(90), Decimal("250.00")),)}, "usual gross"),
    "a much smaller amount": ({"items": (Item(Decimal(1), Decimal("2.00")),)}, "usual gross"),
}


@pytest.mark.parametrize("control, language, layout", combine(CONTROLS))
def test_what_an_accountant_would_ask_about_is_for_a_person(control, language, layout):
    change, name = CONTROLS[control]
    usual = InvoicePage(language, layout)
    record = EarlierRecord(usual.iban, str(usual.gross), usual.currency)
    facts = KnownFacts(date(2026, 10, 16), [record] * 6, [usual.get_truth()["buyer"]])
    if layout != "below":
        assert assert_right_or_in_review(usual, facts=facts).is_confirmed
    found = assert_right_or_in_review(InvoicePage(language, layout, **change), facts=facts)
    assert any(reason.startswith(name) for reason in found.reasons)


@pytest.mark.parametrize("prepaid, language, layout", combine(("30.00", "75.00", "149.00", "0.50")))
def test_a_balance_due_is_not_the_total(prepaid, language, layout):
    assert_right_or_in_review(InvoicePage(language, layout, prepaid=Decimal(prepaid)))


DISCOUNT = {
    "en": "Discount",
    "de": "Rabatt",
    "fr": "Remise",
    "es": "Descuento",
    "it": "Sconto",
}


@pytest.mark.parametrize("notation, language, layout", combine(MINUS[:8]))
def test_a_discount_with_a_minus_leaves_the_total_positive(notation, language, layout):
    shown = notation.format(amount=format_number(Decimal("12.00"), language), symbol="€", currency="EUR")
    assert_right_or_in_review(InvoicePage(language, layout, extra=(f"{DISCOUNT[language]} {shown}",)))
