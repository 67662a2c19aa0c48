"""A language model's wrong values and a person's wrong sums, for invoices in five languages."""

from itertools import product

import pytest

from documents.corpus.judgement import KINDS, choose, judge
from documents.corpus.pages import LANGUAGES, InvoicePage, read_text
from postroom.documents import stored_extraction
from postroom.documents.analysis import analyze
from postroom.documents.fields.extraction_result import ModelAnswer

pytestmark = pytest.mark.examples
RIGHT = {"number": "20417", "issued_on": "2026-10-14", "gross": "150.00", "net": "125.00", "currency": "EUR"}
WRONG = {
    "a number that is not there": {"number": "20471"},
    "the due date as date": {"issued_on": "2026-11-13"},
    "a date that is not there": {"issued_on": "2026-10-15"},
    "net as gross": {"gross": "125.00"},
    "the tax as gross": {"gross": "25.00"},
    "a gross amount that is not there": {"gross": "160.00"},
    "another sign": {"gross": "-150.00", "net": "-125.00", "vat": "-25.00"},
    "a hundredfold": {"gross": "15000.00", "net": "12500.00", "vat": "2500.00"},
    "sums that add up, but are not there": {"gross": "180.00", "net": "150.00", "vat": "30.00"},
    "another currency": {"currency": "USD"},
    "another IBAN": {"iban": "DE88200800000970375700"},
    "the buyer as supplier": {"supplier": "{buyer}"},
    "a supplier that is not there": {"supplier": "Birkenhain Logistik GmbH"},
    "the item as number": {"number": "125.00"},
    "a due date that is not there": {"due_on": "2027-11-13"},
}


@pytest.mark.parametrize("mistake, language", choose(list(product(WRONG, LANGUAGES))))
def test_a_models_wrong_value_is_not_confirmed(mistake, language):
    page = InvoicePage(language)
    truth = page.get_truth()
    wrong = {name: value.format(buyer=truth["buyer"]) for name, value in WRONG[mistake].items()}
    answer = ModelAnswer("model", {**RIGHT, "supplier": truth["supplier"], **wrong})
    found = judge(read_text(page.write()), answer=answer)
    assert found.kind == "invoice"
    assert found.find_wrong_values(truth) == {}


SUMS = {
    "gross": "160.00",
    "net": "120.00",
    "vat": "35.00",
    "iban": "DE02120300000000202052",
}


@pytest.mark.parametrize("name, language", choose(list(product(SUMS, LANGUAGES))))
def test_a_wrong_value_that_a_person_enters_fails_its_check(name, language):
    found = analyze(read_text(InvoicePage(language).write()), [KINDS["invoice"]])
    checks = tuple(map(stored_extraction.to_stored_check, found.checks))
    assert not any(check.is_failed for check in checks)
    checked = stored_extraction.check_corrected(KINDS["invoice"], checks, found.values(), {name: SUMS[name]})
    assert any(check.is_failed for check in checked)
