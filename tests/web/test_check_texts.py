"""Checks and review reasons read as sentences, with the labels that the fields beside them have."""

import pytest

from postroom.web.check_texts import describe_findings


@pytest.mark.parametrize(
    "stored, shown",
    [
        (
            "number was not found; supplier is uncertain (0.86); issued_on is uncertain (0.39)",
            "“Invoice number” was not found; “Supplier” is uncertain (86%); “Issued” is uncertain (39%)",
        ),
        (
            "number is ambiguous: it may also be only “2026”",
            "“Invoice number” is ambiguous: it may also be only “2026”",
        ),
        (
            "the readers disagree on iban: DE02 or GB33",
            "“IBAN”: the readers disagree: DE02 or GB33",
        ),
        (
            "title: the title “Quotation” suggests another kind of document",
            "The title “Quotation” suggests another kind of document",
        ),
        (
            "title: the title “Avoir” suggests another kind of document: amounts must be negative",
            "The title “Avoir” suggests another kind of document: amounts must be negative",
        ),
        (
            "one reading of number: it may also be only “2026”",
            "“Invoice number”: it may also be only “2026”",
        ),
        (
            "both readers agree on iban: DE02 is also read as GB33",
            "“IBAN”: the readers disagree; DE02 is also read as GB33",
        ),
        (
            "usual gross: 1200.00 is far from the usual 119.00; known iban: DE02 is new",
            "“Gross amount”: 1200.00 is far from the usual 119.00; “IBAN”: DE02 is new",
        ),
        ("kind: certainty 0.99", "Document kind: invoice (99%)"),
        (
            "check digits of vat_id: CHE1; net + vat = 3, gross is 4",
            "Check digits of “VAT ID” CHE1 are wrong; net + VAT = 3, gross is 4",
        ),
        (
            "title: “Quotation” looks like its title",
            "The title “Quotation” suggests another kind of document",
        ),
    ],
)
def test_findings_are_sentences(stored: str, shown: str):
    assert describe_findings(stored, "invoice") == shown


def test_findings_depend_on_the_kind_and_on_the_outcome():
    assert describe_findings("number was not found", "contract-note") == (
        "“Contract note number” was not found"
    )
    assert describe_findings("check digits of isin: DE1", "contract-note", passed=True) == (
        "Check digits of “ISIN” DE1 are correct"
    )
