"""Checks the format of single values, and describes the expected format of an invalid one.

For values that people enter, whose content is their responsibility, and for `field_checks`. Rows of tables
are in `table_validation`.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from postroom.documents import record_matching
from postroom.documents.kinds.field_spec import FieldShape

# The current currencies of ISO 4217, and GBX, the pence of the London Stock Exchange.
ISO_CURRENCIES: Final = frozenset(
    """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD
    CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GBX GEL GHS GIP GMD GNF
    GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP
    LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB
    PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
    THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW
    ZWG
    """.split()  # noqa: SIM905  # a literal of 150 strings is no better to read
)
_NUMBERS: Final = frozenset[FieldShape]({"amount", "quantity", "price"})
_FORMS: Final[dict[FieldShape, tuple[str, str]]] = {
    "isin": (r"[A-Z]{2}[A-Z0-9]{9}\d", "an ISIN such as US0378331005"),
    "iban": (r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", "an IBAN without spaces such as DE89370400440532013000"),
    "date": (r"\d{4}-\d\d-\d\d", "a date such as 2026-02-04"),
    "vat_id": (r"(?=.*\d)[A-Z]{2,3}[A-Z0-9+*]{2,13}", "a VAT ID without spaces such as DE136695976"),
}


def describe_expected_format(shape: FieldShape, value: Any, choices: Sequence[str] = ()) -> str | None:
    """Return the expected format for an invalid value; None for a valid one."""
    text = str(value)
    if shape in _NUMBERS:
        return None if record_matching.is_number(value) else "a number such as 1234.50"
    if shape in {"lines", "rates"}:
        return "a table, which cannot be compared"
    if shape == "date" and not record_matching.is_date(value):
        return _FORMS["date"][1]
    if shape == "currency":
        return None if text in ISO_CURRENCIES else "an ISO 4217 currency code such as EUR"
    if shape == "choice" and choices:
        return None if text in choices else f"one of {', '.join(choices)}"
    if shape in _FORMS:
        form, words = _FORMS[shape]
        return None if re.fullmatch(form, text, re.ASCII) else words
    return None
