"""Usage counters per mailbox (calls, quota units, rejections, faults, pushes), and requests in flight.

It only counts. The providers enforce their limits.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class MailboxMeter:
    """The counters of one mailbox; the address "" counts requests that belong to no mailbox.

    Providers count rejections and pushes themselves.
    """

    calls: Counter[str] = field(default_factory=Counter[str])  # by endpoint; every part of a batch counts
    statuses: Counter[int] = field(default_factory=Counter[int])
    units: int = 0
    in_flight: int = 0
    peak: int = 0  # most requests in flight at once
    rejections: int = 0  # for exceeding a quota, without faults
    faults: int = 0
    pushes_sent: int = 0  # attempts
    pushes_acknowledged: int = 0
    pushes_failed: int = 0  # attempts with an error, a late response or none
    pushes_dropped: int = 0  # given up or never attempted

    def enter(self) -> None:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1


class Meters:
    def __init__(self) -> None:
        self._meters: dict[str, MailboxMeter] = {}
        self.concurrent: Counter[str] = Counter()  # requests in flight by limit key

    def get(self, address: str) -> MailboxMeter:
        meter = self._meters.get(address.lower())
        if meter is None:
            meter = self._meters[address.lower()] = MailboxMeter()
        return meter

    def list_all(self) -> dict[str, MailboxMeter]:
        return dict(self._meters)

    def reset(self) -> None:
        """Set every counter to zero except the requests in flight."""
        for address, meter in list(self._meters.items()):
            self._meters[address] = MailboxMeter(in_flight=meter.in_flight, peak=meter.in_flight)
