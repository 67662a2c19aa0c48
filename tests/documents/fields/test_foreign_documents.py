"""Documents of unknown senders: other languages, cash rounding, two VAT IDs, fee-free trades, odd tables."""

from datetime import date
from decimal import Decimal

import pytest

from postroom.documents.fields import offline_reader
from postroom.documents.files import plain_text
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.invoice import INVOICE

DANISH = """Havneby Trykkeri ApS
Faktura
Fakturanr: 20417
Fakturadato: 14.03.2024
Forfaldsdato: 28.03.2024
Subtotal 1.000,00 DKK
Moms 25 % 250,00 DKK
At betale 1.250,00 DKK
"""
POLISH = """Drukarnia Jodła Sp. z o.o.
Faktura VAT nr: FV/20417/2024
Data wystawienia: 14.03.2024
Termin płatności: 28.03.2024
Wartość netto 1000,00 PLN
Kwota VAT 23 % 230,00 PLN
Razem do zapłaty 1230,00 PLN
"""
TURKISH = """Çam Matbaa A.Ş.
Fatura no: 20417
Fatura tarihi: 14.03.2024
Son ödeme tarihi: 28.03.2024
Ara toplam 1.000,00 TRY
Hesaplanan KDV % 20 200,00 TRY
Ödenecek tutar 1.200,00 TRY
"""
PORTUGUESE = """Gráfica do Cais Lda
Fatura nº: 20417
Data de emissão: 14.03.2024
Data de vencimento: 28.03.2024
Total sem IVA 1.000,00 EUR
Valor do IVA 23 % 230,00 EUR
Total com IVA 1.230,00 EUR
"""
SWEDISH_NOTE = """Fjordbanken AB
Avräkningsnota Köp
Affärsdag 14-03-2024
Likviddag 18-03-2024
Nordlys Energi ISIN US0378331005
Antal 100
Kurs 20,00 SEK
Affärsbelopp 2.000,00 SEK
Courtage 10,00 SEK
Att betala 2.010,00 SEK
"""
FREE = """Granitbank AG
Wertpapierabrechnung Kauf
Handelstag 22.03.2024 09:02:50
Clairmont Energie ISIN US0378331005
Stück 100 Kurs 20,00 EUR
{amounts}
"""
RECEIPT = """Corner Shop Sdn Bhd
Tax Invoice
Invoice no: 4711
Invoice date: 3 May 2024
Net amount 29.69 MYR
GST 6 % 1.78 MYR
Total 31.47 MYR
Rounding adj -0.02
Total after rounding 31.45 MYR
Cash 50.00
Change 18.55
"""
OWN, BUYERS = "DE136695976", "DE129273398"
BILL = """Kieselbach Druck GmbH
Rechnung Nr. 4711
Rechnungsdatum 14.10.2024
{ids}
Nettobetrag 100,00 EUR
zzgl. 19 % USt. 19,00 EUR
Gesamtbetrag 119,00 EUR
"""


def read(text, kind=INVOICE):
    return offline_reader.read_fields(plain_text.to_transcript(text), kind).fields


@pytest.mark.parametrize(
    "text, number, gross",
    [
        (DANISH, "20417", "1250.00"),
        (POLISH, "FV/20417/2024", "1230.00"),
        (POLISH.replace("ł", "l").replace("ś", "s").replace("ć", "c"), "FV/20417/2024", "1230.00"),
        (TURKISH, "20417", "1200.00"),
        (PORTUGUESE, "20417", "1230.00"),
    ],
    ids=["Danish", "Polish", "Polish without accents", "Turkish", "Portuguese"],
)
def test_an_invoice_in_another_language_is_read(text, number, gross):
    fields = read(text)
    assert fields["number"].value == number
    assert (fields["issued_on"].value, fields["due_on"].value) == (date(2024, 3, 14), date(2024, 3, 28))
    assert (fields["net"].value, fields["gross"].value) == (Decimal("1000.00"), Decimal(gross))
    assert fields["gross"].confidence >= 0.95


def test_a_swedish_contract_note_is_read():
    fields = read(SWEDISH_NOTE, CONTRACT_NOTE)
    assert (fields["trade_date"].value, fields["settlement_date"].value) == (
        date(2024, 3, 14),
        date(2024, 3, 18),
    )
    assert (fields["direction"].value, fields["quantity"].value) == ("buy", 100)
    assert (fields["fees"].value, fields["net"].value) == (Decimal("10.00"), Decimal("2010.00"))


def test_the_total_of_a_receipt_is_the_one_after_rounding():
    field = read(RECEIPT)["gross"]
    assert (field.value, field.confidence >= 0.95) == (Decimal("31.45"), True)
    assert read(RECEIPT.replace("Rounding adj -0.02", "Voucher -0.02"))["gross"].value == Decimal("31.47")


@pytest.mark.parametrize(
    "label", ["Ihre USt-IdNr.", "Kunden-USt-ID:", "Customer VAT no:", "Votre N° TVA", "N° TVA client"]
)
def test_the_vat_id_of_the_buyer_is_not_the_suppliers(label):
    ids = f"{label} {BUYERS}\nUSt-IdNr. {OWN}"
    field = read(BILL.format(ids=ids))["vat_id"]
    assert (field.value, field.confidence >= 0.95) == (OWN, True)


def test_one_of_two_vat_ids_is_uncertain():
    ids = f"USt-IdNr. {BUYERS}\nUSt-IdNr. {OWN}"
    assert read(BILL.format(ids=ids))["vat_id"].confidence < 0.9


@pytest.mark.parametrize(
    "amounts",
    [
        "Kurswert Endbetrag zu Ihren Lasten\n2.000,00 EUR 2.000,00 EUR",
        "Kurswert 2.000,00 EUR\nEndbetrag zu Ihren Lasten 2.000,00 EUR",
        "Kurswert EUR 2.000,00\nBetrag - - - - - - EUR 2.000,00",
    ],
    ids=["columns", "rows", "a weak label and dashes"],
)
def test_without_fees_the_gross_amount_is_paid(amounts):
    field = read(FREE.format(amounts=amounts), CONTRACT_NOTE)["net"]
    assert (field.value, field.confidence >= 0.95) == (Decimal("2000.00"), True)


def test_dashes_in_empty_columns_are_not_letter_spacing():
    text = FREE.format(
        amounts="Kurswert 2.000,00 EUR\nProvision - - - - - 10,00 EUR\nNettobetrag - - - - - - 2.010,00"
    )
    fields = read(text, CONTRACT_NOTE)
    assert not fields["net"].signals.is_letter_spaced
    assert (fields["net"].value, fields["net"].confidence >= 0.95) == (Decimal("2010.00"), True)


def test_letter_spacing_matters_only_without_arithmetic():
    spaced = FREE.format(amounts="Kurswert 2.460,00 EUR").replace(
        "Stück 100 Kurs 20,00 EUR", "S t . 1 2 0 EUR 2 0 , 5 0"
    )
    proven, alone = (
        read(text, CONTRACT_NOTE)["quantity"] for text in (spaced, spaced.replace("2.460", "2.4"))
    )
    assert proven.signals.is_letter_spaced
    assert (proven.value, proven.confidence >= 0.95) == (120, True)
    assert alone.confidence < 0.95


@pytest.mark.parametrize("line, code", [("PO445", "PO445"), ("PO: 445", "445"), ("PO 445", "445")])
def test_a_label_that_is_part_of_the_code_belongs_to_it(line, code):
    assert read(BILL.format(ids=line))["purchase_order"].value == code


@pytest.mark.parametrize(
    "payments, prepaid, payable",
    [
        ("Anzahlung 19,00 EUR\nRestbetrag 100,00 EUR", "19.00", "100.00"),
        ("Anzahlung: -19,00\nRestbetrag 100,00 EUR", "19.00", "100.00"),
        ("Less deposit (19,00)\nRestbetrag 100,00 EUR", "19.00", "100.00"),
        ("Überweisung 02.10.2024 19,00 EUR\nRestbetrag 100,00 EUR", "19.00", "100.00"),
        ("Restbetrag 119,00 EUR", None, "119.00"),
    ],
    ids=["a deposit", "a minus", "parentheses", "a payment without a label", "nothing paid"],
)
def test_the_total_confirms_what_is_due(payments, prepaid, payable):
    fields = read(BILL.format(ids="") + payments)
    assert fields["gross"].value == Decimal("119.00")
    assert (fields["payable"].value, fields["payable"].confidence >= 0.95) == (Decimal(payable), True)
    assert (str(fields["prepaid"].value) if "prepaid" in fields else None) == prepaid


@pytest.mark.parametrize("deposit", ["50,00", "-50,00"])
def test_the_deposit_of_a_credit_note_keeps_the_sign_of_the_total(deposit):
    totals = f"Gesamtbetrag -119,00 EUR\nAnzahlung {deposit} EUR\nRestbetrag -69,00 EUR"
    fields = read(f"Gutschrift\nNettobetrag -100,00 EUR\nMwSt 19 % -19,00 EUR\n{totals}\n")
    assert [fields[name].value for name in ("gross", "prepaid", "payable")] == [-119, -50, -69]
