"""Labels of fields and columns: complete for the built-in kinds, derived for kinds of an operator."""

from dataclasses import fields

import pytest

from postroom.documents.kinds.contract_note import CONTRACT_NOTE, ContractNote
from postroom.documents.kinds.invoice import INVOICE, Invoice
from postroom.flow.documents.route import RecordIdentity
from postroom.web.field_labels import LABELS, column_label, field_label, in_sentence, kind_label
from postroom.web.field_views import build_fields


@pytest.mark.parametrize("kind, model", [("invoice", Invoice), ("contract-note", ContractNote)])
def test_every_field_of_a_built_in_kind_has_a_label(kind, model):
    assert set(LABELS[kind]) == {field.name for field in fields(model)}


@pytest.mark.parametrize(
    "kind, name, unit, label",
    [
        ("invoice", "vat_id", "", "VAT ID"),
        ("invoice", "number", "", "Invoice number"),
        ("invoice", "net", "EUR", "Net amount (EUR)"),
        ("contract-note", "number", "", "Contract note number"),
        ("contract-note", "trade_date", "", "Trade date"),
        ("payslip", "employee_tax_id", "", "Employee tax ID"),
        (None, "bonus", "CHF", "Bonus (CHF)"),
    ],
)
def test_field_labels(kind, name, unit, label):
    assert field_label(kind, name, unit) == label


@pytest.mark.parametrize(
    "name, label",
    [("rate", "VAT rate (%)"), ("unit_price", "Unit price (EUR)"), ("description", "Description")],
)
def test_column_labels_have_units(name, label):
    assert column_label(name, "EUR") == label


@pytest.mark.parametrize(
    "kind, labels",
    [
        (CONTRACT_NOTE, ["Price per unit", "Currency", "Gross amount", "Fees (GBP)", "Net amount (GBP)"]),
        (INVOICE, ["Currency", "Net amount (GBP)", "Gross amount (GBP)"]),
    ],
)
def test_only_amounts_that_are_certainly_in_the_records_currency_show_it(kind, labels):
    values = {"price": "101.91", "gross": "26497.48", "fees": "60.50", "net": "22358.13", "currency": "GBP"}
    fields = {name: {"value": value} for name, value in values.items() if name in kind.fields}
    assert [field.label for field in build_fields(fields, kind.name, RecordIdentity.of_kind(kind))] == labels


def test_names_in_sentences_are_quoted():
    assert in_sentence("issued_on") == "“Issued”"
    assert kind_label("contract-note") == "Contract note"
