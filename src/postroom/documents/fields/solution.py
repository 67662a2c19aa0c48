"""The numbers of a document as candidates for its amount fields, and solutions: numbers assigned to fields.

Types and one search; `amount_solver` and `settlement_solver` find the solutions.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from postroom.documents.fields.label_matching import FieldCandidate
from postroom.documents.fields.value_parsing import ParsedValue


@dataclass(frozen=True, slots=True)
class DistinctNumber:
    """One number with all its positions, and its best candidate for each field."""

    size: float
    decimals: int
    percent: bool
    places: tuple[ParsedValue, ...]
    fits: Mapping[str, FieldCandidate]

    def score(self, name: str) -> float:
        found = self.fits.get(name)
        return found.score if found else 0.0

    def place(self, name: str) -> ParsedValue:
        found = self.fits.get(name)
        return found.value if found else self.places[0]

    @property
    def is_money(self) -> bool:
        sure = any(fit.score >= 0.8 and fit.value.currency for fit in self.fits.values())
        return (
            not self.percent and self.size > 0 and (sure or any(place.decimals <= 2 for place in self.places))
        )

    @property
    def digits(self) -> int:
        return len(f"{self.size:.6f}".rstrip("0").replace(".", "").strip("0")) or 1


@dataclass(frozen=True, slots=True)
class Solution:
    """Numbers assigned to fields, and the fields that arithmetic confirmed."""

    chosen: Mapping[str, DistinctNumber] = field(default_factory=dict[str, DistinctNumber])
    score: float = 0.0
    agreed: tuple[str, ...] = ()  # fields confirmed by arithmetic
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    scale: float = 1.0  # converts the left factor to the unit of the price

    def plus(self, other: "Solution") -> "Solution":
        return Solution(
            {**self.chosen, **other.chosen},
            self.score + other.score,
            tuple(dict.fromkeys((*self.agreed, *other.agreed))),
            {**self.words, **other.words},
            self.scale * other.scale,
        )


def indexes_near(sizes: Sequence[float], wanted: float, within: float) -> Iterator[int]:
    place = bisect_left(sizes, wanted - within)
    while place < len(sizes) and sizes[place] <= wanted + within:
        yield place
        place += 1
