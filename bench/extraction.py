"""Fields read offline against the truth: what is reached, how honest confidence is, what is confirmed.

On documents that the repository generates, on the simulator's PDFs, and on `../shared/corpora` if it exists.
"""

import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from mailsim.letters import documents, invoices, notes
from mailsim.letters.order import Order
from postroom.documents import pdf, plain
from postroom.documents.kind import Kind, installed
from postroom.documents.limits import Limits
from postroom.documents.training import papers
from postroom.documents.training.truth import same
from postroom.documents.transcript import Reading
from postroom.documents.understand import Understanding, understand

CORPORA = Path(__file__).parents[1].parent / "shared" / "corpora"
CONFIRM_ABOVE = 0.95  # as the pipelines that ship have it
INVOICE, NOTE = (installed()[name] for name in ("invoice", "contract-note"))
GOALS = {
    "invoice": {"number": 92, "issued_on": 92, "gross": 92, "currency": 99, "iban": 90, "supplier": 80},
    "contract-note": {"isin": 98, "direction": 97, "trade_date": 96, "net": 92, "quantity": 92},
}


@dataclass(frozen=True)
class Sample:
    name: str
    reading: Reading
    truth: dict[str, Any]


def generated(kind: Kind, count: int = 300) -> Iterator[Sample]:
    write = papers.invoice if kind is INVOICE else papers.contract_note
    for number in range(40_000, 40_000 + count):
        paper = write(number)
        yield Sample(str(number), Reading(plain.transcribe(paper.text)), paper.truth)


def simulated(kind: Kind, count: int = 8) -> Iterator[Sample]:
    """The simulator's PDFs: layouts, words and firms of another hand."""
    for language in ("de", "en", "fr"):
        for seed in range(count * 5):
            order = Order(seed=7919 * seed + 1, kind=kind.name, language=language)
            if kind is INVOICE:
                facts = invoices.facts(invoices.invoice(order))
                content = documents.invoice_pdf(order)
                truth = {"issued_on": date.fromisoformat(str(facts["date"]))}
                truth |= {name: facts[name] for name in ("number", "currency", "iban", "supplier")}
                truth |= {name: Decimal(str(facts[name])) for name in ("gross",)}
            else:
                facts = notes.facts(notes.note(order))
                content = documents.note_pdf(order)
                truth = {"trade_date": date.fromisoformat(str(facts["trade_date"]))}
                truth |= {name: facts[name] for name in ("isin", "direction", "currency")}
                truth |= {name: Decimal(str(facts[name])) for name in ("quantity", "net")}
            yield Sample(f"{language}/{seed}", pdf.read(content, Limits()).reading, truth)


def real_notes() -> Iterator[Sample]:
    """The single buys and sells of the corpus, as text."""
    folder = CORPORA / "contract-notes"
    for name, known in json.loads((folder / "ground_truth.json").read_text()).items():
        match known["transactions"]:
            case [{"kind": "purchase" | "sale" as side} as trade]:
                truth = {
                    "direction": "buy" if side == "purchase" else "sell",
                    "trade_date": date.fromisoformat(trade["date"][:10]),
                    "net": Decimal(str(trade["amount"])),
                    "quantity": Decimal(str(trade["shares"])),
                    "currency": trade["currency"],
                }
                isins = [each["isin"] for each in known["securities"] if each["isin"]]
                truth |= {"isin": isins[0]} if isins else {}
                text = (folder / name).read_bytes().decode(errors="replace")
                yield Sample(name, Reading(plain.transcribe(text)), truth)
            case _:
                pass


def real_invoices() -> Iterator[Sample]:
    folder = CORPORA / "e-invoices"
    for name, known in json.loads((folder / "ground_truth.json").read_text()).items():
        reading = pdf.read((folder / name).read_bytes(), Limits()).reading
        day = known["date"]
        truth = {name: known[name] for name in ("number", "supplier", "currency")}
        truth |= {
            "gross": Decimal(known["total"]),
            "issued_on": date(int(day[:4]), int(day[4:6]), int(day[6:])),
        }
        iban = re.sub(r"\s", "", known["iban"] or "")
        if iban and iban in re.sub(r"\s", "", reading.transcript.text):
            truth["iban"] = iban
        yield Sample(name, reading, truth)


def confirmed(found: Understanding, truth: dict[str, Any]) -> bool:
    assert found.kind
    needed = [name for name in found.kind.needed if name in truth]
    sure = all(found.confidences.get(name, 0.0) >= CONFIRM_ABOVE for name in needed)
    return sure and not found.failed_checks and not found.differences


class Score:
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.right: Counter[str] = Counter()
        self.every: Counter[str] = Counter()
        self.confidences: list[tuple[float, bool]] = []
        self.documents = self.processed = self.confirmed = self.confirmed_right = 0

    def add(self, sample: Sample, *, use_exact: bool) -> None:
        self.documents += 1
        self.processed += understand(sample.reading, [INVOICE, NOTE], use_exact=use_exact).kind is self.kind
        found = understand(sample.reading, [self.kind], use_exact=use_exact)
        good = {}
        for name, wanted in sample.truth.items():
            field = found.fields.get(name)
            good[name] = field is not None and same(name, wanted, field.value)
            self.every[name] += 1
            self.right[name] += good[name]
            if field:
                self.confidences.append((field.confidence, good[name]))
        if found.kind and confirmed(found, sample.truth):
            self.confirmed += 1
            self.confirmed_right += all(good[name] for name in self.kind.needed if name in good)

    def show(self, title: str) -> None:
        known = 100 * self.processed / self.documents
        print(f"\n{title}: {self.documents} documents, {known:.0f} % known by kind")
        for name, goal in GOALS[self.kind.name].items():
            if self.every[name]:
                share = 100 * self.right[name] / self.every[name]
                mark = "reached" if share >= goal else "MISSED"
                count = f"{self.right[name]} of {self.every[name]}"
                print(f"  {name:12} {share:6.1f} %  goal {goal} %  {mark}  ({count})")
        right = 100 * self.confirmed_right / self.confirmed if self.confirmed else 0.0
        share = 100 * self.confirmed / self.documents
        print(f"  confirmed by machine: {share:.0f} % (goal 50), right {right:.1f} % (goal 99)")


def measured(title: str, kind: Kind, samples: Iterable[Sample], *, use_exact: bool = False) -> Score:
    score = Score(kind)
    for sample in samples:
        score.add(sample, use_exact=use_exact)
    score.show(title)
    return score


def reliability(title: str, seen: list[tuple[float, bool]]) -> None:
    bins: dict[float, list[tuple[float, bool]]] = defaultdict(list)
    for confidence, good in seen:
        bins[next(edge for edge in (0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.0) if confidence >= edge)].append(
            (confidence, good)
        )
    print(f"\nreliability, {title}\n  confidence from   given   right   fields")
    for edge, inside in sorted(bins.items()):
        given, right = (sum(each[place] for each in inside) / len(inside) for place in (0, 1))
        print(f"  {edge:15.2f} {given:7.3f} {right:7.3f} {len(inside):8}")


def main() -> None:
    began = time.process_time()
    ours = [
        measured("generated invoices", INVOICE, generated(INVOICE)),
        measured("generated contract notes", NOTE, generated(NOTE)),
        measured("the simulator's invoices (PDF)", INVOICE, simulated(INVOICE)),
        measured("the simulator's contract notes (PDF)", NOTE, simulated(NOTE)),
    ]
    each = 1000 * (time.process_time() - began) / sum(score.documents for score in ours)
    print(f"\n{each:.0f} ms of CPU a document, written and understood twice")
    reliability("our own documents", [each for score in ours for each in score.confidences])
    if CORPORA.is_dir():
        real = [
            measured("real invoices, XML hidden", INVOICE, real_invoices()),
            measured("real contract notes (text)", NOTE, real_notes()),
        ]
        reliability("real documents", [each for score in real for each in score.confidences])
        measured("real invoices with their XML", INVOICE, real_invoices(), use_exact=True)
    else:
        print(f"\n{CORPORA} is not there: nothing real was read")
    # Some of our documents are written to be hard, so a goal may be missed by a little; not by more.
    fallen = [
        f"{name} of {score.kind.name}"
        for score in ours
        for name, goal in GOALS[score.kind.name].items()
        if score.every[name] and 100 * score.right[name] / score.every[name] < goal - 3
    ]
    sys.exit(f"far below the goal on our own documents: {', '.join(fallen)}" if fallen else 0)


if __name__ == "__main__":
    main()
