"""Fees, taxes and accrued interest: what is part of the payment, and what a document only names."""

from decimal import Decimal

import pytest

from postroom.documents.fields import offline_reader
from postroom.documents.files import plain_text
from postroom.documents.kinds.contract_note import CONTRACT_NOTE

SALE = """Talblick Depotbank AG
Wertpapierabrechnung Verkauf
Handelstag 22.03.2024 21:02:50
Clairmont Energie ISIN US0378331005
Stück 475 Kurs 35,356 EUR
Kurswert 16.794,10 EUR
Provision 41,99- EUR
Fremde Auslagen 2,42- EUR
Bemessungsgrundlage für die Kapitalertragsteuer 4.456,12 EUR
Kapitalertragsteuer 25,00% auf 4.456,12 EUR 1.114,03- EUR
Solidaritätszuschlag 5,50% auf 1.114,03 EUR 61,27- EUR
Ausmachender Betrag 15.574,39 EUR
"""
PURCHASE = """Hafenbank AG
Wertpapierabrechnung Kauf
Handelstag 22.03.2024
Clairmont Energie ISIN US0378331005
Stück 100 Kurs 20,00 EUR
Kurswert 2.000,00 EUR
Provision 10,00 EUR
{charges}
Endbetrag zu Ihren Lasten {paid} EUR
"""


def read_charges(text):
    fields = offline_reader.read_fields(plain_text.to_transcript(text), CONTRACT_NOTE).fields
    return {name: fields[name] for name in ("fees", "taxes", "accrued_interest") if name in fields}


def test_the_amount_that_is_taxed_is_not_the_tax():
    found = read_charges(SALE)
    assert {name: field.value for name, field in found.items()} == {
        "fees": Decimal("44.41"),
        "taxes": Decimal("1175.30"),
    }
    assert all(field.confidence >= 0.95 for field in found.values())


@pytest.mark.parametrize(
    "charges, paid, fees",
    [
        ("Fremde Spesen 5,00 EUR\nSumme Entgelte 15,00 EUR", "2.015,00", "15.00"),
        ("Fremde Spesen 5,00 EUR\nProvision 10,00 EUR", "2.015,00", "15.00"),
        ("Provision Rabatt -4,00 EUR", "2.006,00", "6.00"),
        ("Börsengebühr USD 12,00", "2.010,00", "10.00"),
    ],
    ids=["their sum too", "one of them twice", "a rebate", "one in another currency"],
)
def test_charges_add_up_to_what_was_paid(charges, paid, fees):
    field = read_charges(PURCHASE.format(charges=charges, paid=paid))["fees"]
    assert (field.value, field.confidence >= 0.95) == (Decimal(fees), True)


def test_charges_in_columns_are_read():
    text = PURCHASE.replace("Kurswert 2.000,00 EUR\nProvision 10,00 EUR\n{charges}\n", "").replace(
        "Endbetrag zu Ihren Lasten {paid} EUR",
        "Kurswert Provision Börsengebühr Endbetrag zu Ihren Lasten\n2.000,00 EUR 10,00 EUR 2.010,00 EUR",
    )
    assert read_charges(text)["fees"].value == Decimal("10.00")


def test_interest_goes_to_the_seller():
    text = SALE.replace("Provision", "Stückzinsen 100,00 EUR\nProvision").replace("15.574,39", "15.674,39")
    found = {name: field.value for name, field in read_charges(text).items()}
    assert found == {
        "fees": Decimal("44.41"),
        "taxes": Decimal("1175.30"),
        "accrued_interest": Decimal("100.00"),
    }


CONVERTED = """Hafenbank AG
Wertpapierabrechnung Kauf
Handelstag 22.03.2024
Clairmont Energie ISIN US0378331005
Stück 100 Kurs 20,00 USD
Kurswert 2.000,00 USD
Devisenkurs 1,2500
{charge}
Gegenwert 1.600,00 EUR
Provision 10,00 EUR
Endbetrag zu Ihren Lasten 1.610,00 EUR
"""


def test_charges_after_a_conversion_are_certain_unless_there_were_some_before():
    after, both = (
        read_charges(CONVERTED.format(charge=charge))["fees"] for charge in ("", "Börsengebühr 5,00 USD")
    )
    assert (after.value, after.confidence >= 0.95) == (Decimal("10.00"), True)
    assert both.confidence < 0.95


@pytest.mark.parametrize("paid", ["2.027,50", "2.000,00"])
def test_charges_that_do_not_explain_the_payment_are_uncertain(paid):
    field = read_charges(PURCHASE.format(charges="Fremde Spesen 5,00 EUR", paid=paid))["fees"]
    assert field.value == Decimal("15.00")
    assert field.confidence < 0.6
