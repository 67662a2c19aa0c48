"""Health of the server, the work and the mailboxes: read at most once a second, problems in words.

No routes: the page is in `health_page`, the queries are in `store.health`.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.flow.mailboxes.mailbox_health import DESCRIPTIONS
from postroom.model import OrganizationId, Role
from postroom.store import alerts, health, mailbox_health
from postroom.store.database import Database
from postroom.store.health import SystemHealth, WorkKindCounts
from postroom.store.mailbox_health import CauseCount
from postroom.store.sessions import SessionMember

LATE_SECONDS = 60
SLOW_SECONDS = 1
ANSWER_SECONDS = 3

_DATABASE_UNREACHABLE: Final = "The database is unreachable."


@dataclass(frozen=True)
class HealthReport:
    """The state of the server, None while the database is unreachable, and the problems found."""

    health: SystemHealth | None
    problems: Sequence[str]


@dataclass(frozen=True)
class VisitorHealth:
    """What one visitor may see: the work of their organization, and whether the database responds.

    `server` covers all organizations. Only admins of the operator's organization see it. `listed` are the
    problems that the overview lists with a button each: unhealthy mailboxes and parked work.
    """

    is_available: bool
    server: SystemHealth | None
    work: Sequence[WorkKindCounts]
    problems: Sequence[str]
    listed: Collection[str] = ()


class HealthMonitor:
    """Reads the health from the database on request, and caches it for `fresh_seconds`."""

    def __init__(
        self,
        database: Database,
        operator: OrganizationId,
        *,
        fresh_seconds: float = 1,
    ) -> None:
        self._database = database
        self._operator = operator
        self._fresh_seconds = fresh_seconds
        self._lock = asyncio.Lock()
        self._pending_read: asyncio.Task[SystemHealth] | None = None
        self._report = HealthReport(None, ())
        self._read_at = float("-inf")

    async def report(self) -> HealthReport:
        async with self._lock:
            if time.monotonic() - self._read_at >= self._fresh_seconds:
                self._report = await self._read()
                self._read_at = time.monotonic()
            return self._report

    async def report_for(self, visitor: SessionMember) -> VisitorHealth:
        """The problems of the visitor's mailboxes and work, and of the server."""
        report = await self.report()
        if report.health is None:
            return VisitorHealth(False, None, (), report.problems)
        try:
            async with self._database.transaction(visitor.organization) as connection:
                causes = await mailbox_health.count_by_cause(connection)
                active_alerts = await alerts.list_active(connection)
                work = await health.count_work(connection)
        except (DatabaseUnavailable, TransientError):
            return VisitorHealth(False, None, (), [_DATABASE_UNREACHABLE])
        mailbox_problems = [*map(_describe_cause, causes)]
        listed = {*mailbox_problems, *(_describe_parked(counts) for counts in work if counts.parked)}
        problems = [*active_alerts, *mailbox_problems]
        if visitor.organization == self._operator and visitor.role.allows(Role.ADMIN):
            return VisitorHealth(True, report.health, work, [*problems, *report.problems], listed)
        problems += [*_find_server_problems(report.health), *_find_work_problems(work)]
        return VisitorHealth(True, None, work, problems, listed)

    async def _read(self) -> HealthReport:
        if self._pending_read is None:
            self._pending_read = asyncio.create_task(health.read_health(self._database))
        # Not cancelled on timeout: a hung server would not notice, and a late result serves the next request.
        await asyncio.wait([self._pending_read], timeout=ANSWER_SECONDS)
        if not self._pending_read.done():
            return HealthReport(None, [f"The database did not respond within {ANSWER_SECONDS} seconds."])
        finished, self._pending_read = self._pending_read, None
        try:
            system = finished.result()
        except (DatabaseUnavailable, TransientError):
            return HealthReport(None, [_DATABASE_UNREACHABLE])
        return HealthReport(system, find_problems(system))


def _describe_cause(count: CauseCount) -> str:
    description = DESCRIPTIONS[count.cause]
    subject = "One mailbox" if count.mailboxes == 1 else f"{count.mailboxes} mailboxes"
    return (
        f"{subject}: {description.name.lower()} since {count.since:%Y-%m-%d %H:%M} UTC. {description.meaning}"
        f" {description.remedy}"
    )


def find_problems(system: SystemHealth) -> list[str]:
    """Describe every problem for a person; an empty list means healthy."""
    return [*_find_server_problems(system), *_find_work_problems(system.work)]


def _find_server_problems(system: SystemHealth) -> list[str]:
    problems: list[str] = []
    if not system.list_processes("worker"):
        problems.append("No worker is running, so no work is processed. Start one with `postroom work`.")
    if system.server.read_only:
        problems.append("The database is read-only. Postroom cannot store anything.")
    if system.server.response_seconds > SLOW_SECONDS:
        problems.append("The database responds slowly.")
    return problems


def _find_work_problems(kinds: Sequence[WorkKindCounts]) -> list[str]:
    problems: list[str] = []
    for counts in kinds:
        name = work_name(counts.kind)
        if counts.failing:
            reason = f" Last error: {counts.error}" if counts.error else ""
            problems.append(f"{name}: {counts.failing} failed and will be retried.{reason}")
        if counts.parked:
            problems.append(_describe_parked(counts))
        if counts.oldest_due_seconds is not None and counts.oldest_due_seconds > LATE_SECONDS:
            problems.append(
                f"{name}: overdue. The workers cannot keep up; add workers, or check for failing work."
            )
    return problems


def _describe_parked(counts: WorkKindCounts) -> str:
    return f"{work_name(counts.kind)}: {counts.parked} failed permanently. Retry under Failures."


def work_name(kind: str) -> str:
    """The name of a kind of work: `process_document` is "Process document"."""
    return kind.replace("_", " ").capitalize()
