"""D8: the same trade by other bytes, the order it fulfils, and when a person must decide."""

import pytest

from postroom.documents import routing
from postroom.documents.routing import Expected, Match

TRADE = {
    "isin": "US0378331005",
    "ticker": "AAPL",
    "direction": "BUY",
    "quantity": "100",
    "trade_date": "2026-02-04",
    "gross": "18950.00",
}
IDENTITY = ("isin", "direction", "quantity", "trade_date", "gross")


def test_the_same_values_written_otherwise_have_the_same_fingerprint():
    other = TRADE | {"isin": "us 0378331005", "quantity": "100.000", "gross": "18950"}
    assert routing.fingerprint("contract-note", IDENTITY, TRADE) == routing.fingerprint(
        "contract-note", IDENTITY, other
    )


@pytest.mark.parametrize("change", [{"quantity": "101"}, {"trade_date": "2026-02-05"}, {"direction": "SELL"}])
def test_another_trade_has_another_fingerprint(change):
    assert routing.fingerprint("k", IDENTITY, TRADE) != routing.fingerprint("k", IDENTITY, TRADE | change)


def test_numbers_of_documents_keep_their_zeros():
    first, second = ({"number": number} for number in ("007", "7"))
    assert routing.fingerprint("k", ["number"], first) != routing.fingerprint("k", ["number"], second)


def test_without_a_part_of_its_identity_a_record_has_no_fingerprint():
    assert routing.fingerprint("k", IDENTITY, TRADE | {"gross": None}) is None


def test_an_order_fits_within_tolerance_and_says_why():
    order = Expected(
        "O-7", {"isin": "US0378331005", "quantity": "100", "gross": "18900", "trade_date": "2026-02-02"}
    )
    found = routing.match(TRADE, [Expected("O-1", {"isin": "DE0007164600", "quantity": "100"}), order])
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
def test_an_order_that_disagrees_or_tells_too_little_does_not_fit(fields):
    assert routing.match(TRADE, [Expected("O-1", fields)]).reference is None


def test_two_orders_that_fit_alike_are_for_a_person():
    fields = {"isin": "US0378331005", "quantity": "100"}
    found = routing.match(TRADE, [Expected("O-1", fields), Expected("O-2", fields)])
    assert found.reference is None
    assert found.is_ambiguous


def test_the_trade_key_is_the_seeds():
    parts = ("username", "trade_date", "ticker", "direction", "quantity")
    assert routing.key(parts, TRADE, username="ldeburna") == "ldeburna-20260204-AAPL-BUY-100"
    assert routing.key(parts, TRADE | {"ticker": None}, username="ldeburna") is None


def test_what_speaks_against_confirming_is_told_in_words():
    found = routing.doubts(
        needed=["number", "gross", "date"],
        confidences={"number": 0.99, "gross": 0.5},
        confirm_above=0.95,
        failed_checks=["net and VAT do not add up to gross"],
        differences=[],
        match=Match(None, "no open order fits"),
    )
    assert str(found) == ("date was not found; gross is uncertain (0.50); net and VAT do not add up to gross")


def test_nothing_against_it_means_confirmed():
    assert not routing.doubts(
        needed=["number"],
        confidences={"number": 0.99},
        confirm_above=0.95,
        failed_checks=[],
        differences=[],
        match=Match(None, ""),
    )
