"""Corrections apply to the same supplier only, and corrected values are checked."""

from dataclasses import asdict

import pytest

from postroom.documents import record_matching, stored_extraction
from postroom.documents.analysis_result import DocumentAnalysis
from postroom.documents.fields.extraction_result import EInvoiceDifference, FieldCheck
from postroom.documents.files.file_reading import Transcript
from postroom.documents.kinds import kind_registry
from postroom.documents.stored_extraction import StoredCheck, StoredExtraction, StoredField
from postroom.flow.documents.process import correction_applies
from postroom.store.reviews import FieldCorrection

INVOICE = kind_registry.list_installed()["invoice"]
NOTE = kind_registry.list_installed()["contract-note"]
SHAPES = {name: each.shape for name, each in INVOICE.fields.items()}
WRONG, RIGHT = "DE02120300000000202052", "DE02120300000000202051"


def read(**fields):
    checks = (
        StoredCheck("check digits of iban", f"check digits of iban: {WRONG}", passed=False, fields=("iban",)),
        StoredCheck(
            "the readers disagree on iban",
            f"the readers disagree on iban: {WRONG} or {RIGHT}",
            passed=False,
            fields=("iban",),
            is_doubt=True,
        ),
        StoredCheck(
            "net + vat = gross", "net + vat = gross: 119", passed=True, fields=("net", "vat", "gross")
        ),
    )
    values = {name: StoredField(value, 0.9) for name, value in fields.items()}
    return StoredExtraction("invoice", "offline", fields=values, checks=checks)


def test_corrected_values_are_checked_like_read_values():
    found = stored_extraction.apply_corrections(read(iban=WRONG), {"iban": {WRONG: RIGHT}}, INVOICE)
    assert found.values == {"iban": RIGHT}
    assert [(each.words, each.passed) for each in found.checks] == [
        ("net + vat = gross: 119", True),
        (f"check digits of iban: {RIGHT}", True),
    ]


@pytest.mark.parametrize("net_at_rate", [None, "-100.00"])
def test_taxes_by_rate_must_add_up_to_corrected_totals(net_at_rate):
    rows = [{"rate": "19", "net": net_at_rate, "vat": "19.00"}]
    given = {"net": "100.00", "vat": "19.00", "gross": "119.00", "vat_rates": rows}
    right = {"net": "-100.00", "vat": "-19.00", "gross": "-119.00"}
    found = {each.name: each for each in stored_extraction.check_corrected(INVOICE, (), given, right)}
    assert found["vat_rates add up to vat"].needs_override
    assert found["net + vat = gross"].passed
    right["vat_rates"] = [{"rate": "19", "net": net_at_rate, "vat": "-19.00"}]
    found = stored_extraction.check_corrected(INVOICE, (), given, right)
    assert all(each.passed for each in found)


def test_rows_of_another_form_are_not_checked():
    given = {"vat": "19.00", "vat_rates": [{"percent": "19"}]}
    found = stored_extraction.check_corrected(INVOICE, (), given, {"vat": "18.00"})
    assert all(each.passed for each in found)


def test_other_values_keep_their_checks():
    given = read(iban=WRONG)
    assert stored_extraction.apply_corrections(given, {"iban": {"another": RIGHT}}, INVOICE) == given


def test_stored_check_is_read_with_its_name_fields_and_doubt():
    analysis = DocumentAnalysis(
        INVOICE,
        certainty=0.9,
        skip_reason=None,
        fields={},
        checks=(FieldCheck("net is ambiguous", False, "it may be 1: or 2", fields=("net",), is_doubt=True),),
        differences=(EInvoiceDifference("gross", "119", "the XML says 119"),),
    )
    stored = stored_extraction.to_stored(analysis, "invoice", Transcript("plain", (), ())).checks
    assert [stored_extraction.read_check(asdict(check)) for check in stored] == list(stored)
    assert [(check.name, check.details, check.fields, check.needs_override) for check in stored] == [
        ("net is ambiguous", "it may be 1: or 2", ("net",), False),
        ("e-invoice", "the XML says 119", ("gross",), True),
    ]


@pytest.mark.parametrize(
    "words, name, is_doubt",
    [
        ("net + vat = gross: net + vat = 2, gross is 1", "net + vat = gross", False),
        ("check digits of gross: 1", "check digits of gross", False),
        ("one reading of gross: it may also be 1", "one reading of gross", True),
        ("both readers agree on gross: 2 is also read as 1", "both readers agree on gross", True),
        ("the XML says 2: for gross; the visible text does not", "e-invoice", False),
        ("fees are added to a purchase, deducted from a sale: buy: gross 100, net 99", None, False),
    ],
)
def test_check_of_an_earlier_version_is_dropped_when_its_field_is_corrected(words, name, is_doubt):
    check = stored_extraction.read_check({"words": words, "passed": False, "is_severe": True})
    assert (check.name, check.is_doubt) == (name or words.partition(":")[0], is_doubt)
    assert stored_extraction.check_corrected(NOTE, [check], {}, {"net": "1", "gross": "2"}) == ()
    assert stored_extraction.check_corrected(NOTE, [check], {}, {"isin": None}) == (check,)


@pytest.mark.parametrize(
    "words, is_doubt",
    [("kind: certainty 0.41", True), ("title: “net” looks like its title", False), ("one isin: A, B", False)],
)
def test_check_of_the_text_by_an_earlier_version_stays(words, is_doubt):
    check = stored_extraction.read_check({"words": words, "passed": False})
    assert (check.is_failed, check.needs_override) == (True, not is_doubt)
    assert stored_extraction.check_corrected(NOTE, [check], {}, {"net": "1", "isin": None}) == (check,)


def test_issuer_keys_are_valid_identifiers_in_order_of_reliability():
    values = {"supplier": "Xenon GmbH", "vat_id": "DE136695976", "iban": WRONG}
    assert list(record_matching.issuer_keys(values, SHAPES).values()) == [
        "vat_id=de136695976",
        "supplier=xenongmbh",
    ]


def test_corrections_do_not_apply_to_another_supplier_with_the_same_layout():
    correction = FieldCorrection("supplier", "Seite 1", "Xenon GmbH", "vat_id=de136695976")
    assert correction_applies(correction, {"vat_id": "vat_id=de136695976"})
    assert correction_applies(correction, {})
    assert not correction_applies(correction, {"vat_id": "vat_id=de811128135"})
