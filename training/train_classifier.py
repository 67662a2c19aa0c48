#!/usr/bin/env python3
"""Trains the classifier on generated documents and writes `classifier.npz` beside the code.

Deterministic, without external data. Run it after changing `training`: `python -m training.train_classifier`.
"""

import argparse
import io
import random
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, diags
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from postroom.documents import classifier
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.invoice import INVOICE
from training import generated_documents

TARGET = Path(classifier.__file__).parent / classifier.MODEL


WORD = "an ber cha de en fi ga her in ke la mo ne or pa re sa ten un ver wi zu tion ment heit lich sch ung"
SYLLABLES = WORD.split()


def invent_words(dice: random.Random) -> str:
    """Return meaningless words, as documents of unknown firms contain, whatever their kind."""
    words = [
        "".join(dice.choice(SYLLABLES) for _ in range(dice.randint(1, 4))) for _ in range(dice.randint(2, 14))
    ]
    return " ".join(word.capitalize() if dice.random() < 0.4 else word for word in words)


# Fields whose labels also occur in dividend notes, statements, quotations and reminders.
SHARED = {
    "contract-note": {"account", "settlement_date", "isin", "name", "quantity", "taxes", "net", "fees"},
    "invoice": {"supplier", "vat_id", "iban", "purchase_order", "net"},
}


def draw_label_lines(document: generated_documents.GeneratedDocument, dice: random.Random) -> list[str]:
    """Some of the labels that the kind declares, with values: every firm picks others."""
    banking = document.kind == "contract-note" or bool(document.truth.get("bank"))
    kind = CONTRACT_NOTE if banking else INVOICE
    fields = [
        field
        for name, field in kind.fields.items()
        if document.language in field.labels and (document.kind != "other" or name in SHARED[kind.name])
    ]
    said = [phrase.strip(" ?*") for field in fields for phrase in field.labels[document.language].split(",")]
    some = dice.sample(said, k=min(dice.randint(2, 10), len(said)))
    lines = [f"{phrase} {dice.randint(1, 99999)},{dice.randint(10, 99)}" for phrase in some]
    if document.kind != "other":
        lines += dice.sample([phrase.strip(" ?*") for phrase in kind.titles.split(",")], k=dice.randint(0, 1))
        lines += [draw_direction(kind, document.truth["direction"], dice)] if banking else []
    return lines


def draw_direction(kind: DocumentKind, choice: str, dice: random.Random) -> str:
    return dice.choice(kind.fields["direction"].choices[choice].split(",")).strip(" ?*")


def distort_text(document: generated_documents.GeneratedDocument, dice: random.Random) -> str:
    """As it comes from the world: strange words around, other labels, words lost, another order."""
    lines = document.text.split("\n")
    lines += draw_label_lines(document, dice)
    for _ in range(dice.choice([0, 3, 10, 25, 60])):
        lines.insert(dice.randint(0, len(lines)), invent_words(dice))
    if dice.random() < 0.2:
        dice.shuffle(lines)
    kept = [[word for word in line.split() if dice.random() > 0.1] for line in lines]
    return "\n".join((" " if dice.random() > 0.05 else "").join(line) for line in kept)


def build_matrix(texts: list[str]) -> csr_matrix:
    rows, columns, times = [], [], []
    for row, text in enumerate(texts):
        for column, count in classifier.count_ngrams(text).items():
            rows.append(row)
            columns.append(column)
            times.append(1 + np.log(count))
    return csr_matrix((times, (rows, columns)), shape=(len(texts), classifier.BUCKETS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="documents of each kind")
    count = parser.parse_args().count
    dice = random.Random(6)
    made = generated_documents.generate_documents(count, hard=0.3)
    counts = build_matrix([distort_text(document, dice) for document in made])
    seen = counts.getnnz(axis=0)
    # Rare n-grams carry no information and must not shrink the weight of the others.
    idf = np.where(seen >= 5, np.log((1 + counts.shape[0]) / (1 + seen)) + 1, 0)
    labels = [classifier.CLASSES.index(document.kind) for document in made]
    model = LogisticRegression(C=4.0, max_iter=400).fit(normalize(counts @ diags(idf)), labels)
    stored = io.BytesIO()
    np.savez_compressed(
        stored,
        weights=model.coef_.astype(np.float16),
        bias=model.intercept_.astype(np.float32),
        idf=idf.astype(np.float16),
    )
    TARGET.write_bytes(stored.getvalue())
    fresh = generated_documents.generate_documents(300, first=900_000, hard=0.3)
    right = sum(
        max(found := classifier.predict(each.text), key=lambda name: found[name]) == each.kind
        for each in fresh
    )
    print(
        f"{TARGET.name}: {len(stored.getvalue()) / 1000:.0f} kB, "
        f"{right / len(fresh):.3f} right on {len(fresh)} fresh documents"
    )


if __name__ == "__main__":
    main()
