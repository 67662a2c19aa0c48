#!/usr/bin/env python3
"""Reads generated documents with the offline reader, and fits how probable its values are.

Writes `calibration.json` beside the code, the same every time. Run it after changing the reader or the words.
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
from training.scan_noise import worn
from training.value_comparison import same

TARGET = Path(calibration.__file__).parent / calibration.TABLE
# Our own documents are tidier than the world's. This share of what looks right there is wrong elsewhere.
DOUBT = 0.012
DOUBT_ALONE = 0.05  # a number that arithmetic does not confirm
MISREAD = (0.0, 0.001, 0.004)  # shares of letters, as in a text layer, a good scan and a bad one
KINDS = {
    "invoice": (INVOICE, generated_documents.invoice),
    "contract-note": (CONTRACT_NOTE, generated_documents.contract_note),
}


def samples() -> dict[str, list[tuple[ConfidenceSignals, bool]]]:
    found: dict[str, list[tuple[ConfidenceSignals, bool]]] = defaultdict(list)
    for kind, write in KINDS.values():
        for number in range(900):
            paper = write(500_000 + number, hard=(0.15, 0.3, 0.6)[number % 3])
            paper = worn(paper, number, misread=MISREAD[number // 3 % 3])
            fields = offline_reader.read_fields(plain_text.to_transcript(paper.text), kind).fields
            for name, wanted in paper.truth.items():
                field = fields.get(name)
                if field and field.signals:
                    found[field.signals.shape].append((field.signals, same(name, wanted, field.value)))
    return found


def doubt(signals: ConfidenceSignals) -> float:
    return DOUBT_ALONE if signals.shape == "number" and not signals.agreed else DOUBT


def fit(seen: list[tuple[ConfidenceSignals, bool]]) -> list[float]:
    """Logistic regression in which nothing that speaks for a value can speak against it."""
    rows = np.array([calibration.features(signals) for signals, _ in seen])
    right = np.array([float(ok) for _, ok in seen])
    doubts = np.array([doubt(signals) for signals, _ in seen])

    def loss(weights: np.ndarray) -> float:
        scores = rows @ weights
        # Each sample counts as it came out, and as wrong with the weight of the doubt.
        missed = right * np.logaddexp(0, -scores) + (1 - right + doubts) * np.logaddexp(0, scores)
        return float(missed.sum() + 0.05 * (weights[1:] ** 2).sum())

    bounds = [(None, None), *([(0, None)] * (rows.shape[1] - 1))]
    return [round(float(value), 3) for value in minimize(loss, np.zeros(rows.shape[1]), bounds=bounds).x]


def main() -> None:
    table = {shape: fit(seen) for shape, seen in sorted(samples().items())}
    TARGET.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    for shape, weights in table.items():
        print(f"{shape:10}", *(f"{weight:7.2f}" for weight in weights))


if __name__ == "__main__":
    main()
