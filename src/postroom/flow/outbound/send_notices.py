"""The work `send_notices`: announce the conditions of an organization to one of its destinations.

    true ──▶ claimed, with the id of the notice ──▶ sent ──▶ recorded, and due again
                      │                               └── refused ──▶ retried with backoff
                      └── quiet hours ──▶ checked again when they end

All conditions that are due go into one notice. Its id depends on them only, and is committed before it is
sent: after a crash in between, the same notice is sent again with the same id, once. After a second
crash it counts as sent, so a person receives a notice at most twice. Each destination is a work item of its
own, so a failing one delays no other.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4, uuid5

from postroom import __version__
from postroom.errors import OperatorError
from postroom.flow.outbound import notice_bodies
from postroom.flow.outbound.backoff import backoff_seconds
from postroom.flow.outbound.notice_bodies import NoticeContent
from postroom.logs import Log
from postroom.model import OrganizationId, Secret, StepResult
from postroom.notice_types import NoticeMail, NoticeMedium, NoticeResult
from postroom.ports import PostResult, SealedSecret
from postroom.store import ledger, notice_conditions, notices, work
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.notice_conditions import NoticeCondition
from postroom.store.notices import NoticeDestination
from postroom.store.work import FinishedWork, Lease
from postroom.vault import Sealer

CHECK_SECONDS: Final = 300.0
FIRST_WAIT_SECONDS: Final = 60.0
MAX_CLAIMS: Final = 2
NO_MAIL_SERVER: Final = "no mail server is configured: set POSTROOM_SMTP_URL and POSTROOM_SMTP_FROM"
# Per organization, because the recipients of a test may not have asked for it.
MAX_TESTS: Final = 10
TEST_SECONDS: Final = 3600.0

log = Log()


@dataclass
class NoticeTests:
    """The recent test notices of each organization, in this process."""

    clock: Callable[[], float] = time.monotonic
    _sent: dict[OrganizationId, list[float]] = field(default_factory=dict[OrganizationId, list[float]])

    def begin(self, organization: OrganizationId) -> bool:
        """Count a test; False if there were too many."""
        now = self.clock()
        recent = [at for at in self._sent.get(organization, ()) if at > now - TEST_SECONDS]
        if len(recent) >= MAX_TESTS:
            return False
        self._sent[organization] = [*recent, now]
        return True


@dataclass(frozen=True)
class NoticeContext:
    """The dependencies of notices. `url` is where browsers reach the pages."""

    database: Database
    sealer: Sealer
    post: Callable[[str, Mapping[str, str], bytes], Awaitable[PostResult]]
    send_mail: Callable[[NoticeMail], Awaitable[NoticeResult]] | None  # None: no mail server is configured
    url: str
    allows_http: bool = False  # POSTROOM_WEBHOOK_NETWORKS allows plain http
    tests: NoticeTests = field(default_factory=NoticeTests)


async def run(context: NoticeContext, lease: Lease) -> StepResult | None:
    """Send what is due to one destination. Due again with the next check."""
    async with work.fenced_transaction(context.database, lease) as connection:
        destination = await notices.get(connection, UUID(lease.subject))
        if destination is None:
            return StepResult()
        await notice_conditions.refresh(connection, destination)
        due = await notice_conditions.list_due(connection, destination)
        if not due or destination.pause_seconds > 0:
            return StepResult(_find_next_check(destination.pause_seconds))
        notice = _build_notice_id(destination, due)
        is_unknown = await notices.claim(connection, destination.id, notice) > MAX_CLAIMS
        url = await notices.get_url(connection, destination.id)
    if is_unknown:
        result = NoticeResult(
            sent=True, error="the worker stopped twice while sending this notice; its result is unknown"
        )
    else:
        content = notice_bodies.build_content(due, url=context.url, review_hours=destination.review_hours)
        result = await _send(context, lease.organization, destination, url, content, notice)
    wait = 0.0 if result.sent else backoff_seconds(destination.attempts, FIRST_WAIT_SECONDS)
    async with work.fenced_transaction(context.database, lease) as connection:
        await notices.record_result(
            connection, destination.id, sent=result.sent, error=result.error, retry_seconds=wait
        )
        if result.sent:
            await notice_conditions.record_sent(connection, destination.id, due)
        await work.finish(connection, [FinishedWork(lease, _find_next_check(wait))])
    if not result.sent:
        log.warning("notices.not_sent", kind=destination.medium, attempts=destination.attempts + 1)
    return None


async def send_test(
    context: NoticeContext,
    organization: OrganizationId,
    destination: NoticeDestination,
    *,
    actor: str | None = None,
) -> NoticeResult:
    """Send a test notice now, even in quiet hours, and record its result."""
    if not context.tests.begin(organization):
        reason = f"there were {MAX_TESTS} tests in the last hour. Try again later"
        return NoticeResult(sent=False, error=reason)
    async with context.database.transaction(organization) as connection:
        url = await notices.get_url(connection, destination.id)
    content = notice_bodies.build_test_content(context.url)
    result = await _send(context, organization, destination, url, content, uuid4())
    async with context.database.transaction(organization) as connection:
        await notices.record_result(
            connection,
            destination.id,
            sent=result.sent,
            error=result.error,
            retry_seconds=backoff_seconds(destination.attempts, FIRST_WAIT_SECONDS),
        )
        payload = {"medium": destination.medium.value}
        entry = NewLedgerEntry(
            "NOTICE_DESTINATION_TESTED", "notice_destination", str(destination.id), actor, payload
        )
        await ledger.append_entries(connection, organization, [entry])
    return result


async def _send(
    context: NoticeContext,
    organization: OrganizationId,
    destination: NoticeDestination,
    url: SealedSecret | None,
    content: NoticeContent,
    notice: UUID,
) -> NoticeResult:
    if destination.medium is NoticeMedium.EMAIL:
        if context.send_mail is None:
            return NoticeResult(sent=False, error=NO_MAIL_SERVER)
        text = notice_bodies.to_text(content)
        subject = f"[Postroom] {content.subject}"
        return await context.send_mail(NoticeMail(tuple(destination.addresses), subject, text, notice))
    assert url is not None, "the table has a check"
    try:
        target = context.sealer.open(url_context(organization, destination.id), url)
    except OperatorError as error:
        return NoticeResult(sent=False, error=str(error))
    is_slack = destination.medium is NoticeMedium.SLACK
    body = notice_bodies.to_slack(content) if is_slack else notice_bodies.to_teams(content)
    failure = await _post(context, target, body)
    return NoticeResult(sent=failure is None, error=failure)


async def _post(context: NoticeContext, url: Secret, body: bytes) -> str | None:
    headers = {"content-type": "application/json", "user-agent": f"Postroom/{__version__}"}
    posted = await context.post(url.reveal(), headers, body)
    return posted.failure


def _build_notice_id(destination: NoticeDestination, due: Sequence[NoticeCondition]) -> UUID:
    """The id of the notice about these conditions: the same after a crash, another one for a reminder."""
    parts = [[each.kind, each.subject, each.stage, each.since.isoformat(), str(each.sent_at)] for each in due]
    return uuid5(destination.id, json.dumps(parts))


def _find_next_check(pause_seconds: float) -> float:
    return min(CHECK_SECONDS, pause_seconds) if pause_seconds > 0 else CHECK_SECONDS


def url_context(organization: OrganizationId, destination: UUID) -> str:
    return f"notices/{organization}/{destination}"
