"""From what speaks for a value to the probability that it is right.

The numbers come from `training/calibrate.py`, which reads documents of our own making and counts.
`bench/extraction.py` shows whether they hold.
"""

import json
import math
from functools import cache
from importlib.resources import files
from typing import Final

from postroom.documents.fields.extraction_result import ConfidenceSignals

TABLE: Final = "calibration.json"
# Shapes for which nothing is generated are as certain as those that are read in the same way.
CALIBRATED_LIKE: Final = {"symbol": "code", "vat_id": "iban", "rates": "number", "lines": "number"}


# Nothing that was read is as certain as what was written for machines.
_MAX_CONFIDENCE: Final = 0.995
_MIN_STATED_LABEL: Final = 0.4
_MIN_CHOICE_MARGIN: Final = 0.15  # by which one side must be louder than the other
_INFERABLE_SHAPES: Final = frozenset({"choice", "currency"})
_CHECKED_SHAPES: Final = frozenset({"isin", "iban"})


# A value whose next best is this far behind has no rival; being further ahead tells nothing more.
_CLEAR_MARGIN: Final = 0.4


def features(signals: ConfidenceSignals) -> tuple[float, float, float, float, float, float]:
    label = min(signals.label, 1.0)
    margin = max(min(signals.margin / _CLEAR_MARGIN, 1.0), -1.0)
    # Arithmetic that agrees with another number nearly as well has confirmed neither.
    agreed = max(margin, 0.0) if signals.agreed else 0.0
    return 1.0, label, margin, agreed, float(signals.checked), float(signals.is_repeated)


@cache
def _table() -> dict[str, list[float]]:
    return json.loads((files("postroom.documents.fields") / TABLE).read_text("utf-8"))


def confidence(signals: ConfidenceSignals) -> float:
    """Of the values given 0.9, nine in ten are right."""
    weights = _table()[CALIBRATED_LIKE.get(signals.shape, signals.shape)]
    score = sum(weight * value for weight, value in zip(weights, features(signals), strict=True))
    certainty = 1 / (1 + math.exp(-score))
    # In what we generate no check digit is wrong; elsewhere a wrong one is a misprint or another number.
    certainty *= 0.75 if signals.shape in _CHECKED_SHAPES and not signals.checked else 1.0
    # What only follows from weak words, such as who was credited, is concluded and not read.
    certainty *= 0.9 if signals.shape in _INFERABLE_SHAPES and signals.label < _MIN_STATED_LABEL else 1.0
    # Words for both sides, or money that went the other way.
    certainty *= (
        0.9
        if signals.shape == "choice" and signals.margin < _MIN_CHOICE_MARGIN and not signals.agreed
        else 1.0
    )
    # The same label with another value: one of two trades or two bills on one paper.
    certainty *= 0.9 if signals.has_rival_value or signals.is_letter_spaced else 1.0
    return round(min(certainty, _MAX_CONFIDENCE), 3)
