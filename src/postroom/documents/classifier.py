"""Classifies the text of a document by kind, with a model over character n-grams and rules on wording.

The linear model is `classifier.npz`; `training/train_classifier.py` trains it on generated documents. Titles,
labels and valid ISINs correct its result. The kinds themselves are declared in `kinds`.
"""

import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from postroom.documents.fields.check_digits import is_valid_isin
from postroom.documents.fields.document_text import DocumentText, TextLine, fold_text
from postroom.documents.fields.label_search import compile_phrases, find_labels
from postroom.documents.fields.value_parsing import find_values
from postroom.documents.kinds.document_kind import DocumentKind

BUCKETS: Final = 2**16
CLASSES: Final = ("invoice", "contract-note", "other")
MODEL: Final = "classifier.npz"
_MAX_CHARACTERS: Final = 4000  # the beginning of a long document decides
# Other documents are too varied to generate, so the model calls every unfamiliar text "other". This penalty
# compensates for that.
_OTHER_PENALTY: Final = 2.3
# A document below this is skipped. Low, because skipped documents are not reviewed.
_MIN_CERTAINTY: Final = 0.13
_MODEL_CERTAINTY: Final = 0.5  # below this the wording decides too
_WORDING_CERTAINTY: Final = 0.6  # for a document with all typical words
_MIN_LABELS: Final = 3
_WRONG_SUBJECT_FACTOR: Final = 0.3
_MAX_HEADING_WORDS: Final = 8  # a longer line is running text
_SECURITY_SHAPE: Final = "isin"
_CLASS_NAMES: Final = {
    "invoice": "an invoice",
    "contract-note": "a contract note",
    "other": "another kind of document",
}


@dataclass(frozen=True, slots=True)
class Classification:
    """The kind of a document, or why to skip it, and the certainty."""

    kind: DocumentKind | None
    certainty: float
    skip_reason: str | None


def count_ngrams(text: str) -> Counter[int]:
    """Count the n-grams of three to five characters in a text, by hash bucket."""
    plain = re.sub(r"\d", "0", fold_text(text[:_MAX_CHARACTERS]))
    counts: Counter[int] = Counter()
    for word in re.findall(r"[^\W_]+", plain):
        padded = f" {word} "
        counts.update(
            zlib.crc32(padded[place : place + length].encode()) % BUCKETS
            for length in (3, 4, 5)
            for place in range(len(padded) - length + 1)
        )
    return counts


@cache
def _load_model() -> tuple[Any, Any, Any]:
    with np.load(io.BytesIO((files("postroom.documents") / MODEL).read_bytes())) as stored:
        return (
            stored["weights"].astype(np.float32),
            stored["bias"].astype(np.float32),
            stored["idf"].astype(np.float32),
        )


def predict(text: str) -> dict[str, float]:
    weights, bias, idf = _load_model()
    counts = count_ngrams(text)
    if not counts:
        return dict.fromkeys(CLASSES, 1 / len(CLASSES))
    places = np.fromiter(counts, dtype=np.int64)
    times = np.fromiter(counts.values(), dtype=np.float32)
    vector = (1 + np.log(times)) * idf[places]
    scores = weights[:, places] @ (vector / (np.linalg.norm(vector) or 1.0)) + bias
    scores[CLASSES.index("other")] -= _OTHER_PENALTY
    powers = np.exp(scores - scores.max())
    return dict(zip(CLASSES, map(float, powers / powers.sum()), strict=True))


def classify(document: DocumentText, kinds: Sequence[DocumentKind]) -> Classification:
    """Choose among kinds.

    Kinds that the model was not trained on are recognized by their titles.
    """
    found = predict(document.text)
    certainties = {kind.name: _certainty(document, kind, found) for kind in kinds}
    uncertain = [kind for kind in kinds if certainties[kind.name] < _MODEL_CERTAINTY]
    if uncertain:
        certainties |= _adjust_by_wording(document, uncertain, certainties)
    best = max(kinds, key=lambda kind: certainties[kind.name])
    certainty = certainties[best.name]
    if certainty >= _MIN_CERTAINTY:
        return Classification(best, certainty, None)
    likeliest = max(found, key=lambda name: found[name])
    looks = _CLASS_NAMES[likeliest] if likeliest not in certainties else "something else"
    return Classification(None, 1 - certainty, f"it looks like {looks} ({1 - certainty:.2f})")


def _certainty(document: DocumentText, kind: DocumentKind, found: dict[str, float]) -> float:
    """Return the model's probability, or a minimum for documents with a title of the kind."""
    titled = _title_certainty(document.lines, kind)
    return max(found[kind.name], 0.45 * titled) if kind.name in found else titled


def _adjust_by_wording(
    document: DocumentText, kinds: Sequence[DocumentKind], certainties: Mapping[str, float]
) -> dict[str, float]:
    """Adjust by content: a valid ISIN rules out invoices and, with trade wording, means a trade."""
    proven = any(
        value.shape == _SECURITY_SHAPE and is_valid_isin(str(value.content))
        for value in find_values(document)
    )
    return {
        kind.name: certainties[kind.name]
        if not proven
        else max(certainties[kind.name], _wording_certainty(document, kind))
        if _is_about_securities(kind)
        else certainties[kind.name] * _WRONG_SUBJECT_FACTOR
        for kind in kinds
    }


def _is_about_securities(kind: DocumentKind) -> bool:
    return any(kind.fields[name].shape == _SECURITY_SHAPE for name in kind.required)


def _wording_certainty(document: DocumentText, kind: DocumentKind) -> float:
    """Rate the wording: how many amounts have their label, and whether a choice is named."""
    search = compile_phrases(kind.excluded_titles)
    if any(
        start == 0 and len(line.words) <= _MAX_HEADING_WORDS
        for line in document.lines
        for _, start, _ in search.find(line)
    ):
        return 0.0
    amount_fields = {name for relation in kind.relations for name in relation.names}
    labelled = {
        hit.field for hit in find_labels(document, kind) if hit.weight == 1.0 and not hit.unit
    } & amount_fields
    choice_phrases = [words for field in kind.fields.values() for words in field.choices.values()]
    is_named = any(
        weight == 1.0 and len(line.words) <= _MAX_HEADING_WORDS
        for line in document.lines
        for words in choice_phrases
        for weight, *_ in compile_phrases(words).find(line)
    )
    if is_named and len(labelled) >= _MIN_LABELS:
        return _WORDING_CERTAINTY
    return _MIN_CERTAINTY if len(labelled) > _MIN_LABELS else 0.0


def _title_certainty(lines: Iterable[TextLine], kind: DocumentKind) -> float:
    """Rate the lines that begin with a title or contain one."""
    search = compile_phrases(kind.titles)
    certainty = 0.05
    for line in lines:
        for weight, start, _ in search.find(line):
            short = len(line.words) <= 8
            first = line.text.find(" ") in {-1, *range(start, len(line.text))}
            certainty = max(certainty, weight * (0.9 if first and short else 0.4 if short else 0.2))
    return certainty
