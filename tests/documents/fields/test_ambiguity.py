"""Ambiguous values are not confirmed: thousands, dates, currency signs."""

from datetime import date
from decimal import Decimal

import pytest

from documents.fields.test_offline_reader import BILL, NOTE
from documents.test_analysis import UBL, reading
from postroom.documents.analysis import analyze
from postroom.documents.kinds.kind_registry import list_installed

KINDS = list_installed()
INVOICE, NOTES = KINDS["invoice"], KINDS["contract-note"]
CONFIRM_ABOVE = 0.95
BOSTON = "12 Harbor Street\nBoston, MA 02110"
NOWHERE = "12 Harbor Street"


def invoice(*amounts, sign="$", address=BOSTON, day="March 4, 2026", foot="", words=True):
    net, vat, gross = (f"{sign}{amount}" for amount in amounts or ("180.00", "18.00", "198.00"))
    thanks = "Please pay this amount within 30 days. Thank you for your business." if words else ""
    text = (
        f"Northwind Fixtures\n{address}\nInvoice\nBill to Example Partners\nInvoice number INV-118\n"
        f"Invoice date {day}\nSubtotal {net}\nTax {vat}\nTotal {gross}\n{thanks}\n{foot}\n"
    )
    return analyze(reading(text), [INVOICE])


def numbered(line, foot=""):
    return analyze(
        reading(
            f"Northwind Fixtures\n{BOSTON}\nInvoice\nBill to Example Partners\n{line}\n"
            "Invoice date March 4, 2026\nSubtotal $180.00\nTax $18.00\nTotal $198.00\n"
            f"Please pay this amount within 30 days. Thank you for your business.\n{foot}\n"
        ),
        [INVOICE],
    )


def in_doubt(found, name):
    field = found.fields[name]
    return bool(field.ambiguity) and field.confidence < CONFIRM_ABOVE and field.ambiguity in field.evidence


def scales(found):
    return [each for each in found.failed_checks if each.startswith("gross is ambiguous")]


@pytest.mark.parametrize("sign", ["$", "¥", "GBP "])
def test_three_digits_after_a_comma_are_thousands_in_an_english_invoice(sign):
    found = invoice("180,000", "18,000", "198,000", sign=sign)
    assert found.fields["gross"].value == 198_000
    assert scales(found) == []


@pytest.mark.parametrize(
    "amounts, sign, more",
    [
        (("180.000", "18.000", "198.000"), "EUR ", {}),
        (
            ("180,000", "18,000", "198,000"),
            "EUR ",
            {"words": False, "foot": "und Rechnung, Betrag, Kurs, Summe"},
        ),
        (("180,000", "18,000", "198,000"), "$", {"foot": "Suite 10,11"}),
    ],
    ids=["a point in English", "a comma in German", "a convention that money does not have"],
)
def test_an_amount_that_adds_up_in_both_scales_needs_review(amounts, sign, more):
    found = invoice(*amounts, sign=sign, **more)
    assert scales(found)


def test_certain_numbers_resolve_an_ambiguous_amount():
    found = invoice("1.500", "500", "2.000", sign="EUR ")
    assert found.fields["gross"].value == 2000
    assert scales(found) == []


def test_yen_have_no_decimals_with_any_thousands_separator():
    found = invoice("180.000", "18.000", "198.000", sign="JPY ")
    assert (found.fields["gross"].value, scales(found)) == (198_000, [])


def test_quantities_keep_three_decimals_or_thousands():
    parts = NOTE.replace("475 ", "12,345 ").replace("35,356 EUR", "100,00 EUR")
    parts = parts.replace("16.794,10", "1.234,50").replace("15.574,10", "1.234,50")
    found = analyze(reading(parts), [NOTES])
    assert (found.fields["quantity"].value, found.fields["quantity"].ambiguity) == (Decimal("12.345"), "")
    pieces = (
        NOTE.replace("475 ", "1.500 ").replace("16.794,10", "53.034,00").replace("15.574,10", "53.034,00")
    )
    found = analyze(reading(pieces), [NOTES])
    assert (found.fields["quantity"].value, found.fields["quantity"].ambiguity) == (Decimal(1500), "")


def test_an_ambiguous_date_is_uncertain_with_a_reason():
    found = invoice(day="04/03/2026", address=NOWHERE)
    assert in_doubt(found, "issued_on")
    assert "2026-03-04" in found.fields["issued_on"].evidence
    assert not in_doubt(invoice(day="04/04/2026", address=NOWHERE), "issued_on")


@pytest.mark.parametrize(
    "more, month",
    [
        ({"address": BOSTON}, 4),
        ({"address": NOWHERE, "foot": "Due date 04/30/2026"}, 4),
        ({"address": NOWHERE, "foot": "Due date 30/04/2026"}, 3),
        ({"address": NOWHERE, "foot": "Printed on April 3, 2026"}, 4),
        ({"address": NOWHERE, "foot": "Printed on 2026-03-04"}, 3),
        ({"address": NOWHERE, "foot": "Paid at 9:41 AM EST"}, 4),
        ({"sign": "USD ", "address": "1 Market Square, London"}, 3),
        ({"sign": "USD ", "address": "1 Market Square, Leeds LS1 4DY"}, 3),
        ({"sign": "£", "address": NOWHERE}, 3),
        ({"sign": "RM ", "address": NOWHERE}, 3),
        ({"sign": "A$", "address": NOWHERE}, 3),
    ],
)
def test_other_evidence_resolves_an_ambiguous_date(more, month):
    found = invoice(day="04/03/2026", **more)
    day = {3: date(2026, 3, 4), 4: date(2026, 4, 3)}[month]
    assert (found.fields["issued_on"].value, found.fields["issued_on"].ambiguity) == (day, "")


def test_a_german_text_puts_the_day_first_and_an_american_with_euros_is_uncertain():
    found = analyze(reading(BILL.replace("14.10.2024", "04/10/2024")), [INVOICE])
    assert (found.fields["issued_on"].value, found.fields["issued_on"].ambiguity) == (date(2024, 10, 4), "")
    assert in_doubt(invoice(day="04/03/2026", sign="EUR "), "issued_on")


@pytest.mark.parametrize(
    "sign, code",
    [
        ("A$", "AUD"),
        ("AU$", "AUD"),
        ("C$", "CAD"),
        ("CA$", "CAD"),
        ("HK$", "HKD"),
        ("S$", "SGD"),
        ("NZ$", "NZD"),
        ("R$", "BRL"),
        ("US$", "USD"),
        ("MX$", "MXN"),
        ("CAD $", "CAD"),
        ("CN¥", "CNY"),
    ],
)
def test_a_sign_with_its_country_is_certain(sign, code):
    found = invoice(sign=sign, address=NOWHERE)
    assert (found.fields["currency"].value, found.fields["currency"].ambiguity) == (code, "")


@pytest.mark.parametrize(
    "sign, more, code",
    [
        ("$", {"foot": "All amounts in USD"}, "USD"),
        ("$", {"foot": "All amounts in CAD"}, "CAD"),
        ("$", {"address": "Sydney\nABN 51 824 753 556"}, "AUD"),
        ("$", {"address": BOSTON}, "USD"),
        ("¥", {"address": "Tokyo"}, "JPY"),
        ("¥", {"address": "Shanghai"}, "CNY"),
    ],
)
def test_a_shared_sign_is_resolved_by_the_named_country(sign, more, code):
    found = invoice(sign=sign, **{"address": NOWHERE, **more})
    assert (found.fields["currency"].value, found.fields["currency"].ambiguity) == (code, "")


@pytest.mark.parametrize(
    "sign, foot", [("$", ""), ("¥", ""), ("$", "USD or CAD"), ("$", "Shipped from Canada to Singapore")]
)
def test_an_unresolved_shared_sign_is_uncertain(sign, foot):
    assert in_doubt(invoice(sign=sign, address=NOWHERE, foot=foot), "currency")


def test_xml_resolves_ambiguities_of_the_visible_text():
    text = BILL.replace("EUR", "$").replace("14.10.2024", "10/14/2024")
    for code, differing in (("AUD", []), ("EUR", ["currency"])):
        found = analyze(reading(text, UBL.replace(">EUR<", f">{code}<")), [INVOICE])
        assert [each.field for each in found.differences] == differing


@pytest.mark.parametrize(
    "number", ["HF 2026 0117", "2026 0117", "R 26 / 441", "A-12 345", "2026-11 / 12", "RE2026 / 0091"]
)
@pytest.mark.parametrize("label", ["Invoice number", "Rechnung Nr.", "N° de facture", "Numero fattura:"])
def test_a_number_with_spaces_is_read_as_a_whole_and_not_confirmed(label, number):
    found = numbered(f"{label} {number}")
    assert found.fields["number"].value == number
    assert any(each.startswith("number is ambiguous") for each in found.failed_checks)


@pytest.mark.parametrize("label", ["Réf. facture:", "Numéro de facture :", "N° de facture"])
def test_a_prefix_of_a_number_is_not_taken_for_the_end_of_its_label(label):
    found = numbered(f"{label} A 10777")
    assert found.fields["number"].value == "A 10777"
    assert any(each.startswith("number is ambiguous") for each in found.failed_checks)


@pytest.mark.parametrize(
    "prefix, is_doubted",
    [
        *((each, True) for each in ("A-", "A.", "A -", "A-B", "Re", "a", "DE")),
        *((each, False) for each in ("", "Nr", "nr.", "No:", "n°", "#")),
    ],
)
@pytest.mark.parametrize("label", ["Invoice no.", "Rechnungsnr.", "Réf. facture:", "Número de factura"])
def test_a_prefix_between_label_and_number_may_be_a_part_of_it(label, prefix, is_doubted):
    found = numbered(f"{label} {prefix} 10777")
    assert found.fields["number"].value == "10777"
    assert any(each.startswith("number is ambiguous") for each in found.failed_checks) is is_doubted


def test_an_optional_number_with_spaces_is_uncertain_and_does_not_need_review():
    found = numbered("Invoice number 4711", foot="Your order no: HF 2026 0117")
    assert found.fields["purchase_order"].value == "HF 2026 0117"
    assert found.fields["purchase_order"].confidence < 0.9
    assert found.failed_checks == ()


def test_a_number_with_spaces_that_is_repeated_is_certain():
    found = numbered("Invoice number HF 2026 0117", foot="Reference: HF 2026 0117")
    assert found.fields["number"].value == "HF 2026 0117"
    assert found.failed_checks == ()


@pytest.mark.parametrize("behind", ["Page 1 of 2", "12.03.2026", "Customer no. 88"])
def test_what_follows_a_number_is_no_part_of_it(behind):
    found = numbered(f"Invoice number 4711 {behind}")
    assert found.fields["number"].value == "4711"
    assert found.failed_checks == ()


@pytest.mark.parametrize("pattern", ["- £{}", "({})", "£{} CR"])
def test_a_doubtful_minus_is_not_confirmed(pattern):
    net, vat, gross = (pattern.format(each) for each in ("180.00", "18.00", "198.00"))
    found = invoice(net, vat, gross, sign="")
    assert found.fields["gross"].value == Decimal("-198.00")
    assert scales(found)
