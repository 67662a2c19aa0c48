"""What a correction teaches, and whom it leaves alone."""

from postroom.documents import record_matching, stored_extraction
from postroom.documents.kinds import kind_registry
from postroom.documents.stored_extraction import StoredCheck, StoredExtraction, StoredField
from postroom.flow.documents.process import lesson_applies
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


def test_what_is_taught_is_tested_as_what_was_read():
    found = stored_extraction.apply_corrections(read(iban=WRONG), {"iban": {WRONG: RIGHT}}, SHAPES)
    assert found.values == {"iban": RIGHT}
    assert [(each.words, each.passed) for each in found.checks] == [
        ("net + vat = gross: 119", True),
        (f"check digits of iban: {RIGHT}", True),
    ]


def test_another_value_is_left_alone_with_its_checks():
    given = read(iban=WRONG)
    assert stored_extraction.apply_corrections(given, {"iban": {"another": RIGHT}}, SHAPES) == given


def test_a_supplier_is_known_by_what_was_read_rightly_the_surest_first():
    values = {"supplier": "Xenon GmbH", "vat_id": "DE136695976", "iban": WRONG}
    assert list(record_matching.issuer_keys(values, SHAPES).values()) == [
        "vat_id=de136695976",
        "supplier=xenongmbh",
    ]


def test_another_supplier_whose_papers_look_alike_is_left_alone():
    lesson = FieldCorrection("supplier", "Seite 1", "Xenon GmbH", "vat_id=de136695976")
    assert lesson_applies(lesson, {"vat_id": "vat_id=de136695976"})
    assert lesson_applies(lesson, {})
    assert not lesson_applies(lesson, {"vat_id": "vat_id=de811128135"})
