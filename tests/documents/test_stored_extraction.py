"""Corrections apply to the same supplier only, and corrected values are checked."""

from postroom.documents import record_matching, stored_extraction
from postroom.documents.kinds import kind_registry
from postroom.documents.stored_extraction import StoredCheck, StoredExtraction, StoredField
from postroom.flow.documents.process import correction_applies
from postroom.store.reviews import FieldCorrection

SHAPES = {name: each.shape for name, each in kind_registry.list_installed()["invoice"].fields.items()}
WRONG, RIGHT = "DE02120300000000202052", "DE02120300000000202051"


def read(**fields):
    checks = (
        StoredCheck(f"check digits of iban: {WRONG}", passed=False),
        StoredCheck("net + vat = gross: 119", passed=True),
    )
    values = {name: StoredField(value, 0.9) for name, value in fields.items()}
    return StoredExtraction("invoice", "offline", fields=values, checks=checks)


def test_corrected_values_are_checked_like_read_values():
    found = stored_extraction.apply_corrections(read(iban=WRONG), {"iban": {WRONG: RIGHT}}, SHAPES)
    assert found.values == {"iban": RIGHT}
    assert [(each.words, each.passed) for each in found.checks] == [
        ("net + vat = gross: 119", True),
        (f"check digits of iban: {RIGHT}", True),
    ]


def test_other_values_keep_their_checks():
    given = read(iban=WRONG)
    assert stored_extraction.apply_corrections(given, {"iban": {"another": RIGHT}}, SHAPES) == given


def test_issuer_keys_are_valid_identifiers_in_order_of_reliability():
    values = {"supplier": "Xenon GmbH", "vat_id": "DE136695976", "iban": WRONG}
    assert list(record_matching.issuer_keys(values, SHAPES).values()) == [
        "vat_id=de136695976",
        "supplier=xenongmbh",
    ]


def test_corrections_do_not_apply_to_another_supplier_with_the_same_layout():
    lesson = FieldCorrection("supplier", "Seite 1", "Xenon GmbH", "vat_id=de136695976")
    assert correction_applies(lesson, {"vat_id": "vat_id=de136695976"})
    assert correction_applies(lesson, {})
    assert not correction_applies(lesson, {"vat_id": "vat_id=de811128135"})
