"""Which uncertain values are like those that people confirmed, and which are not."""

from dataclasses import replace
from uuid import UUID

import pytest

from postroom.documents.kinds.kind_registry import list_installed
from postroom.documents.stored_extraction import StoredExtraction, StoredField
from postroom.documents.supplier_trust import ConfirmedReading, find_trusted_fields

INVOICE = list_installed()["invoice"]
LABEL = "right of “Reference”"
BOX = (0.2, 0.3, 0.3, 0.32)
CERTAIN = {
    "supplier": StoredField("Xenon GmbH", 0.99),
    "issued_on": StoredField("2026-02-04", 0.97),
    "currency": StoredField("EUR", 0.98),
    "gross": StoredField("119.00", 0.99),
}


def number(value, confidence=0.8, evidence=LABEL, box=BOX):
    return {"number": StoredField(value, confidence, 0, box, evidence)}


EARLIER = [
    ConfirmedReading(UUID(int=1), {**CERTAIN, **number("R-1")}),
    ConfirmedReading(UUID(int=2), {**CERTAIN, **number("R-2", 0.85, "right of “Reference”; 2 x 3 = 6")}),
    ConfirmedReading(UUID(int=3), {**CERTAIN, **number("R-3", 0.9)}),
]


def trusted(fields, readings=EARLIER):
    extraction = StoredExtraction("invoice", "offline", fields={**CERTAIN, **fields})
    return find_trusted_fields(INVOICE, extraction, readings, confirm_above=0.95)


def test_as_certain_a_value_with_the_same_label_and_column_is_trusted():
    records = [UUID(int=1), UUID(int=3)]
    assert trusted(number("R-4", 0.9)) == {"number": records}
    assert trusted(number("R-1234", 0.92, box=(0.2, 0.5, 0.4, 0.52))) == {"number": records}
    assert trusted(number("R-4", 0.96)) == {}, "needs no trust"


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(number("R-4", 0.89), id="less certain than one of the two"),
        pytest.param(number("R-4", 0.9, "right of “Order”"), id="another label"),
        pytest.param(number("R-4", 0.9, box=(0.6, 0.3, 0.7, 0.32)), id="another column"),
        pytest.param({}, id="missing"),
    ],
)
def test_a_value_that_was_found_otherwise_is_not_trusted(read):
    assert trusted(read) == {}


def test_a_value_that_is_more_likely_wrong_is_never_trusted():
    doubtful = [replace(each, fields={**CERTAIN, **number("R-1", 0.4)}) for each in EARLIER]
    assert trusted(number("R-4", 0.79), doubtful) == {}
    assert trusted(number("R-4", 0.8), doubtful) != {}


def test_two_documents_of_one_record_count_once():
    assert trusted(number("R-4", 0.9), [EARLIER[0], EARLIER[0]]) == {}


def test_a_value_that_repeats_must_be_the_confirmed_one():
    iban = {"iban": StoredField("DE02120300000000202051", 0.5)}
    earlier = [replace(each, fields={**each.fields, **iban}) for each in EARLIER]
    assert set(trusted({**number("R-4", 0.99), **iban}, earlier)) == {"iban"}
    other = {"iban": StoredField("DE02500105170137075030", 0.5)}
    assert trusted({**number("R-4", 0.99), **other}, earlier) == {}
    assert trusted({**number("R-4", 0.99), "iban": StoredField(iban["iban"].value, 0.49)}, earlier) == {}


def test_an_uncertain_currency_is_never_trusted():
    dollars = {"currency": StoredField("USD", 0.9)}
    earlier = [replace(each, fields={**each.fields, **dollars}) for each in EARLIER]
    assert trusted({**number("R-4", 0.99), **dollars}, earlier) == {}


def test_supplier_must_be_certain():
    weak = {"supplier": StoredField("Xenon GmbH", 0.9)}
    identified = {"vat_id": StoredField("DE136695976", 0.95)}
    earlier = [replace(each, fields={**each.fields, **weak, **identified}) for each in EARLIER]
    read = {**number("R-4", 0.9), **weak}
    assert trusted(read, earlier) == {}
    assert set(trusted({**read, **identified}, earlier)) == {"supplier", "number"}
    unsure = {"vat_id": StoredField("DE136695976", 0.89)}
    assert trusted({**read, **unsure}, earlier) == {}
    misprint = {"vat_id": StoredField("DE136695975", 0.95)}
    wrong = [replace(each, fields={**each.fields, **misprint}) for each in earlier]
    assert trusted({**read, **misprint}, wrong) == {}
