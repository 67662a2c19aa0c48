"""From settings to running parts: the one place that names what is behind each port."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from postroom.config import Settings
from postroom.flow import sample
from postroom.model import Done
from postroom.store.database import Database
from postroom.store.work import Lease

# A step does the work of one lease. It commits through `work.fenced`, and either finishes the lease in its
# own last transaction and returns nothing, or returns how it ended and leaves the finish to the worker.
Step = Callable[[Lease], Awaitable[Done | None]]


@dataclass(frozen=True)
class Kind:
    """One kind of work. Without a limit of attempts it is never parked: it backs off and goes on for ever."""

    step: Step
    max_attempts: int | None


def kinds(settings: Settings, database: Database) -> Mapping[str, Kind]:
    """Every kind of work that this Postroom knows."""
    return {sample.KIND: Kind(partial(sample.run, database), settings.max_attempts)}
