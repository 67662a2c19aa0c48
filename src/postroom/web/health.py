"""Health of the server, the work and the mailboxes: read at most once a second, problems in words.

No routes: the page is in `health_page`, the queries are in `store.health`.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import MailboxHealth, OrganizationId, Role
from postroom.store import alerts, health, mailboxes
from postroom.store.database import Database
from postroom.store.health import SystemHealth, WorkKindCounts
from postroom.store.sessions import SessionMember

LATE_SECONDS = 60
SLOW_SECONDS = 1
ANSWER_SECONDS = 3

_MAILBOX_PROBLEMS: Final[Mapping[MailboxHealth, str]] = {
    MailboxHealth.TOKEN_REFRESH_FAILED: "{}: reconnect required. The grant has expired or was revoked.",
    MailboxHealth.SUBSCRIPTION_EXPIRED: "{}: no push notifications. Postroom polls for new mail meanwhile.",
    MailboxHealth.PROVIDER_ERROR: "{}: the provider denies access. Postroom keeps retrying.",
}


_DATABASE_UNREACHABLE: Final = "The database is unreachable."


@dataclass(frozen=True)
class HealthReport:
    """The state of the server, None while the database is unreachable, and the problems found."""

    health: SystemHealth | None
    problems: Sequence[str]


@dataclass(frozen=True)
class VisitorHealth:
    """What one visitor may see: the work of their organization, and whether the database responds.

    `server` covers all organizations. Only admins of the operator's organization see it.
    """

    is_available: bool
    server: SystemHealth | None
    work: Sequence[WorkKindCounts]
    problems: Sequence[str]


class HealthMonitor:
    """Reads the health from the database on request, and caches it for `fresh_seconds`."""

    def __init__(
        self,
        database: Database,
        operator: OrganizationId,
        *,
        monitored_kinds: Collection[str] | None = None,
        fresh_seconds: float = 1,
    ) -> None:
        self._database = database
        self._operator = operator
        self._monitored_kinds = monitored_kinds
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
                unhealthy = await mailboxes.count_unhealthy(connection)
                active_alerts = await alerts.list_active(connection)
                work = await health.count_work(connection)
        except (DatabaseUnavailable, TransientError):
            return VisitorHealth(False, None, (), [_DATABASE_UNREACHABLE])
        problems = [
            *active_alerts,
            *(
                _MAILBOX_PROBLEMS[health].format(_count_mailboxes(count))
                for health, count in unhealthy.items()
            ),
        ]
        if visitor.organization == self._operator and visitor.role.allows(Role.ADMIN):
            return VisitorHealth(True, report.health, work, [*problems, *report.problems])
        problems += [*_find_server_problems(report.health), *_find_work_problems(work, self._monitored_kinds)]
        return VisitorHealth(True, None, work, problems)

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
        return HealthReport(system, find_problems(system, self._monitored_kinds))


def _count_mailboxes(count: int) -> str:
    return "One mailbox" if count == 1 else f"{count} mailboxes"


def find_problems(system: SystemHealth, monitored_kinds: Collection[str] | None = None) -> list[str]:
    """Describe every problem for a person; an empty list means healthy.

    Only late work of the monitored kinds is a problem; failing and parked work is one of any kind.
    """
    return [*_find_server_problems(system), *_find_work_problems(system.work, monitored_kinds)]


def _find_server_problems(system: SystemHealth) -> list[str]:
    problems: list[str] = []
    if not system.list_processes("worker"):
        problems.append("No worker is running, so no work is processed. Start one with `postroom work`.")
    if system.server.read_only:
        problems.append("The database is read-only. Postroom cannot store anything.")
    if system.server.answered_seconds > SLOW_SECONDS:
        problems.append("The database responds slowly.")
    return problems


def _find_work_problems(
    kinds: Sequence[WorkKindCounts], monitored_kinds: Collection[str] | None
) -> list[str]:
    problems: list[str] = []
    for counts in kinds:
        name = work_name(counts.kind)
        if counts.failing:
            reason = f" Last error: {counts.error}" if counts.error else ""
            problems.append(f"{name}: {counts.failing} failed and will be retried.{reason}")
        if counts.parked:
            problems.append(f"{name}: {counts.parked} failed for good. Retry under Failures.")
        is_monitored = monitored_kinds is None or counts.kind in monitored_kinds
        if (
            is_monitored
            and counts.oldest_due_seconds is not None
            and counts.oldest_due_seconds > LATE_SECONDS
        ):
            problems.append(
                f"{name}: overdue. The workers cannot keep up; add workers, or check for failing work."
            )
    return problems


def work_name(kind: str) -> str:
    """The name of a kind of work: `process_document` is "Process document"."""
    return kind.replace("_", " ").capitalize()
