"""The result of one seed, and the report of many, as JSON. The README lists the stable fields."""

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from postroom_chaos.healing import Recovery
from postroom_chaos.oracle.evidence import Violation


@dataclass
class SeedResult:
    """`error`: why the run itself failed, so that nothing could be judged."""

    seed: int
    commit: str
    seconds: float
    actions: dict[str, int] = field(default_factory=dict[str, int])
    faults: dict[str, int] = field(default_factory=dict[str, int])
    kills: int = 0
    freezes: int = 0
    database_kills: int = 0
    pushes_sent: int = 0
    pushes_failed: int = 0
    pushes_lost: int = 0
    requests: int = 0
    messages: int = 0
    parked_messages: int = 0
    mailboxes: int = 0
    simulated_seconds: float = 0.0
    mailbox_days_simulated: float = 0.0
    quiet_seconds: float = 0.0
    recoveries: list[Recovery] = field(default_factory=list[Recovery])
    slowest_recovery_seconds: float = 0.0
    unexpected_exits: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    not_covered: list[str] = field(default_factory=list[str])
    violations: list[Violation] = field(default_factory=list[Violation])
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.violations and not self.error

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(value: dict[str, Any]) -> SeedResult:
    recoveries = [Recovery(**each) for each in value.pop("recoveries")]
    violations = [Violation(**each) for each in value.pop("violations")]
    return SeedResult(**value, recoveries=recoveries, violations=violations)


def read_result(path: Path) -> SeedResult:
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def build_report(results: Sequence[SeedResult]) -> dict[str, Any]:
    """Every seed, and their sums."""
    actions, faults = Counter[str](), Counter[str]()
    for result in results:
        actions.update(result.actions)
        faults.update(result.faults)
    summed = ("kills", "freezes", "database_kills", "pushes_sent", "pushes_failed", "pushes_lost", "requests")
    summed += ("messages", "parked_messages", "mailboxes", "mailbox_days_simulated", "seconds")
    totals: dict[str, Any] = {
        name: round(sum(getattr(result, name) for result in results), 2) for name in summed
    }
    totals |= {
        "seeds": len(results),
        "passed": sum(result.passed for result in results),
        "violations": sum(len(result.violations) for result in results),
        "errors": sum(bool(result.error) for result in results),
        "actions": dict(sorted(actions.items())),
        "faults": dict(sorted(faults.items())),
        "slowest_recovery_seconds": max((each.slowest_recovery_seconds for each in results), default=0.0),
    }
    return {"version": 1, "totals": totals, "seeds": [result.to_json() for result in results]}


def find_commit() -> str:
    """The commit of the sources that run; empty outside a repository."""
    completed = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607  # the developer's git
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return completed.stdout.strip()
