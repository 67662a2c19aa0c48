#!/usr/bin/env python3
"""Fits the confidence of the offline reader's values on generated documents.

Writes `calibration.json` beside the code, deterministically. Run it after changing the reader or the
vocabulary: `python -m training.calibrate`.
"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from postroom.documents.fields import calibration, offline_reader
from postroom.documents.fields.extraction_result import ConfidenceSignals
from postroom.documents.files import plain_text
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.invoice import INVOICE
from training import generated_documents
from training.scan_noise import add_noise
from training.value_comparison import is_same_value

TARGET = Path(calibration.__file__).parent / calibration.TABLE
# Generated documents are tidier than real ones. This share of seemingly right values is wrong in real ones.
DOUBT = 0.012
DOUBT_ALONE = 0.05  # for numbers that arithmetic does not confirm
MISREAD = (0.0, 0.001, 0.004)  # shares of misread characters: text layer, good scan, bad scan
KINDS = {
    "invoice": (INVOICE, generated_documents.generate_invoice),
    "contract-note": (CONTRACT_NOTE, generated_documents.generate_contract_note),
}


def collect_samples() -> dict[str, list[tuple[ConfidenceSignals, bool]]]:
    found: dict[str, list[tuple[ConfidenceSignals, bool]]] = defaultdict(list)
    for kind, write in KINDS.values():
        for number in range(900):
            document = write(500_000 + number, hard=(0.15, 0.3, 0.6)[number % 3])
            document = add_noise(document, number, misread=MISREAD[number // 3 % 3])
            fields = offline_reader.read_fields(plain_text.to_transcript(document.text), kind).fields
            for name, wanted in document.truth.items():
                field = fields.get(name)
                if field and field.signals:
                    found[field.signals.shape].append(
                        (field.signals, is_same_value(name, wanted, field.value))
                    )
    return found


def choose_doubt(signals: ConfidenceSignals) -> float:
    return DOUBT_ALONE if signals.shape == "number" and not signals.agreed else DOUBT


def fit_weights(seen: list[tuple[ConfidenceSignals, bool]]) -> list[float]:
    """Fit a logistic regression with non-negative weights: evidence for a value never counts against it."""
    rows = np.array([calibration.features(signals) for signals, _ in seen])
    right = np.array([float(ok) for _, ok in seen])
    doubts = np.array([choose_doubt(signals) for signals, _ in seen])

    def loss(weights: np.ndarray) -> float:
        scores = rows @ weights
        # Each sample counts with its result, and in addition as wrong with the weight of the doubt.
        missed = right * np.logaddexp(0, -scores) + (1 - right + doubts) * np.logaddexp(0, scores)
        return float(missed.sum() + 0.05 * (weights[1:] ** 2).sum())

    bounds = [(None, None), *([(0, None)] * (rows.shape[1] - 1))]
    return [round(float(value), 3) for value in minimize(loss, np.zeros(rows.shape[1]), bounds=bounds).x]


def main() -> None:
    table = {shape: fit_weights(seen) for shape, seen in sorted(collect_samples().items())}
    TARGET.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    for shape, weights in table.items():
        print(f"{shape:10}", *(f"{weight:7.2f}" for weight in weights))


if __name__ == "__main__":
    main()
