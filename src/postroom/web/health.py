"""The state of everything, judged: read at most once a second, however many look."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import MailboxHealth as MailboxHealth
from postroom.model import OrganizationId, Role
from postroom.store import alerts, health, mailboxes
from postroom.store.database import Database
from postroom.store.health import Health, KindOfWork
from postroom.store.sessions import Visitor

LATE_SECONDS = 60
SLOW_SECONDS = 1
ANSWER_SECONDS = 3

_MAILBOX_PROBLEMS: Final[Mapping[MailboxHealth, str]] = {
    MailboxHealth.TOKEN_REFRESH_FAILED: "{}: the connection is lost, and the owner must connect it again.",
    MailboxHealth.SUBSCRIPTION_EXPIRED: "{}: not notified of new mail; regular looks find it meanwhile.",
    MailboxHealth.PROVIDER_ERROR: "{}: refused by the provider; tried again from time to time.",
}


_DATABASE_UNREACHABLE: Final = "The database cannot be reached."


@dataclass(frozen=True)
class HealthReport:
    """What was found, or why nothing was; and what a person should look at."""

    health: Health | None
    problems: Sequence[str]


@dataclass(frozen=True)
class VisitorHealth:
    """What one visitor is shown: their organization's work, and of the server whether it answers.

    `health` is the state of everything, of all organizations: for the admins of who runs this Postroom.
    """

    answers: bool
    health: Health | None
    work: Sequence[KindOfWork]
    problems: Sequence[str]


class HealthMonitor:
    """Looks at the database when somebody asks and the last look is old."""

    def __init__(
        self,
        database: Database,
        operator: OrganizationId,
        *,
        performed: Collection[str] | None = None,
        fresh_seconds: float = 1,
    ) -> None:
        self._database = database
        self._operator = operator
        self._performed = performed
        self._fresh_seconds = fresh_seconds
        self._looking = asyncio.Lock()
        self._asking: asyncio.Task[Health] | None = None
        self._report = HealthReport(None, ())
        self._looked_at = float("-inf")

    async def report(self) -> HealthReport:
        async with self._looking:
            if time.monotonic() - self._looked_at >= self._fresh_seconds:
                self._report = await self._look()
                self._looked_at = time.monotonic()
            return self._report

    async def seen_by(self, visitor: Visitor) -> VisitorHealth:
        """What is wrong with the visitor's mailboxes and work, and with the server."""
        report = await self.report()
        if report.health is None:
            return VisitorHealth(False, None, (), report.problems)
        try:
            async with self._database.transaction(visitor.organization) as connection:
                found, told = await mailboxes.ill(connection), await alerts.standing(connection)
                work = await health.work(connection)
        except (DatabaseUnavailable, TransientError):
            return VisitorHealth(False, None, (), [_DATABASE_UNREACHABLE])
        problems = [
            *told,
            *(_MAILBOX_PROBLEMS[health].format(_count_mailboxes(count)) for health, count in found.items()),
        ]
        if visitor.organization == self._operator and visitor.role.allows(Role.ADMIN):
            return VisitorHealth(True, report.health, work, [*problems, *report.problems])
        problems += [*_find_server_problems(report.health), *_find_work_problems(work, self._performed)]
        return VisitorHealth(True, None, work, problems)

    async def _look(self) -> HealthReport:
        if self._asking is None:
            self._asking = asyncio.create_task(health.read(self._database))
        # Not cancelled: a frozen server would not hear of it, and an answer that comes late is the next one.
        await asyncio.wait([self._asking], timeout=ANSWER_SECONDS)
        if not self._asking.done():
            return HealthReport(None, [f"The database has not answered within {ANSWER_SECONDS} seconds."])
        asked, self._asking = self._asking, None
        try:
            found = asked.result()
        except (DatabaseUnavailable, TransientError):
            return HealthReport(None, [_DATABASE_UNREACHABLE])
        return HealthReport(found, find_problems(found, self._performed))


def _count_mailboxes(count: int) -> str:
    return "One mailbox" if count == 1 else f"{count} mailboxes"


def find_problems(found: Health, performed: Collection[str] | None = None) -> list[str]:
    """What is wrong, in words for a person; nothing when all is well.

    Work of a kind that this Postroom does not perform waits for one that does: it is shown, and is not late.
    """
    return [*_find_server_problems(found), *_find_work_problems(found.work, performed)]


def _find_server_problems(found: Health) -> list[str]:
    problems: list[str] = []
    if not found.of_role("worker"):
        problems.append(
            "No worker is connected: nothing that is due gets done. Start one with `postroom work`."
        )
    if found.server.read_only:
        problems.append("The database is read-only: nothing can be stored.")
    if found.server.answered_seconds > SLOW_SECONDS:
        problems.append("The database answers slowly.")
    return problems


def _find_work_problems(found: Sequence[KindOfWork], performed: Collection[str] | None) -> list[str]:
    problems: list[str] = []
    for each in found:
        if each.failing:
            why = f": {each.error}" if each.error else "."
            are = "is" if each.failing == 1 else "are"
            problems.append(f"{each.failing} of the kind {each.kind} failed and {are} tried again{why}")
        if each.parked:
            problems.append(f"{each.parked} of the kind {each.kind} failed too often and wait for a person.")
        awaited = performed is None or each.kind in performed
        if awaited and each.oldest_due_seconds is not None and each.oldest_due_seconds > LATE_SECONDS:
            problems.append(f"Work of the kind {each.kind} is late: the workers do not keep up.")
    return problems
