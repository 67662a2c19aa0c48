"""The offline reader: values beside labels, confirmed by arithmetic, without templates."""

from collections import Counter
from datetime import date
from decimal import Decimal

import pytest

from postroom.documents.fields import offline_reader
from postroom.documents.files import plain_text
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.invoice import INVOICE, VatAmount
from training import generated_documents
from training.value_comparison import is_same_value

NOTE = """Talblick Depotbank AG
Seestrasse 5 · 8002 Zürich
Erika Mustermann
Depotnummer 5874605234
Wertpapierabrechnung Verkauf
Stück Wertpapierbezeichnung ISIN Kürzel
475 Clairmont Energie US0378331005 CLEN
Kurs 35,356 EUR
Auftragsdatum 21.03.2024
Handelstag 22.03.2024 21:02:50
Valuta 25.03.2024
Kurswert 16.794,10 EUR
Provision 41,99- EUR
Fremde Spesen 2,42- EUR
Kapitalertragsteuer 1.175,59- EUR
Ausmachender Betrag 15.574,10 EUR
"""
BILL = """Kieselbach Druck GmbH · Ahornweg 12 · 20095 Hamburg
Rechnung an
Beispiel & Partner GmbH
Lindenallee 50
50667 Köln
Kundennummer 38194
Rechnung F2024/77512 vom 14.10.2024
Lieferdatum 13.10.2024
Pos. Bezeichnung Menge Einzelpreis Gesamtpreis
1 Broschüre 20 52,00 1.040,00
2 Schaltschrank 4 812,50 3.250,00
Nettobetrag 4.290,00 EUR
zzgl. 7 % USt. auf 1.040,00 72,80 EUR
zzgl. 19 % USt. auf 3.250,00 617,50 EUR
Gesamtbetrag 4.980,30 EUR
IBAN DE88 2008 0000 0970 3757 00  USt-IdNr. DE136695976
"""


def read(text, kind):
    return offline_reader.read_fields(plain_text.to_transcript(text), kind).fields


def test_every_field_of_a_contract_note_is_read():
    fields = read(NOTE, CONTRACT_NOTE)
    assert {name: field.value for name, field in fields.items()} == {
        "broker": "Talblick Depotbank AG",
        "account": "5874605234",
        "trade_date": date(2024, 3, 22),
        "settlement_date": date(2024, 3, 25),
        "isin": "US0378331005",
        "ticker": "CLEN",
        "name": "Clairmont Energie",
        "direction": "sell",
        "quantity": Decimal(475),
        "price": Decimal("35.356"),
        "currency": "EUR",
        "gross": Decimal("16794.10"),
        "fees": Decimal("44.41"),
        "taxes": Decimal("1175.59"),
        "net": Decimal("15574.10"),
    }


def test_a_value_has_its_position_and_evidence():
    field = read(NOTE, CONTRACT_NOTE)["net"]
    line = NOTE.splitlines().index("Ausmachender Betrag 15.574,10 EUR")
    assert field.page == 0
    assert field.box.top == line / plain_text.LINES_PER_PAGE
    assert field.box.left == len("Ausmachender Betrag ") / plain_text.COLUMNS_PER_LINE
    assert "right of “Ausmachender Betrag”" in field.evidence
    assert "16794.10 - 1220.00 = 15574.10" in field.evidence


@pytest.mark.parametrize(
    "line",
    [
        "Abrechnungsnummer WP-6387713",
        "Contract note number: WP-6387713",
        "Confirmation no. WP-6387713",
        "Numéro d'avis WP-6387713",
        "Réf. de l'avis : WP-6387713",
    ],
)
def test_the_note_number_is_read_and_the_order_number_is_not(line):
    orders = "Auftragsnummer 19772536\n"
    text = NOTE.replace("Depotnummer", f"{line}\n{orders}Depotnummer")
    field = read(text, CONTRACT_NOTE)["number"]
    assert (field.value, field.confidence > 0.9) == ("WP-6387713", True)
    assert field.box.top == text.splitlines().index(line) / plain_text.LINES_PER_PAGE
    assert "number" not in read(NOTE.replace("Depotnummer", f"{orders}Depotnummer"), CONTRACT_NOTE)


def test_every_field_of_an_invoice_is_read():
    fields = read(BILL, INVOICE)
    values = {name: field.value for name, field in fields.items()}
    assert values["supplier"] == "Kieselbach Druck GmbH"
    assert values["number"] == "F2024/77512"
    assert (values["issued_on"], values["delivered_on"]) == (date(2024, 10, 14), date(2024, 10, 13))
    assert (values["net"], values["vat"], values["gross"]) == (
        Decimal("4290.00"),
        Decimal("690.30"),
        Decimal("4980.30"),
    )
    assert (values["iban"], values["vat_id"]) == ("DE88200800000970375700", "DE136695976")
    assert [(each.rate, each.vat) for each in values["vat_rates"]] == [
        (7, Decimal("72.80")),
        (19, Decimal("617.50")),
    ]
    assert fields["vat_rates"].confidence > 0.9, "they add up"
    assert 0.5 < fields["lines"].confidence < 0.9, "each proves itself, but some may be missing"
    assert [(each.description, each.quantity, each.amount) for each in values["lines"]] == [
        ("Broschüre", 20, 1040),
        ("Schaltschrank", 4, 3250),
    ]


def test_arithmetic_finds_unlabelled_amounts():
    text = NOTE.replace("Stück Wertpapierbezeichnung ISIN Kürzel", "").replace("Kurs 35,356", "x 35,356")
    fields = read(text, CONTRACT_NOTE)
    assert (fields["quantity"].value, fields["price"].value) == (Decimal(475), Decimal("35.356"))
    assert fields["quantity"].confidence < read(NOTE, CONTRACT_NOTE)["quantity"].confidence


def test_a_number_that_arithmetic_contradicts_is_less_certain():
    fields = read(NOTE.replace("15.574,10", "15.999,99"), CONTRACT_NOTE)
    assert fields["net"].value == Decimal("15999.99")
    assert fields["net"].confidence < 0.95 <= read(NOTE, CONTRACT_NOTE)["net"].confidence


def test_the_converted_amount_is_the_payment():
    text = NOTE.replace(
        "Ausmachender Betrag 15.574,10 EUR",
        "Nettobetrag 15.574,10 EUR\nDevisenkurs EUR/CHF 0,9643\nZu Ihren Gunsten CHF 15.018,10",
    )
    fields = read(text, CONTRACT_NOTE)
    assert (fields["net"].value, fields["currency"].value) == (Decimal("15018.10"), "CHF")


def test_a_bond_is_counted_in_units_of_its_price():
    text = "Kauf\nNominale EUR 3.000,00\nKurs 96,45 %\nKurswert 2.893,50 EUR\nEndbetrag 2.893,50 EUR"
    fields = read(text, CONTRACT_NOTE)
    assert fields["quantity"].value == 30
    assert "3000.00 x 0.01" in fields["quantity"].evidence


def test_a_missing_trade_date_falls_back_to_the_document_date():
    fields = read(NOTE.replace("Handelstag 22.03.2024 21:02:50", "Datum 22.03.2024"), CONTRACT_NOTE)
    assert fields["trade_date"].value == date(2024, 3, 22)
    assert fields["trade_date"].confidence < 0.9
    assert fields["trade_date"].evidence.startswith("fallback: ")


def test_a_wrong_check_digit_lowers_the_confidence_and_keeps_the_value():
    field = read(NOTE.replace("US0378331005", "US0378331009"), CONTRACT_NOTE)["isin"]
    assert field.value == "US0378331009"
    assert "check digits invalid" in field.evidence


def test_an_empty_document_yields_no_fields():
    assert read("", CONTRACT_NOTE) == {}
    assert read("Guten Tag", INVOICE).keys() <= {"supplier"}


@pytest.mark.parametrize(
    "write, kind",
    [
        (generated_documents.generate_invoice, INVOICE),
        (generated_documents.generate_contract_note, CONTRACT_NOTE),
    ],
    ids=["invoice", "note"],
)
def test_generated_documents_of_six_languages_are_read(write, kind):
    right, every = Counter(), Counter()
    for number in range(7_000, 7_060):
        document = write(number, hard=0.1)
        fields = read(document.text, kind)
        for name in kind.required:
            every[name] += 1
            right[name] += name in fields and is_same_value(name, document.truth[name], fields[name].value)
    # Some notes name no day of trade, and what is meant then can only be guessed.
    wanted = {name: 0.85 if name == "trade_date" else 0.95 for name in every}
    assert {name: right[name] / every[name] >= wanted[name] for name in every} == dict.fromkeys(every, True)


UNKNOWN_FEES = """Talblick Depotbank AG
Wertpapierabrechnung Kauf
Stück Wertpapierbezeichnung ISIN
19 Clairmont Energie US0378331005
Kurs USD 8.705
Handelstag 04.02.2022
Kurswert USD 165.40
USD 165.40
Devisenkurs 0.9206 CHF 152.25
Externe Ausführungsabgabe CHF 0.15
Eidgenössisches Allerlei CHF 0.23
Belastung 123.456.780 Valuta 08.02.2022 CHF 152.63
"""


def test_the_payment_is_confirmed_line_by_line_without_labels():
    fields = read(UNKNOWN_FEES, CONTRACT_NOTE)
    assert fields["net"].value == Decimal("152.63")
    assert fields["net"].signals.agreed
    assert "running total" in fields["net"].evidence
    other = read(UNKNOWN_FEES.replace("0.23", "0.33"), CONTRACT_NOTE)
    assert not other["net"].signals.agreed


def test_the_sum_of_rows_confirms_the_payment():
    rows = "Stempelgebühr -25.50 0.938270 -23.93\nAktienbetrag -16'997.84 0.938270 -15'948.56\n"
    text = "Wertpapierabrechnung Kauf\nKurswert -16'997.84 EUR\nKurs 55.5485 EUR\nMenge 306.00\n" + rows
    fields = read(text + "Nettobetrag - - -39.83 -15'972.49\n", CONTRACT_NOTE)
    assert fields["net"].value == Decimal("15972.49")
    assert fields["net"].signals.agreed


def test_a_row_that_adds_up_confirms_its_last_amount():
    head = "Montant brut Commission Frais Montant net au débit de votre compte\n"
    text = "Avis d'opéré Achat\nQuantité 2 Cours 482,51 EUR\n" + head + "965,02 EUR 4,83 EUR 969,85 EUR\n"
    fields = read(text, CONTRACT_NOTE)
    assert fields["net"].value == Decimal("969.85")
    assert fields["net"].signals.agreed


def test_a_balance_in_your_favour_is_not_the_payment():
    text = NOTE + "Neuer Saldo zu Ihren Gunsten 5,36 EUR\n"
    assert read(text, CONTRACT_NOTE)["net"].value == Decimal("15574.10")


def test_two_trades_in_one_document_make_the_amount_uncertain():
    twice = NOTE + NOTE.replace("15.574,10", "15.600,00")
    assert read(NOTE, CONTRACT_NOTE)["net"].confidence >= 0.95 > read(twice, CONTRACT_NOTE)["net"].confidence


@pytest.mark.parametrize(
    "title", ["Rechnung Nr. 210111 mit LV vom 30.05.2026", "Rechnung 4711 von 30.05.2026"]
)
def test_number_and_date_are_read_from_the_title(title):
    fields = read(f"{title}\nBestellung vom 01.03.2026\nDatum: 02.04.2026\nNr. 99\n", INVOICE)
    assert fields["number"].value in {"210111 mit LV", "4711"}
    assert fields["issued_on"].value == date(2026, 5, 30)


def test_the_plain_word_date_is_no_rival_of_an_invoice_date():
    text = "Rechnung\nRechnungsdatum: 13.11.2017\nZahlung\nDatum: 05.11.2017\nBetrag: 201,00 €\n"
    found = read(text, INVOICE)["issued_on"]
    assert found.value == date(2017, 11, 13)
    assert found.confidence >= 0.95


def test_a_time_below_a_date_marks_the_trade_date():
    head = "AVIS D'OPÉRATIONS\nAu 27 mars 2024\nDésignation Débit Crédit\n"
    assert read(head + "26-03-2024 Référence 94R6\n16:27:35 Sens Achat\n", CONTRACT_NOTE)[
        "trade_date"
    ].value == date(2024, 3, 26)


SAVINGS = """Morgentau Broker GmbH · Seestrasse 5 · 80331 München
DATUM 04.03.2024
WERTPAPIERABRECHNUNG
Ausführung des Sparplans am 01.03.2024 an der Börse Hamburg.
POSITION ANZAHL DURCHSCHNITTSKURS BETRAG
Global Equity UCITS ETF 0,235139 Stk. 106,32 EUR 25,00 EUR
ISIN: US0378331005
GESAMT 25,00 EUR
ABRECHNUNG
Fremdkostenzuschlag 1,00 EUR
GESAMT 26,00 EUR
VERRECHNUNGSKONTO WERTSTELLUNG BETRAG
4711001 05.03.2024 -26.00 EUR
"""


def test_a_unit_belongs_to_the_number_before_it_and_not_to_the_price_behind():
    fields = read(SAVINGS, CONTRACT_NOTE)
    assert fields["quantity"].value == Decimal("0.235139")
    assert fields["price"].value == Decimal("106.32")
    assert read("Preis 20 Stück 5\nKurswert 100,00 EUR", CONTRACT_NOTE)["quantity"].value == 5


def test_the_execution_date_is_the_trade_date():
    fields = read(SAVINGS, CONTRACT_NOTE)
    assert fields["trade_date"].value == date(2024, 3, 1)


def test_the_total_after_fees_is_the_payment():
    fields = read(SAVINGS, CONTRACT_NOTE)
    assert (fields["gross"].value, fields["net"].value) == (Decimal("25.00"), Decimal("26.00"))
    assert fields["net"].confidence > 0.95


def test_an_outgoing_payment_confirms_weak_words_for_a_purchase():
    fields = read(SAVINGS, CONTRACT_NOTE)
    assert fields["direction"].value == "buy"
    assert fields["direction"].confidence > 0.95
    wordless = SAVINGS.replace("des Sparplans ", "")
    assert read(wordless, CONTRACT_NOTE)["direction"].value == "buy"
    assert read(wordless, CONTRACT_NOTE)["direction"].confidence < 0.95


CHANGED = """Granitbank AG
Wertpapierabrechnung Kauf
Geschäftstag 16.04.2024
Lumen Solaire SA ISIN US0378331005
Nominale Kurs
STK 20 USD 150,00
Kurswert USD 3.000,00
Fremde Spesen USD 13,90
Ausmachender Betrag USD 3.013,90
Umrechn. zum Dev. kurs 1,080600 vom 17.04.2024 EUR 2.789,10
Provision EUR 18,93
Valuta 18.04.2024 Zu Ihren Lasten EUR 2.808,03
"""


def test_an_amount_that_is_converted_below_is_not_the_payment():
    fields = read(CHANGED, CONTRACT_NOTE)
    assert (fields["net"].value, fields["currency"].value) == (Decimal("2808.03"), "EUR")


def test_a_price_in_another_currency_is_converted():
    note = (
        "Wertpapierabrechnung Kauf\nISIN US0378331005\nNominale Kurs\nUSD 2.000,00 60,69 %\n"
        "Devisenkurs EUR/USD 1,077697\nKurswert EUR 1.126,29\nProvision EUR 5,90\nEndbetrag EUR 1.132,19\n"
    )
    fields = read(note, CONTRACT_NOTE)
    assert (fields["quantity"].value, fields["gross"].value) == (20, Decimal("1126.29"))
    assert fields["quantity"].signals.agreed


TAXED = """Wertpapierabrechnung Verkauf
Geschäftstag 16.04.2024
ISIN US0378331005
Stück 20 Kurs EUR 608,00
Kurswert EUR 12.160,00
Provision EUR 40,70-
Zu Ihren Gunsten vor Steuern EUR 12.119,30
Kapitalertragsteuer EUR 329,44-
Zu Ihren Gunsten nach Steuern EUR 11.789,86
"""


def test_the_amount_after_taxes_is_preferred():
    assert read(TAXED, CONTRACT_NOTE)["net"].value == Decimal("11789.86")


def test_a_first_column_number_does_not_belong_to_the_last_header():
    note = "WKN ISIN Bezeichnung Anzahl\n940602 US0378331005 Nordstern 0,384510\nKurswert 10,00 EUR\n"
    assert read(note, CONTRACT_NOTE)["quantity"].value == Decimal("0.38451")


def test_inclusion_words_qualify_a_label():
    bill = (
        "Rechnung 4711\nTrennblätter 198,00\nJoghurt 275,00\nRechnungssumme netto (exkl. USt.) 473,00\n"
        "USt. 7% 275,00 19,25\nUSt. 19% 198,00 37,62\nRechnungssumme brutto (inkl. USt.) 529,87 EUR\n"
    )
    fields = read(bill, INVOICE)
    assert (fields["net"].value, fields["gross"].value) == (Decimal("473.00"), Decimal("529.87"))


def test_the_declared_currency_is_preferred_over_a_nearby_one():
    bill = "Rechnung 4711\nRechnungswährung: GBP\nSteuer in EUR 183,14\nBruttosumme 1021,91\n"
    currency = read(bill, INVOICE)["currency"]
    assert (currency.value, currency.confidence > 0.95) == ("GBP", True)
    near = read(bill.replace("Rechnungswährung: GBP", "GBP 12,00"), INVOICE)["currency"]
    assert near.confidence < 0.95


def test_a_labelled_iban_of_wrong_length_is_read():
    assert (
        read("Rechnung 4711\nIBAN: DE12 1234 4321 9876 00\n", INVOICE)["iban"].value == "DE1212344321987600"
    )
    assert "iban" not in read("Rechnung 4711\nCode DE12 1234 4321 9876 00\n", INVOICE)


@pytest.mark.parametrize(
    "before, is_issuers",
    [
        ("Bitte überweisen Sie auf unser Konto ", True),
        ("Please pay to our bank account, IBAN: ", True),
        ("Wir buchen den Betrag von Ihrem Konto mit der IBAN ", False),
        ("Ihre Bankverbindung\nIBAN: ", False),
        ("We debit your bank account (IBAN): ", False),
        ("Votre compte : ", False),
    ],
)
def test_an_account_of_the_recipient_is_not_the_issuers(before, is_issuers):
    text = f"Rechnung 4711\n{before}DE88 2008 0000 0970 3757 00\n"
    assert ("iban" in read(text, INVOICE)) is is_issuers


@pytest.mark.parametrize(
    "lines, prepaid, payable",
    [
        ("Gesamtbetrag 119,00 EUR\nErhaltene Anzahlungen -50,00 EUR\nNoch zu zahlen 69,00 EUR", 50, 69),
        ("Total EUR 119.00\nDeposit paid EUR 50.00\nBalance due EUR 69.00", 50, 69),
        ("Total TTC 119,00 EUR\nAcompte versé 50,00 EUR\nReste à payer 69,00 EUR", 50, 69),
        ("Gesamtbetrag 119,00 EUR\nZahlbetrag bei Skonto bis 14 Tagen: 116,62 EUR", None, None),
    ],
)
def test_deposit_and_amount_due_are_read_beside_the_total(lines, prepaid, payable):
    fields = read(f"Rechnung / Invoice / Facture 4711\n{lines}\n", INVOICE)
    found = {name: field.value for name, field in fields.items()}
    assert (found["gross"], found.get("prepaid"), found.get("payable")) == (119, prepaid, payable)


@pytest.mark.parametrize(
    "address, buyer",
    [
        ("Xenon GmbH, Am Markt 1, 20095 Hamburg\n\nNordwind AG\nHafenweg 3\n28195 Bremen", "Nordwind AG"),
        ("Xenon GmbH\nAm Markt 1\n20095 Hamburg\nRechnung an:\nNordwind AG\nBremen", "Nordwind AG"),
        ("Xenon Ltd\nBill to: Northwind Ltd\n3 Harbour Road", "Northwind Ltd"),
        ("Xenon GmbH\nAm Markt 1\n20095 Hamburg", None),
    ],
)
def test_the_buyer_is_the_labelled_name_or_the_one_above_an_address(address, buyer):
    field = read(f"{address}\n\nRechnung / Invoice\nRechnungsnummer: 4711\n", INVOICE).get("buyer")
    assert (field and field.value) == buyer


def test_a_receipt_has_a_total_and_an_unlabelled_date():
    receipt = (
        "MORGENTAU HARDWARE SDN BHD\nLOT 3, JALAN LINDEN 6,\n-TAX INVOICE-\n1 X 25.90 25.90\n1 X 0.20 0.20\n"
        "Total Incl. GST@6% RM 26.10\nCASH RM 50.00\nCHANGE RM 23.90\nGST @6% included in total RM 1.48\n"
        "23-03-18 18:09 SH01 T1\n"
    )
    fields = read(receipt, INVOICE)
    assert fields["supplier"].value == "MORGENTAU HARDWARE SDN BHD"
    assert fields["issued_on"].value == date(2018, 3, 23)
    assert fields["issued_on"].confidence < 0.95
    assert fields["gross"].value == Decimal("26.10")


@pytest.mark.parametrize(
    "items, net, vat, gross, rows",
    [
        ("Steel shelf 10 12.50 125.00", "125.00", "VAT 20% 25.00", "150.00", [(20, "25.00")]),
        (
            "Shelf 10 10.00 100.00\nBracket 10 1.00 10.00",
            "110.00",
            "VAT 20% 22.00",
            "132.00",
            [(20, "22.00")],
        ),
        ("Screw 10 1000.00 10000.00", "10000.00", "VAT 19% 1900.00", "11900.00", [(19, "1900.00")]),
        ("Rent 100.00 10.00", "110.00", "VAT 20% 22.00", "132.00", [(20, "22.00")]),
    ],
)
def test_a_quantity_is_no_tax_rate(items, net, vat, gross, rows):
    fields = read(
        f"Northwind Fixtures Ltd\nInvoice\nInvoice number INV-118\nInvoice date March 4, 2026\n{items}\n"
        f"Subtotal {net}\n{vat}\nTotal {gross} GBP\n",
        INVOICE,
    )
    assert [(each.rate, str(each.vat)) for each in fields["vat_rates"].value] == rows


@pytest.mark.parametrize(
    "totals",
    [
        "10 % 100.00 10.00\nSubtotal 110.00\nVAT 22.00\nTotal 132.00 GBP",
        "Subtotal 110.00\nVAT 10 % 22.00\nTotal 132.00 GBP",
        "Subtotal 110.00\nVAT 20 % 20.00\nVAT 5 % 2.00\nTotal 132.00 GBP",
        "20 % 100.00 20.00\n20 % 10.00 2.00\nSubtotal 130.00\nVAT 20.00\nTotal 150.00 GBP",
    ],
)
def test_tax_rows_that_do_not_add_up_are_left_out(totals):
    fields = read(
        "Northwind Fixtures Ltd\nInvoice\nInvoice number INV-118\nInvoice date March 4, 2026\n"
        + totals
        + "\n",
        INVOICE,
    )
    assert "vat_rates" not in fields


def test_two_rates_without_net_amounts_are_read_if_they_add_up_to_the_totals():
    fields = read(
        "Papeterie Exemple SARL\nFacture\nRéf. facture 2026-189\nDate de facture 6 janvier 2026\n"
        "Total HT 5 908,85 EUR\nTVA 20 % 1 067,17 EUR\nTVA 5,5 % 31,51 EUR\nMontant TVA 1 098,68 EUR\n"
        "Total TTC 7 007,53 EUR\n",
        INVOICE,
    )
    assert fields["vat_rates"].value == (
        VatAmount(Decimal("5.5"), None, Decimal("31.51")),
        VatAmount(Decimal(20), None, Decimal("1067.17")),
    )
