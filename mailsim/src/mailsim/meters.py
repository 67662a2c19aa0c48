"""What was used and what happened, per mailbox: calls, quota units, concurrency, refusals, pushes. Counts
only.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Meter:
    """Of one mailbox; of the address "" what belongs to none. Providers add units, rejections and pushes
    themselves.
    """

    calls: Counter[str] = field(default_factory=Counter[str])  # by endpoint; the parts of a batch count each
    statuses: Counter[int] = field(default_factory=Counter[int])
    units: int = 0
    in_flight: int = 0
    peak: int = 0  # most requests in flight at once
    rejections: int = 0  # refused for exceeding a quota, faults not included
    faults: int = 0
    pushes_sent: int = 0  # attempts on the wire
    pushes_acknowledged: int = 0
    pushes_failed: int = 0  # attempts answered wrongly, late or not at all
    pushes_dropped: int = 0  # given up, or never attempted

    def enter(self) -> None:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1


class Meters:
    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}
        self.flying: Counter[str] = Counter()  # requests under way, by what shares a limit

    def of(self, address: str) -> Meter:
        meter = self._meters.get(address.lower())
        if meter is None:
            meter = self._meters[address.lower()] = Meter()
        return meter

    def all(self) -> dict[str, Meter]:
        return dict(self._meters)

    def reset(self) -> None:
        """Everything back to zero, except what is in flight."""
        for address, meter in list(self._meters.items()):
            self._meters[address] = Meter(in_flight=meter.in_flight, peak=meter.in_flight)
