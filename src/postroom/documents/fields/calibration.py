"""Computes the confidence of a value from its evidence, by the weights in `calibration.json`.

The weights come from `training/calibrate.py`, which reads generated documents; fixed factors then lower the
confidence in cases that these documents do not cover. `bench/extraction.py` verifies both.
"""

import json
import math
from functools import cache
from importlib.resources import files
from typing import Final

from postroom.documents.fields.extraction_result import ConfidenceSignals

TABLE: Final = "calibration.json"
# Shapes without generated samples use the weights of a shape that is read in the same way.
CALIBRATED_LIKE: Final = {
    "symbol": "code",
    "vat_id": "iban",
    "rates": "number",
    "lines": "number",
    "recipient": "party",
}


# No value read from text is as certain as machine-readable data.
_MAX_CONFIDENCE: Final = 0.995
_MIN_STATED_LABEL: Final = 0.4
_MIN_CHOICE_MARGIN: Final = 0.15  # the minimum lead of one choice over the other
_INFERABLE_SHAPES: Final = frozenset({"choice", "currency"})
_UNPROVEN_SUM_FACTOR: Final = 0.5
_CHECKED_SHAPES: Final = frozenset({"isin", "iban"})


# With this lead a value has no rival; a larger lead means nothing more.
_CLEAR_MARGIN: Final = 0.4


def features(signals: ConfidenceSignals) -> tuple[float, float, float, float, float, float]:
    label = min(signals.label, 1.0)
    margin = max(min(signals.margin / _CLEAR_MARGIN, 1.0), -1.0)
    # Arithmetic that fits another number nearly as well confirms neither.
    agreed = max(margin, 0.0) if signals.agreed else 0.0
    return 1.0, label, margin, agreed, float(signals.checked), float(signals.is_repeated)


@cache
def _table() -> dict[str, list[float]]:
    return json.loads((files("postroom.documents.fields") / TABLE).read_text("utf-8"))


def confidence(signals: ConfidenceSignals) -> float:
    """Return the confidence: of the values with 0.9, nine in ten are right."""
    weights = _table()[CALIBRATED_LIKE.get(signals.shape, signals.shape)]
    score = sum(weight * value for weight, value in zip(weights, features(signals), strict=True))
    certainty = 1 / (1 + math.exp(-score))
    # Generated documents have no invalid check digits; elsewhere one is a misprint or another number.
    certainty *= 0.75 if signals.shape in _CHECKED_SHAPES and not signals.checked else 1.0
    # Values inferred from weak words, such as who was credited, are not read directly.
    certainty *= 0.9 if signals.shape in _INFERABLE_SHAPES and signals.label < _MIN_STATED_LABEL else 1.0
    # Words for both choices, or money that went the other way.
    certainty *= (
        0.9
        if signals.shape == "choice" and signals.margin < _MIN_CHOICE_MARGIN and not signals.agreed
        else 1.0
    )
    # Documents also name charges in another currency, their sum, or some that are not part of the payment.
    certainty *= _UNPROVEN_SUM_FACTOR if signals.shape == "sum" and not signals.agreed else 1.0
    # The same label with another value: one of two trades or invoices in one document.
    certainty *= 0.9 if signals.has_rival_value else 1.0
    certainty *= 0.9 if signals.is_letter_spaced and not signals.agreed else 1.0
    # The VAT IDs of two organizations, and no label that distinguishes them.
    certainty *= 0.9 if signals.shape == "vat_id" and signals.margin < _MIN_CHOICE_MARGIN else 1.0
    return round(min(certainty, _MAX_CONFIDENCE), 3)
