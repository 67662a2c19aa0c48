"""D8: a value that a person enters is valid, or rejected with the expected format."""

import pytest

from postroom.documents.fields import field_validation
from postroom.documents.fields.value_parsing import CURRENCIES


@pytest.mark.parametrize(
    "shape, right, wrong",
    [
        ("amount", "1234.50", "1.234,50"),
        ("date", "2026-02-04", "4 February"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2026-02-04", "20260204"),
        ("vat_id", "DE136695976", "NONSENSE"),
        ("currency", "AED", "EURO"),
        ("currency", "EUR", "eur"),
        ("currency", "GBX", "ABC"),
        ("isin", "US0378331005", "AAPL"),
        ("iban", "DE89370400440532013000", "DE89 3704"),
        ("vat_id", "CHE123456789", "none"),
        ("choice", "buy", "hold"),
    ],
)
def test_invalid_values_get_the_expected_format(shape, right, wrong):
    assert field_validation.describe_expected_format(shape, right, ["buy", "sell"]) is None
    assert field_validation.describe_expected_format(shape, wrong, ["buy", "sell"])


def test_a_table_field_cannot_be_compared():
    assert field_validation.describe_expected_format("lines", "garbage")


def test_every_readable_currency_is_valid_input():
    assert set(CURRENCIES) <= field_validation.ISO_CURRENCIES
