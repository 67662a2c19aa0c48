"""Generated invoices that mislead: tax tables, early payment, conversions, debits, the buyer's VAT ID.

Each is right or in review, none confirmed wrong.
"""

from decimal import Decimal

import pytest

from documents.corpus.judgement import combine, judge
from documents.corpus.pages import (
    INVOICE_WORDS,
    VAT_IDS,
    InvoicePage,
    Item,
    format_number,
    read_text,
)
from documents.files import sample_files
from postroom.documents.files import pdf
from postroom.documents.sandbox.file_limits import FileLimits

pytestmark = pytest.mark.examples


def _assert_right_or_in_review(page: InvoicePage, text: str = "") -> None:
    found = judge(read_text(text or page.write()))
    assert found.kind == "invoice", found.reasons
    assert found.find_wrong_values(page.get_truth()) == {}
    if found.is_confirmed and (rows := found.recorded.get("vat_rates")):
        assert {row.rate: row.vat for row in rows} == page.taxes


ROWS = (("40.00", "12.50"), ("806.77", "437.26"), ("119.90", "1210.00"), ("33.33", "66.67"))


@pytest.mark.parametrize("prices, rates, language, layout", combine(ROWS, ((19, 7), (20, 10), (5, 21))))
def test_a_row_of_a_tax_table_is_not_the_total(
    prices: tuple[str, str], rates: tuple[int, int], language: str, layout: str
) -> None:
    items = tuple(
        Item(Decimal(21 - 11 * place), Decimal(price), Decimal(rate))
        for place, (price, rate) in enumerate(zip(prices, rates, strict=True))
    )
    _assert_right_or_in_review(InvoicePage(language, layout, items=items, shows_taxes_in_rows=True))


@pytest.mark.parametrize("labels", [("Warenwert", "Bruttobetrag"), ("Summe netto", "Summe EUR")])
@pytest.mark.parametrize("prices", ROWS)
def test_a_row_of_a_printed_tax_table_is_not_the_total(
    prices: tuple[str, str], labels: tuple[str, str]
) -> None:
    items = tuple(
        Item(Decimal(21 - 11 * place), Decimal(price), Decimal(rate))
        for place, (price, rate) in enumerate(zip(prices, (19, 7), strict=True))
    )
    page = InvoicePage("de", number="R2026-0054", items=items, due=None, iban="")
    rows = [("Satz", "Netto", "MwSt", "Brutto")]
    rows += [
        (f"{rate} %", *(format_number(each, "de") for each in (item.amount, tax, item.amount + tax)))
        for item, (rate, tax) in zip(items, page.taxes.items(), strict=True)
    ]
    facts = [("Re.-Nr.", page.number), ("Rechnungsdatum", f"{page.issued:%d.%m.%Y}")]
    totals = zip((labels[0], "MwSt", labels[1]), (page.net, page.gross - page.net, page.gross), strict=True)
    facts += [(label, f"{format_number(amount, 'de')} EUR") for label, amount in totals]
    words = [(50, 800, "Hafendruck Fichte GmbH | Kaiweg 12, 28195 Bremen | HRB 4412"), (50, 700, "RECHNUNG")]
    words += [
        (50 + 90 * column, 600 - 15 * row, cell)
        for row, line in enumerate(rows)
        for column, cell in enumerate(line)
    ]
    for place, (label, value) in enumerate(facts):
        height = 680 - 15 * place if place < 2 else 560 - 15 * place
        words += [(50 if place < 2 else 340, height, label), (200 if place < 2 else 460, height, value)]
    found = judge(pdf.read(sample_files.pdf(words), FileLimits()).reading)
    assert found.find_wrong_values(page.get_truth()) == {}


@pytest.mark.parametrize("vat_id, language, layout", combine(VAT_IDS))
def test_a_vat_id_below_an_unlabelled_address_is_the_buyers(vat_id: str, language: str, layout: str) -> None:
    supplier = "DE811569869"
    page = InvoicePage(language, layout, vat_id=supplier, buyer_vat_id=vat_id, has_sender_line=True)
    _assert_right_or_in_review(page)


EARLY_PAYMENT = {
    "en": ("If paid by 2026-10-22 2% discount: {amount}", "2 % cash discount until 2026-10-22, {amount}"),
    "de": (
        "Bei Zahlung bis 2026-10-22 2 % Skonto = {amount}",
        "Zahlbar bis 2026-10-22 mit 2 % Skonto: {amount}",
    ),
    "fr": (
        "Escompte 2 % si paiement avant le 2026-10-22 : {amount}",
        "Payable avant le 2026-10-22 avec escompte",
    ),
    "es": ("Descuento 2% por pago antes del 2026-10-22: {amount}", "Pronto pago 2 %, vencimiento 2026-10-22"),
    "it": ("Sconto 2% per pagamento entro il 2026-10-22: {amount}", "Scadenza 2026-10-22 con sconto del 2 %"),
}


@pytest.mark.parametrize("variant, price, language, layout", combine((0, 1), ("25.00", "318.66")))
def test_the_date_of_a_cash_discount_is_not_the_due_date(
    variant: int, price: str, language: str, layout: str
) -> None:
    page = InvoicePage(language, layout, due=None, items=(Item(Decimal(5), Decimal(price)),))
    reduced = page.show((page.gross * Decimal("0.98")).quantize(Decimal("0.01")))
    text = f"{page.write()}\n{EARLY_PAYMENT[language][variant].format(amount=reduced)}\n"
    _assert_right_or_in_review(page, text)


CONVERSIONS = {
    "en": ("Equivalent in USD: {amount} (rate 1.1642)", "VAT in USD: {amount}", "10 x {amount} USD"),
    "de": ("Gegenwert in USD: {amount} (Kurs 1,1642)", "MwSt. in USD: {amount}", "10 x {amount} USD"),
    "fr": ("Contre-valeur en USD : {amount} (taux 1,1642)", "TVA en USD : {amount}", "Dont {amount} USD"),
    "es": ("Contravalor en USD: {amount} (cambio 1,1642)", "IVA en USD: {amount}", "10 x {amount} USD"),
    "it": ("Controvalore in USD: {amount} (cambio 1,1642)", "IVA in USD: {amount}", "10 x {amount} USD"),
}


@pytest.mark.parametrize(
    "variant, price, language, layout", combine((0, 1, 2), ("25.00", "318.66", "1049.50", "7.77"))
)
def test_the_currency_of_a_conversion_is_not_the_documents(
    variant: int, price: str, language: str, layout: str
) -> None:
    page = InvoicePage(language, layout, items=(Item(Decimal(5), Decimal(price)),), notation="{amount}")
    amount = format_number((page.gross * Decimal("1.1642")).quantize(Decimal("0.01")), language)
    found = judge(read_text(f"{page.write()}\n{CONVERSIONS[language][variant].format(amount=amount)}\n"))
    assert found.find_wrong_values(page.get_truth()) == {}


ORDER_LABELS = {
    "en": ("Your PO", "PO"),
    "de": ("Ihre PO", "Ihre Bestellung"),
    "fr": ("Votre PO", "Bon de commande"),
    "es": ("Su PO", "Su pedido"),
    "it": ("Vs. PO", "Vs. ordine"),
}
ORDERS = ("PO-5950", "PO/5950", "PO_5950", "PO5950", "PO-59-50")


@pytest.mark.parametrize("variant, order, language, layout", combine((0, 1), ORDERS))
def test_a_label_in_a_code_is_a_part_of_it(variant: int, order: str, language: str, layout: str) -> None:
    label = ORDER_LABELS[language][variant]
    shown = (f"{label}: {order}",) if layout == "colon" else (label, order)
    page = InvoicePage(language, layout, extra=(*shown, ""))
    found = judge(read_text(page.write()))
    assert found.find_wrong_values(page.get_truth()) == {}
    assert found.recorded.get("purchase_order", order) == order


ORDER_DATES = {
    "en": ("Date of order: {day} August 2026", "Date of your order: {day} August 2026"),
    "de": ("Datum der Bestellung: {day}. August 2026", "Datum Ihrer Bestellung: {day}. August 2026"),
    "fr": ("Date de commande : {day} août 2026", "Date de la commande : {day} août 2026"),
    "es": ("Fecha de pedido: {day} de agosto de 2026", "Fecha del pedido {day} de agosto de 2026"),
    "it": ("Data ordine: {day} agosto 2026", "Data dell'ordine {day} agosto 2026"),
}


@pytest.mark.parametrize("variant, day, language, layout", combine((0, 1), (3, 20, 31)))
def test_the_date_of_an_order_is_not_the_invoices(variant: int, day: int, language: str, layout: str) -> None:
    page, words = InvoicePage(language, layout), INVOICE_WORDS[language]
    order = ORDER_DATES[language][variant].format(day=day)
    text = page.write().replace(words["title"], f"{words['title']}\n{order}", 1)
    _assert_right_or_in_review(page, text)
    # Without another date, a person is asked.
    left = "\n".join(line for line in text.splitlines() if not line.startswith(words["date"]))
    found = judge(read_text(left.replace(f"{page.issued:%Y-%m-%d}", "")))
    assert not found.is_confirmed


RESTS = {
    "en": ("Remaining", "Left to settle", "Rest", "Still open"),
    "de": ("Verbleiben", "Es bleiben", "Rest", "Noch offen"),
    "fr": ("Il reste", "Reliquat", "Reste", "Encore dû"),
    "es": ("Resto", "Queda", "Faltan", "Por abonar"),
    "it": ("Rimanenza", "Resto", "Restano", "Ancora aperto"),
}


@pytest.mark.parametrize("variant, prepaid, language, layout", combine((0, 1, 2, 3), ("30.00", "75.00")))
def test_a_rest_with_an_unknown_label_is_for_a_person(
    variant: int, prepaid: str, language: str, layout: str
) -> None:
    page = InvoicePage(language, layout, prepaid=Decimal(prepaid))
    words = INVOICE_WORDS[language]
    text = page.write().replace(words["payable"], RESTS[language][variant], 1)
    assert not judge(read_text(text)).is_confirmed


WITHOUT_COUNTRY = {
    "en": ("VAT No.", "980780684"),
    "de": ("USt-IdNr.", "136695976"),
    "fr": ("N° TVA", "40303265045"),
    "es": ("N.I.F.", "B12345674"),
    "it": ("P.IVA", "00743110157"),
}


@pytest.mark.parametrize("vat_id, language, layout", combine(VAT_IDS))
def test_the_buyers_vat_id_is_not_taken_for_one_without_a_country(
    vat_id: str, language: str, layout: str
) -> None:
    page = InvoicePage(language, layout, buyer_vat_id=vat_id)
    text = f"{page.write()}\n{' '.join(WITHOUT_COUNTRY[language])}\n"
    found = judge(read_text(text))
    assert found.recorded.get("vat_id") != vat_id


DEBITS = {
    "en": (
        "Amount will be collected from your account IBAN {iban}",
        "Direct debit, IBAN {iban}",
        "We draw 150.00 EUR from {iban} on 2026-10-20",
    ),
    "de": (
        "Der Betrag wird vom Konto IBAN {iban} abgebucht",
        "SEPA-Lastschrift: IBAN {iban}",
        "Wir holen 150,00 EUR von {iban}",
    ),
    "fr": (
        "Montant prélevé sur le compte IBAN {iban}",
        "Prélèvement SEPA IBAN {iban}",
        "Nous tirons 150,00 EUR du {iban}",
    ),
    "es": (
        "Domiciliación en su cuenta IBAN {iban}",
        "Adeudo directo IBAN {iban}",
        "Tomamos 150,00 EUR de {iban}",
    ),
    "it": (
        "Addebito sul Vs. conto IBAN {iban}",
        "Addebito diretto SEPA, IBAN {iban}",
        "Preleviamo 150,00 EUR da {iban}",
    ),
}
DEBITED = ("FR7630006000011234567890189", "DE88200800000970375700")


@pytest.mark.parametrize("variant, iban, language, layout", combine((0, 1, 2), DEBITED))
def test_a_debited_account_is_not_the_suppliers(variant: int, iban: str, language: str, layout: str) -> None:
    page = InvoicePage(language, layout, extra=(DEBITS[language][variant].format(iban=iban),))
    _assert_right_or_in_review(page)


NUMBERS = ("A 10777", "R 26 / 441", "F 2026-12", "INV 10777", "A - 10777", "A. 10777", "Re 10777", "b 10777")
NUMBER_LABELS = {
    "en": ("Invoice no.", "No", "Reference"),
    "de": ("Rechnungsnr.", "Nr.", "Beleg-Nr."),
    "fr": ("Réf. facture", "No", "Numéro de facture"),
    "es": ("Factura", "Nº de factura", "Núm. factura"),
    "it": ("Fattura", "N. fattura", "Nr. fattura"),
}


@pytest.mark.parametrize("variant, number, language, layout", combine((0, 1, 2), NUMBERS))
def test_a_prefix_of_a_number_is_not_cut_off(variant: int, number: str, language: str, layout: str) -> None:
    page = InvoicePage(language, layout, number=number)
    label = INVOICE_WORDS[language]["number"]
    text = page.write()
    assert label in text
    _assert_right_or_in_review(page, text.replace(label, NUMBER_LABELS[language][variant], 1))


MINUSES = ("-{amount}", "- {amount}", "({amount})", "{amount}-")


@pytest.mark.parametrize("notation, language, layout", combine(MINUSES))
def test_a_deposit_with_a_minus_is_positive(notation: str, language: str, layout: str) -> None:
    page = InvoicePage(language, layout, prepaid=Decimal("75.00"))
    shown = notation.format(amount=format_number(page.prepaid, language))
    text = page.write()
    assert page.show(page.prepaid) in text
    found = judge(read_text(text.replace(page.show(page.prepaid), shown)))
    assert found.recorded.get("prepaid", page.prepaid) == page.prepaid


FORWARD = {
    "en": ("Previous balance", "Brought forward"),
    "de": ("Saldovortrag", "Übertrag"),
    "fr": ("Solde précédent", "Report"),
    "es": ("Saldo anterior", "Saldo pendiente anterior"),
    "it": ("Saldo precedente", "Riporto"),
}


@pytest.mark.parametrize("variant, balance, language, layout", combine((0, 1), ("12.78", "4.60", "31.25")))
def test_a_balance_brought_forward_is_no_tax(variant: int, balance: str, language: str, layout: str) -> None:
    page, words = InvoicePage(language, layout), INVOICE_WORDS[language]
    due = page.show(page.net + Decimal(balance))
    tax = words["vat"].format(rate="20")
    lines = [line for line in page.write().splitlines() if not line.startswith(tax)]
    at = next(number for number, line in enumerate(lines) if line.startswith(words["gross"]))
    lines[at : at + 1] = [
        f"{FORWARD[language][variant]:<40}{page.show(Decimal(balance))}",
        f"{words['gross']:<40}{due}",
    ]
    found = judge(read_text("\n".join(lines)))
    assert not found.is_confirmed or "vat" not in found.recorded


@pytest.mark.parametrize("house, street, language, layout", combine((9, 12, 140), ("Corso Italia", "Quai")))
def test_a_number_below_a_name_with_po_is_no_order(
    house: int, street: str, language: str, layout: str
) -> None:
    head = [(50, 800, "Elettrica Po S.p.A."), (50, 785, f"{street} {house}"), (50, 770, "10121 Torino")]
    lines = InvoicePage(language, layout).write().splitlines()[1:]
    shown = [(50, 730 - 14 * place, line) for place, line in enumerate(lines) if line.strip()]
    found = judge(pdf.read(sample_files.pdf([*head, *shown]), FileLimits()).reading)
    assert found.kind == "invoice"
    assert "purchase_order" not in found.recorded


@pytest.mark.parametrize("vat_id, language, layout", combine(VAT_IDS))
def test_an_iban_behind_a_vat_id_is_read(vat_id: str, language: str, layout: str) -> None:
    page = InvoicePage(language, layout)
    text = page.write().replace(f"IBAN {page.iban}", f"{vat_id} IBAN {page.iban}")
    found = judge(read_text(text))
    assert found.find_wrong_values({**page.get_truth(), "vat_id": vat_id}) == {}
    assert found.recorded["iban"] == page.iban


@pytest.mark.parametrize("digits, language, layout", combine((12, 14, 16, 24)))
def test_an_iban_that_cannot_be_read_is_for_a_person(digits: int, language: str, layout: str) -> None:
    page = InvoicePage(language, layout)
    text = page.write().replace(page.iban, f"QQ89X{page.iban[4:digits]}")
    assert not judge(read_text(text)).is_confirmed
