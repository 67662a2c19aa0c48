"""The table `work`: enqueue, claim, extend, finish, retry and park work items. A claim is a lease.

Every statement sets `state`: `waiting`, `leased`, `waiting_for_operator` or `parked`. A due row and a row
whose lease expired are claimable; the claim decides by time, not by state.

Times come from the database (`postroom_now()`); durations are in seconds. Nothing here sleeps or loops;
`worker` does.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import LiteralString
from uuid import UUID, uuid4

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from postroom import traces
from postroom.errors import LeaseLost
from postroom.model import OrganizationId
from postroom.store.claim_statement import CLAIM, claim_parameters
from postroom.store.connection import TransactionLimits
from postroom.store.database import Connection, Database
from postroom.store.notifier import WORK_CHANNEL

# Work that lost this many leases in a row may have crashed its workers. It then runs alone in its worker, so
# that no other work can be the cause. After two more, unpacking is parked and a document waits for hours.
SUSPECT_LOST_LEASES = 2
DEADLY_LOST_LEASES = 4
# A busy machine may delay a healthy worker's next statement by this much.
SHORTEST_IDLE_SECONDS = 5


def transaction_limits(lease_seconds: float) -> TransactionLimits:
    """Limits of a worker's database transactions: a frozen worker's locks end before its leases do.

    A lease has at least two thirds of its time left, since it is extended after each third.
    """
    seconds = max(lease_seconds / 2, SHORTEST_IDLE_SECONDS)
    return TransactionLimits(lock_seconds=seconds, idle_seconds=seconds)


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """A request to run work: now, or after a delay in seconds."""

    organization: OrganizationId
    kind: str
    subject: str
    delay: float = 0
    trace: str | None = field(default_factory=traces.current_traceparent)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one work item until the lease expires. Each claim has its own token.

    `attempts` counts the failed attempts and this one. `lost_leases` counts the claims just before this one
    that expired without a result. A killed worker says nothing about the work, unless the work kills it
    every time.
    """

    id: int
    organization: OrganizationId
    kind: str
    subject: str
    attempts: int
    generation: int
    token: UUID
    trace: str | None = None
    lost_leases: int = 0
    queue_seconds: float = 0  # from due to claimed

    @property
    def is_suspect(self) -> bool:
        return self.lost_leases >= SUSPECT_LOST_LEASES

    @property
    def is_deadly(self) -> bool:
        return self.lost_leases >= DEADLY_LOST_LEASES


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The leases of a claim; without any, the seconds until the next row is due or no longer locked."""

    leases: list[Lease]
    next_in: float | None = None


@dataclass(frozen=True, slots=True)
class ExtensionResult:
    """Ids of extended leases, and of held leases whose row is locked right now."""

    extended: set[int]
    locked: set[int]


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """Work that is done. It is due again after a delay, or its row is deleted (None)."""

    lease: Lease
    again_after: float | None = None


async def enqueue(connection: Connection, requests: Sequence[WorkRequest]) -> None:
    """Make rows due, insert missing ones, and notify idle workers on commit.

    A leased row gets a new generation, so its finish leaves it due. A failed row keeps its backoff, so that a
    storm of notifications cannot hammer a provider that asked for a pause. A parked row stays parked.
    """
    if requests:
        await notify_workers(
            connection,
            await connection.execute("WITH " + ENQUEUE_CTE + SELECT_CLAIMABLE, enqueue_parameters(requests)),
        )


async def notify_workers(connection: Connection, claimable: AsyncCursor[TupleRow]) -> None:
    """Wake idle workers on commit, if a statement returned a row for claimable work."""
    if claimable.rowcount > 0:
        await connection.notify(WORK_CHANNEL)


async def ensure_scheduled(connection: Connection, requests: Sequence[WorkRequest]) -> int:
    """Insert missing rows, due after their delay, and return how many. Existing rows do not change."""
    cursor = await connection.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at, trace)
        SELECT organization_id, kind, subject, postroom_now() + delay * interval '1 second', trace
        FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::float8[], %b::text[])
            AS requested (organization_id, kind, subject, delay, trace)
        ON CONFLICT (kind, subject) DO NOTHING
        """,
        enqueue_parameters(requests),
    )
    return cursor.rowcount


async def make_due(connection: Connection, kind: str, subjects: Sequence[str]) -> None:
    """Make existing rows due, as `enqueue` does. Missing rows are not inserted."""
    cursor = await connection.execute(
        """
        UPDATE work SET generation = generation + 1,
            due_at = CASE WHEN last_error IS NULL THEN least(due_at, postroom_now()) ELSE due_at END
        WHERE kind = %s AND subject = ANY(%s) AND due_at IS NOT NULL
        """,
        [kind, sorted(subjects)],
    )
    await notify_workers(connection, cursor)


# For statements that enqueue work as part of a larger write: `WITH`, this, more CTEs, `SELECT_CLAIMABLE`.
# `notify_workers` takes the result.
ENQUEUE_CTE: LiteralString = """
    enqueued AS (
        INSERT INTO work (organization_id, kind, subject, due_at, enqueued_at, trace)
        SELECT organization_id, kind, subject, postroom_now() + delay * interval '1 second',
            postroom_now(), trace
        FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::float8[], %b::text[])
            AS requested (organization_id, kind, subject, delay, trace)
        ON CONFLICT (kind, subject) DO UPDATE SET
            generation = work.generation + 1,
            enqueued_at = excluded.enqueued_at,
            trace = coalesce(excluded.trace, work.trace),
            due_at = CASE
                WHEN work.last_error IS NOT NULL THEN work.due_at
                ELSE least(work.due_at, excluded.due_at)
            END
        RETURNING coalesce(leased_until, due_at) <= postroom_now() AS claimable
    )
"""
SELECT_CLAIMABLE: LiteralString = "SELECT 1 FROM enqueued WHERE claimable LIMIT 1"


def enqueue_parameters(requests: Sequence[WorkRequest]) -> list[Sequence[object]]:
    """Parameters of `ENQUEUE_CTE`: each row once, sorted by key, so that concurrent calls do not deadlock."""
    earliest: dict[tuple[str, str], WorkRequest] = {}
    for request in requests:
        key = (request.kind, request.subject)
        if key not in earliest or request.delay < earliest[key].delay:
            earliest[key] = request
    rows = [earliest[key] for key in sorted(earliest)]
    return [
        [row.organization for row in rows],
        [row.kind for row in rows],
        [row.subject for row in rows],
        [float(row.delay) for row in rows],
        [row.trace for row in rows],
    ]


async def claim(
    connection: Connection,
    kinds: Sequence[str],
    *,
    batch: int,
    lease_seconds: float,
    reserved: int = 0,
    busy: Collection[OrganizationId] = (),
) -> ClaimResult:
    """Lease up to `batch` due rows. Organizations take turns, then their kinds, then the oldest row first.

    An organization's running work counts as turns it already took; with equally many, the one whose work took
    the least time recently is first. `reserved` of the batch are only for organizations that are not `busy`,
    one row each, if there is more than one organization.

    A lane is one kind of one organization. With little due work, the oldest rows show all lanes. With much,
    the claim walks the lanes along the index in a circle, one probe per lane, so that a long backlog cannot
    hide another organization's single row.
    """
    parameters = claim_parameters(
        kinds, batch=batch, lease_seconds=lease_seconds, reserved=reserved, busy=busy
    )
    rows = await (await connection.execute(CLAIM, parameters)).fetchall()
    if rows and rows[0][0] is None:
        return ClaimResult([], rows[0][10])
    return ClaimResult([Lease(*row[:10]) for row in rows])


async def claim_one(connection: Connection, kind: str, subject: str, *, lease_seconds: float) -> Lease | None:
    """Lease the named row, if it is due; None if it is leased, done or not due."""
    cursor = await connection.execute(
        """
        UPDATE work SET state = 'leased', lease_token = %s,
            leased_until = postroom_now() + %s * interval '1 second',
            attempts = CASE WHEN lease_token IS NULL THEN attempts + 1 ELSE attempts END,
            lost_leases = CASE WHEN lease_token IS NULL THEN lost_leases ELSE lost_leases + 1 END,
            dispatched_until = NULL
        WHERE kind = %s AND subject = %s AND coalesce(leased_until, due_at) <= postroom_now()
        RETURNING id, organization_id, kind, subject, attempts, generation, lease_token, trace, lost_leases,
            extract(epoch FROM postroom_now() - due_at)::float8
        """,
        [uuid4(), lease_seconds, kind, subject],
    )
    row = await cursor.fetchone()
    return Lease(*row) if row else None


async def extend(connection: Connection, leases: Sequence[Lease], *, lease_seconds: float) -> ExtensionResult:
    """Extend the leases that are still held. Skips locked rows: waiting for one would delay all others."""
    cursor = await connection.execute(
        """
        WITH held AS (
            SELECT * FROM unnest(%(ids)b::int8[], %(tokens)b::uuid[]) AS held (id, token)
        ), free AS MATERIALIZED (
            SELECT work.id FROM work JOIN held
                ON work.id = held.id AND lease_token = token AND leased_until > postroom_now()
            FOR UPDATE OF work SKIP LOCKED
        ), extended AS (
            UPDATE work SET leased_until = postroom_now() + %(lease)b * interval '1 second'
            FROM free WHERE work.id = free.id
        )
        SELECT work.id, work.id IN (SELECT id FROM free) FROM work JOIN held
            ON work.id = held.id AND lease_token = token AND leased_until > postroom_now()
        """,
        {
            "ids": [lease.id for lease in leases],
            "tokens": [lease.token for lease in leases],
            "lease": float(lease_seconds),
        },
    )
    rows = await cursor.fetchall()
    return ExtensionResult({id_ for id_, done in rows if done}, {id_ for id_, done in rows if not done})


@asynccontextmanager
async def fenced_transaction(database: Database, lease: Lease) -> AsyncGenerator[Connection]:
    """A transaction of the lease's organization that starts only while the lease is held.

    The row stays locked until the commit, so no other worker can claim it, however long the commit takes.
    """
    with traces.span("commit"):
        async with database.transaction(lease.organization) as connection:
            await _require_lease(connection, lease)
            yield connection


async def _require_lease(connection: Connection, lease: Lease) -> None:
    cursor = await connection.execute(
        # The time is compared once the row is locked: that may have taken longer than the lease.
        """
        WITH held AS MATERIALIZED (
            SELECT leased_until FROM work WHERE id = %s AND lease_token = %s FOR UPDATE
        )
        SELECT 1 FROM held WHERE leased_until > postroom_now()
        """,
        [lease.id, lease.token],
    )
    if await cursor.fetchone() is None:
        raise LeaseLost("the lease ended before its work was committed")


async def record_progress(connection: Connection, lease: Lease) -> None:
    """Reset the lost-lease count: committed progress proves that the work does not kill its workers.

    A suspect stays one until it finishes: what is left to do may be what kills them.
    """
    if lease.lost_leases:
        await connection.execute(
            "UPDATE work SET lost_leases = %s WHERE id = %s AND lease_token = %s",
            [SUSPECT_LOST_LEASES if lease.is_suspect else 0, lease.id, lease.token],
        )


async def block_commits(connection: Connection, kind: str, subject: str) -> None:
    """Block commits for this work item until this transaction ends."""
    await connection.execute("SELECT FROM work WHERE kind = %s AND subject = %s FOR UPDATE", [kind, subject])


async def block_commits_of_kind(connection: Connection, kind: str) -> None:
    """Block commits for all work of this kind in the organization."""
    await connection.execute("SELECT FROM work WHERE kind = %s ORDER BY id FOR UPDATE", [kind])


_FINISH = """
    WITH held AS MATERIALIZED (
        SELECT work.id, finished.again_after, work.generation > finished.generation AS requested_again
        FROM unnest(%b::int8[], %b::uuid[], %b::int8[], %b::float8[])
            AS finished (id, token, generation, again_after)
        JOIN work ON work.id = finished.id AND lease_token = finished.token AND leased_until > postroom_now()
        ORDER BY work.id FOR UPDATE OF work
    ), deleted AS (
        DELETE FROM work USING held WHERE work.id = held.id AND again_after IS NULL AND NOT requested_again
    ), rescheduled AS (
        UPDATE work SET
            state = 'waiting', due_at = postroom_now()
                + CASE WHEN requested_again THEN 0 ELSE again_after END * interval '1 second',
            lease_token = NULL, leased_until = NULL, attempts = 0, lost_leases = 0, last_error = NULL,
            trace = CASE WHEN requested_again THEN trace END
        FROM held WHERE work.id = held.id AND (again_after IS NOT NULL OR requested_again)
    )
    SELECT id, requested_again FROM held
"""


async def finish(connection: Connection, finishes: Sequence[FinishedWork]) -> set[int]:
    """Finish leases and return the ids of those still held. A row requested meanwhile is due at once.

    Rows are locked first, in order, so that the decision sees a concurrent `enqueue`.
    """
    cursor = await connection.execute(
        _FINISH,
        [
            [finish.lease.id for finish in finishes],
            [finish.lease.token for finish in finishes],
            [finish.lease.generation for finish in finishes],
            [finish.again_after for finish in finishes],
        ],
    )
    rows = await cursor.fetchall()
    if any(requested_again for _, requested_again in rows):
        await connection.notify(WORK_CHANNEL)
    return {id_ for id_, _ in rows}


async def retry(
    connection: Connection, lease: Lease, *, delay: float, error: str, counts: bool = True
) -> bool:
    """Make failed work due again after a delay. False if another worker has claimed it.

    An attempt that does not count resets the count: the work waits for an operator.
    """
    cursor = await connection.execute(
        """
        UPDATE work SET due_at = postroom_now() + %(delay)s * interval '1 second', last_error = %(error)s,
            state = CASE WHEN %(counts)s THEN 'waiting' ELSE 'waiting_for_operator' END,
            attempts = CASE WHEN %(counts)s THEN attempts ELSE 0 END, lost_leases = 0,
            lease_token = NULL, leased_until = NULL
        WHERE id = %(id)s AND lease_token = %(token)s
        """,
        {"delay": delay, "error": error, "counts": counts, "id": lease.id, "token": lease.token},
    )
    return cursor.rowcount == 1


async def park(connection: Connection, lease: Lease, *, error: str) -> bool:
    """Park work that failed permanently until an operator decides. False if another worker claimed it."""
    cursor = await connection.execute(
        """
        UPDATE work SET state = 'parked', due_at = NULL, last_error = %s, lease_token = NULL,
            leased_until = NULL
        WHERE id = %s AND lease_token = %s
        """,
        [error, lease.id, lease.token],
    )
    return cursor.rowcount == 1


async def release(connection: Connection, leases: Sequence[Lease]) -> None:
    """Release leases of a stopping worker: due as before, and the attempt does not count."""
    cursor = await connection.execute(
        """
        UPDATE work SET state = 'waiting', lease_token = NULL, leased_until = NULL, attempts = attempts - 1
        FROM unnest(%b::int8[], %b::uuid[]) AS held (id, token)
        WHERE work.id = held.id AND lease_token = held.token
        """,
        [[lease.id for lease in leases], [lease.token for lease in leases]],
    )
    await notify_workers(connection, cursor)


async def restart(connection: Connection, requests: Sequence[WorkRequest]) -> None:
    """Enqueue work whose cause of failure is fixed: parked rows and backoffs start over at once."""
    await connection.execute(
        """
        UPDATE work SET state = 'waiting', due_at = postroom_now(), attempts = 0, lost_leases = 0,
            last_error = NULL
        FROM unnest(%b::text[], %b::text[]) AS requested (kind, subject)
        WHERE work.kind = requested.kind AND work.subject = requested.subject AND state <> 'leased'
        """,
        [[request.kind for request in requests], [request.subject for request in requests]],
    )
    await enqueue(connection, requests)


async def resume_waiting_for_operator(connection: Connection) -> int:
    """Make work due that waits for an operator, and return how many. Called after the operator acted."""
    cursor = await connection.execute(
        """
        UPDATE work SET state = 'waiting', due_at = postroom_now()
        WHERE state = 'waiting_for_operator' AND due_at > postroom_now()
        """
    )
    await notify_workers(connection, cursor)
    return cursor.rowcount


async def delete_by_subject(connection: Connection, subject: str) -> None:
    """Delete all work of a subject. A running step loses its lease and cannot commit."""
    await connection.execute("DELETE FROM work WHERE subject = %s", [subject])
