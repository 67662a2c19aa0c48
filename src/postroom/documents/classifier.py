"""What kind of document a text is: character n-grams and a linear model that ships with the package.

Trained by `training/train_classifier.py` from documents of our own making; here it only multiplies.
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
_SIGNS: Final = 4000  # of a long document the beginning tells what it is
# The papers that are neither come in more kinds than anybody can write down, so a text that the model hardly
# knows would be called one of them. This much more must speak for it.
_UNKNOWN: Final = 2.3
# Below this a document is not what is wanted. Low, for what is skipped nobody looks at again.
_SURE: Final = 0.13
_KNOWN: Final = 0.5  # below this it is looked at what the paper says
_SAID: Final = 0.6  # what a paper is worth that says everything such a document says
_ENOUGH: Final = 3
_ELSEWHERE: Final = 0.3
_SHORT: Final = 8  # words of a line that is no running text
_SECURITY: Final = "isin"
_NAMES: Final = {
    "invoice": "an invoice",
    "contract-note": "a contract note",
    "other": "another kind of paper",
}


@dataclass(frozen=True, slots=True)
class Classification:
    """The kind as which to process a document, or why to skip it; how sure that is."""

    kind: DocumentKind | None
    certainty: float
    skip_reason: str | None


def grams(text: str) -> Counter[int]:
    """How often which n-grams of three to five characters stand in the words of a text, by bucket."""
    plain = re.sub(r"\d", "0", fold_text(text[:_SIGNS]))
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
def _model() -> tuple[Any, Any, Any]:
    with np.load(io.BytesIO((files("postroom.documents") / MODEL).read_bytes())) as stored:
        return (
            stored["weights"].astype(np.float32),
            stored["bias"].astype(np.float32),
            stored["idf"].astype(np.float32),
        )


def probabilities(text: str) -> dict[str, float]:
    weights, bias, idf = _model()
    counts = grams(text)
    if not counts:
        return dict.fromkeys(CLASSES, 1 / len(CLASSES))
    places = np.fromiter(counts, dtype=np.int64)
    times = np.fromiter(counts.values(), dtype=np.float32)
    vector = (1 + np.log(times)) * idf[places]
    scores = weights[:, places] @ (vector / (np.linalg.norm(vector) or 1.0)) + bias
    scores[CLASSES.index("other")] -= _UNKNOWN
    powers = np.exp(scores - scores.max())
    return dict(zip(CLASSES, map(float, powers / powers.sum()), strict=True))


def classify(document: DocumentText, kinds: Sequence[DocumentKind]) -> Classification:
    """Which of these kinds a document is. A kind that the model does not know is known by its titles."""
    found = probabilities(document.text)
    certainties = {kind.name: _certainty(document, kind, found) for kind in kinds}
    if max(certainties.values()) < _KNOWN:
        certainties = _by_what_it_says(document, kinds, certainties)
    best = max(kinds, key=lambda kind: certainties[kind.name])
    certainty = certainties[best.name]
    if certainty >= _SURE:
        return Classification(best, certainty, None)
    likeliest = max(found, key=lambda name: found[name])
    looks = _NAMES[likeliest] if likeliest not in certainties else "something else"
    return Classification(None, 1 - certainty, f"it looks like {looks} ({1 - certainty:.2f})")


def _certainty(document: DocumentText, kind: DocumentKind, found: dict[str, float]) -> float:
    """The model's word; a paper that calls itself such a document is looked at in any case."""
    titled = _titled(document.lines, kind)
    return max(found[kind.name], 0.45 * titled) if kind.name in found else titled


def _by_what_it_says(
    document: DocumentText, kinds: Sequence[DocumentKind], certainties: Mapping[str, float]
) -> dict[str, float]:
    """No invoice has the number of a security, and with the words of a trade it is a trade."""
    proven = any(
        value.shape == _SECURITY and is_valid_isin(str(value.content)) for value in find_values(document)
    )
    return {
        kind.name: certainties[kind.name]
        if not proven
        else max(certainties[kind.name], _said(document, kind))
        if _is_about_securities(kind)
        else certainties[kind.name] * _ELSEWHERE
        for kind in kinds
    }


def _is_about_securities(kind: DocumentKind) -> bool:
    return any(kind.fields[name].shape == _SECURITY for name in kind.required)


def _said(document: DocumentText, kind: DocumentKind) -> float:
    """By how many of the numbers that a kind reckons with have their label, and whether a side is named."""
    search = compile_phrases(kind.excluded_titles)
    if any(
        start == 0 and len(line.words) <= _SHORT
        for line in document.lines
        for _, start, _ in search.find(line)
    ):
        return 0.0
    reckoned = {name for relation in kind.relations for name in relation.names}
    labelled = {
        hit.field for hit in find_labels(document, kind) if hit.weight == 1.0 and not hit.unit
    } & reckoned
    sides = [words for field in kind.fields.values() for words in field.choices.values()]
    is_named = any(
        weight == 1.0 and len(line.words) <= _SHORT
        for line in document.lines
        for words in sides
        for weight, *_ in compile_phrases(words).find(line)
    )
    if is_named and len(labelled) >= _ENOUGH:
        return _SAID
    return _SURE if len(labelled) > _ENOUGH else 0.0


def _titled(lines: Iterable[TextLine], kind: DocumentKind) -> float:
    """By the first line that begins with a title, or has one in it."""
    search = compile_phrases(kind.titles)
    certainty = 0.05
    for line in lines:
        for weight, start, _ in search.find(line):
            short = len(line.words) <= 8
            first = line.text.find(" ") in {-1, *range(start, len(line.text))}
            certainty = max(certainty, weight * (0.9 if first and short else 0.4 if short else 0.2))
    return certainty
