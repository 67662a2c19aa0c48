"""D8: identity of records, matching of orders, and reasons for a review."""

from uuid import UUID

import pytest

from postroom.documents import record_matching
from postroom.documents.kinds import kind_registry
from postroom.documents.record_matching import ExpectedOrder, OrderMatch

TRADE = {
    "isin": "US0378331005",
    "ticker": "AAPL",
    "direction": "BUY",
    "quantity": "100",
    "trade_date": "2026-02-04",
    "gross": "18950.00",
}
IDENTITY = ("isin", "direction", "quantity", "trade_date", "gross")
KINDS = kind_registry.list_installed()
NOTE = {name: each.shape for name, each in KINDS["contract-note"].fields.items()}
BILL = {name: each.shape for name, each in KINDS["invoice"].fields.items()}
INVOICE = {"supplier": "Xenon GmbH", "number": "2024-1-12", "issued_on": "2024-01-12", "gross": "119.00"}


def marks(values):
    return record_matching.identity_hashes("contract-note", IDENTITY, values, NOTE)


def marks_of_bill(doubted=(), **changed):
    found = KINDS["invoice"]
    return set(
        record_matching.identity_hashes(
            "invoice",
            found.identity,
            INVOICE | changed,
            BILL,
            identity_alternatives=found.identity_alternatives,
            doubted=doubted,
        )
    )


def test_equal_values_in_other_spellings_have_the_same_identity_hash():
    other = TRADE | {"isin": "us 0378331005", "quantity": "100.000", "gross": "18950"}
    assert marks(TRADE) == marks(other) != ()


@pytest.mark.parametrize("change", [{"quantity": "101"}, {"trade_date": "2026-02-05"}, {"direction": "SELL"}])
def test_a_different_trade_has_a_different_identity_hash(change):
    assert marks(TRADE) != marks(TRADE | change)


@pytest.mark.parametrize("number", ["2024-11-2", "2024/1/12", "2024112", "02024-1-12"])
def test_a_different_number_is_a_different_invoice(number):
    assert not marks_of_bill() & marks_of_bill(number=number)


@pytest.mark.parametrize("number", ["2024 - 1 - 12", "2024\N{EN DASH}1\N{MINUS SIGN}12"])
def test_spaces_and_dash_variants_do_not_change_a_number(number):
    assert marks_of_bill() == marks_of_bill(number=number)


def test_a_vat_id_identifies_a_supplier_despite_name_spellings():
    one = marks_of_bill(vat_id="DE136695976")
    assert one & marks_of_bill(vat_id="DE 136 695 976", supplier="XENON Ges.m.b.H.")
    assert one & marks_of_bill(supplier="4012345000009\nXenon GmbH")
    assert not one & marks_of_bill(vat_id="DE136695976", supplier="Argon AG", doubted=["vat_id"])
    misread = {"vat_id": "DE136695977", "supplier": "Argon AG"}
    assert not marks_of_bill(**misread) & marks_of_bill(vat_id="DE136695977")


def test_disagreements_of_two_documents_are_found_except_names():
    other = INVOICE | {"supplier": "XENON", "gross": "238", "issued_on": None}
    needed = ("supplier", "number", "issued_on", "gross")
    assert record_matching.find_disagreements(other, INVOICE, needed, BILL) == ["gross"]


def test_a_record_without_a_part_of_its_identity_has_no_hash():
    assert marks(TRADE | {"gross": None}) == ()


def test_an_order_matches_within_tolerance_with_a_reason():
    order = ExpectedOrder(
        "O-7", {"isin": "US0378331005", "quantity": "100", "gross": "18900", "trade_date": "2026-02-02"}
    )
    found = record_matching.match_order(
        TRADE, [ExpectedOrder("O-1", {"isin": "DE0007164600", "quantity": "100"}), order], NOTE
    )
    assert found.reference == "O-7"
    assert found.reason == "order O-7: isin, quantity agree; gross, trade_date within tolerance"


@pytest.mark.parametrize(
    "fields",
    [
        {"isin": "US0378331005", "quantity": "90"},
        {"isin": "US0378331005", "trade_date": "2026-03-04"},
        {"isin": "US0378331005"},
    ],
)
def test_an_order_that_disagrees_or_has_too_few_fields_does_not_match(fields):
    assert record_matching.match_order(TRADE, [ExpectedOrder("O-1", fields)], NOTE).reference is None


def test_document_numbers_have_no_tolerance():
    bill = INVOICE | {"purchase_order": "450090"}
    order = {"purchase_order": "450011", "gross": "119.00"}
    assert record_matching.match_order(bill, [ExpectedOrder("O-1", order)], BILL).reference is None
    assert record_matching.match_order(
        bill, [ExpectedOrder("O-1", order | {"purchase_order": "450090"})], BILL
    ).reference


def test_two_equally_matching_orders_need_review():
    fields = {"isin": "US0378331005", "quantity": "100"}
    found = record_matching.match_order(
        TRADE, [ExpectedOrder("O-1", fields), ExpectedOrder("O-2", fields)], NOTE
    )
    assert found.reference is None
    assert found.is_ambiguous


def test_the_trade_key_matches_the_specification():
    parts = ("username", "trade_date", "ticker", "direction", "quantity")
    read = TRADE | {"direction": "buy"}
    assert (
        record_matching.build_record_key(parts, read, NOTE, username="ldeburna")
        == "ldeburna-20260204-AAPL-BUY-100"
    )
    assert record_matching.build_record_key(parts, read | {"ticker": None}, NOTE, username="ldeburna") is None


def test_reasons_against_confirmation_are_listed():
    found = record_matching.find_review_reasons(
        required=["number", "gross", "date"],
        certain=["iban", "due_on"],
        confidences={"number": 0.99, "gross": 0.5, "due_on": 0.49},
        confirm_above=0.95,
        failed_checks=["net and VAT do not add up to gross"],
        differences=[],
        match=OrderMatch(None, "no open order fits"),
    )
    assert str(found) == (
        "date was not found; gross is uncertain (0.50); due_on is uncertain (0.49);"
        " net and VAT do not add up to gross"
    )


def test_without_reasons_a_record_is_confirmed():
    assert not record_matching.find_review_reasons(
        required=["number"],
        certain=["iban"],
        confidences={"number": 0.99},
        confirm_above=0.95,
        failed_checks=[],
        differences=[],
        match=OrderMatch(None, ""),
    )


PURCHASE = {"supplier": "Xenon GmbH", "purchase_order": "PO-7781", "gross": "158.27"}
BY_SUPPLIER = {"supplier": "Xenon GmbH", "gross": "158.27"}
WITHOUT_NUMBER = {"supplier": "Xenon GmbH", "gross": "159.46"}


@pytest.mark.parametrize(
    "bills, placed, wanted",
    [
        # An equal order number beats an earlier record that fits as well.
        ([WITHOUT_NUMBER, PURCHASE], [PURCHASE], {1: "O-0"}),
        ([PURCHASE, WITHOUT_NUMBER], [PURCHASE, BY_SUPPLIER], {0: "O-0", 1: "O-1"}),
        # Of several with the number, the one that agrees exactly; if that does not decide, none.
        ([PURCHASE | {"gross": "158.30"}, PURCHASE], [PURCHASE], {1: "O-0"}),
        ([PURCHASE, PURCHASE], [PURCHASE], {}),
        ([PURCHASE], [PURCHASE, PURCHASE], {}),
        ([PURCHASE, PURCHASE], [PURCHASE, BY_SUPPLIER], {}),
        # Without a number, only a pair that fits nothing else.
        ([WITHOUT_NUMBER], [PURCHASE], {0: "O-0"}),
        ([WITHOUT_NUMBER, BY_SUPPLIER], [BY_SUPPLIER], {}),
        ([WITHOUT_NUMBER], [BY_SUPPLIER, PURCHASE], {}),
        ([WITHOUT_NUMBER, PURCHASE | {"gross": "300.00"}], [PURCHASE], {0: "O-0"}),
    ],
)
def test_a_waiting_record_is_assigned_to_an_order_only_without_doubt(bills, placed, wanted):
    orders = [ExpectedOrder(f"O-{place}", fields) for place, fields in enumerate(placed)]
    ids = [UUID(int=place + 1) for place in range(len(bills))]
    waiting = [(record, bill, orders) for record, bill in zip(ids, bills, strict=True)]
    found = record_matching.assign_orders(waiting, BILL)
    assert {ids.index(fit.record): fit.order.reference for fit in found} == wanted
