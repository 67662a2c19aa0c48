"""Validates IBANs, ISINs and VAT IDs by their check digits, with python-stdnum.

It searches no text. For its callers, a wrong check digit lowers a confidence and never drops a value. Only
compact numbers are valid here, although stdnum also accepts spaces and lowercase characters.
"""

import re
from functools import cache
from typing import Final

from stdnum import iban as stdnum_iban
from stdnum import isin as stdnum_isin
from stdnum import numdb, vatin
from stdnum.ch import uid
from stdnum.exceptions import ValidationError
from stdnum.util import get_cc_module

_COMPACT: Final = re.compile(r"[A-Z]{2}[A-Z0-9]+")
# Prefixes of VAT IDs that are no country code of stdnum's.
_VAT_COUNTRY: Final = {"EL": "gr", "XI": "gb"}
# Issued by no member state: the one-stop shop for sellers outside the EU has no published rule.
_WITHOUT_VAT_RULE: Final = frozenset({"EU"})


@cache
def iban_length(country: str) -> int | None:
    """Return the length of a country's IBANs; None where the country has none."""
    [(_, properties), *_] = numdb.get("iban").info(country)
    blocks = re.findall(r"(\d+)!", properties.get("bban", ""))
    return 4 + sum(map(int, blocks)) if blocks else None


def is_valid_iban(iban: str) -> bool:
    """Check length, structure and remainder (ISO 13616); national account check digits are ignored."""
    return bool(_COMPACT.fullmatch(iban)) and stdnum_iban.is_valid(iban, check_country=False)


def is_valid_isin(isin: str) -> bool:
    """Check country, length and check digit (ISO 6166)."""
    return bool(_COMPACT.fullmatch(isin)) and stdnum_isin.is_valid(isin)


def check_vat_id(vat_id: str) -> bool | None:
    """Check format and check digits of a VAT ID; None where there is no rule for its country."""
    country = vat_id[:2]
    if not re.fullmatch(r"[A-Z]{2}", country, re.ASCII) or country in _WITHOUT_VAT_RULE:
        return None
    if get_cc_module(_VAT_COUNTRY.get(country, country.lower()), "vat") is None:
        return None
    if not _COMPACT.fullmatch(vat_id):
        return False
    if country == "CH":
        # stdnum wants the suffix MWST, TVA or IVA, which invoices write apart from the number or not at all.
        return len(vat_id) == 12 and uid.is_valid(vat_id)
    try:
        # stdnum also accepts a number that repeats its prefix or lacks a leading zero.
        return vatin.validate(vat_id) == vat_id
    except ValidationError:
        return False
