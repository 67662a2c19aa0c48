"""The table `work`: what is due, who holds it, and how it ends. Claims are leases; leases fence.

Times are the database's (`postroom_now()`), durations are seconds. Nothing here
sleeps or retries; `worker` does.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import LiteralString
from uuid import UUID, uuid4

from postroom import traces
from postroom.errors import LeaseLost
from postroom.model import OrganizationId
from postroom.store.database import Connection, Database

# With fewer due rows than this, they are read to learn which lanes have some; with more, lanes are walked.
HEAD_ROWS = 500
# So many lanes are looked at in one walk, from a place drawn by lot: each has the same chance, and however
# many there are, a claim costs the same.
MAX_WALKED_LANES = 500


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """Something is due: now, or after a delay."""

    organization: OrganizationId
    kind: str
    subject: str
    delay: float = 0
    trace: str | None = field(default_factory=traces.current_traceparent)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one row until the lease ends. The token fences: no other claim has it.

    `attempts` are those that failed and this one. `lost` are the claims just before it that ended without a
    word: a worker that is killed says nothing about the work, unless the work is what kills it every time.
    """

    id: int
    organization: OrganizationId
    kind: str
    subject: str
    attempts: int
    generation: int
    token: UUID
    trace: str | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What a claim got; where that is nothing, in how many seconds the next row falls due, if any does."""

    leases: list[Lease]
    next_in: float | None = None


@dataclass(frozen=True, slots=True)
class ParkedWork:
    """A row that failed too often, and why."""

    organization: OrganizationId
    kind: str
    subject: str
    attempts: int
    error: str | None


@dataclass(frozen=True, slots=True)
class ExtensionResult:
    """By id: leases that were prolonged, and those that are held but whose row somebody has locked now."""

    prolonged: set[int]
    locked: set[int]


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """The work is done; it is due again after a delay, or never (then the row goes)."""

    lease: Lease
    again_after: float | None = None


async def enqueue(connection: Connection, wakes: Sequence[WorkRequest]) -> None:
    """Make rows due, creating them where missing, and wake idle workers when this commits.

    A row being worked on is marked, so that its finish leaves it due. One that failed keeps its backoff, so
    that a storm of notifications cannot hammer a provider that asked for patience. A parked one stays parked.
    """
    if wakes:
        await connection.execute("WITH " + ENQUEUE_CTE + NOTIFY_WORKERS, enqueue_parameters(wakes))


async def ensure_scheduled(connection: Connection, wakes: Sequence[WorkRequest]) -> int:
    """Make rows where there are none, due after their delay; how many. What stands there is left alone."""
    cursor = await connection.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at, trace)
        SELECT organization_id, kind, subject, postroom_now() + delay * interval '1 second', trace
        FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::float8[], %b::text[])
            AS asked (organization_id, kind, subject, delay, trace)
        ON CONFLICT (kind, subject) DO NOTHING
        """,
        enqueue_parameters(wakes),
    )
    return cursor.rowcount


async def make_due(connection: Connection, kind: str, subjects: Sequence[str]) -> None:
    """Make rows due that are there, as `wake` does; none is made."""
    await connection.execute(
        """
        UPDATE work SET generation = generation + 1,
            due_at = CASE WHEN last_error IS NULL THEN least(due_at, postroom_now()) ELSE due_at END
        WHERE kind = %s AND subject = ANY(%s) AND due_at IS NOT NULL
        RETURNING pg_notify('postroom_work', '')
        """,
        [kind, sorted(subjects)],
    )


# For statements that wake as a part of what they do: `WITH` this, and more, and `NOTIFIED` at the end.
ENQUEUE_CTE: LiteralString = """
    woken AS (
        INSERT INTO work (organization_id, kind, subject, due_at, woken_at, trace)
        SELECT organization_id, kind, subject, postroom_now() + delay * interval '1 second',
            postroom_now(), trace
        FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::float8[], %b::text[])
            AS asked (organization_id, kind, subject, delay, trace)
        ON CONFLICT (kind, subject) DO UPDATE SET
            generation = work.generation + 1,
            woken_at = excluded.woken_at,
            trace = coalesce(excluded.trace, work.trace),
            due_at = CASE
                WHEN work.last_error IS NOT NULL THEN work.due_at
                ELSE least(work.due_at, excluded.due_at)
            END
        RETURNING coalesce(leased_until, due_at) <= postroom_now() AS claimable
    )
"""
NOTIFY_WORKERS: LiteralString = "SELECT pg_notify('postroom_work', '') FROM woken WHERE claimable LIMIT 1"


def enqueue_parameters(wakes: Sequence[WorkRequest]) -> list[Sequence[object]]:
    """What `WOKEN` takes: each row once, in key order, or two of these at the same time deadlock."""
    earliest: dict[tuple[str, str], WorkRequest] = {}
    for each in wakes:
        key = (each.kind, each.subject)
        if key not in earliest or each.delay < earliest[key].delay:
            earliest[key] = each
    rows = [earliest[key] for key in sorted(earliest)]
    return [
        [row.organization for row in rows],
        [row.kind for row in rows],
        [row.subject for row in rows],
        [float(row.delay) for row in rows],
        [row.trace for row in rows],
    ]


_CLAIM = """
    WITH RECURSIVE head AS MATERIALIZED (
        SELECT organization_id, kind FROM work
        WHERE coalesce(leased_until, due_at) <= (SELECT postroom_now())
        ORDER BY coalesce(leased_until, due_at) LIMIT %(head)s::int
    ), walk AS (
        (SELECT organization_id, kind, coalesce(leased_until, due_at) AS claimable_at, 1 AS place FROM work
         WHERE (SELECT count(*) FROM head) = %(head)s::int AND organization_id >= %(start)s::uuid
         ORDER BY organization_id, kind, coalesce(leased_until, due_at) LIMIT 1)
        UNION ALL
        SELECT lane.*, place + 1 FROM walk CROSS JOIN LATERAL (
            SELECT organization_id, kind, coalesce(leased_until, due_at) FROM work
            WHERE (organization_id, kind) > (walk.organization_id, walk.kind)
            ORDER BY organization_id, kind, coalesce(leased_until, due_at) LIMIT 1
        ) AS lane
        WHERE place < %(lanes)s::int
    ), walk_on AS (
        (SELECT organization_id, kind, coalesce(leased_until, due_at) AS claimable_at,
            (SELECT count(*)::int FROM walk) + 1 AS place FROM work
         WHERE (SELECT count(*) FROM head) = %(head)s::int AND organization_id < %(start)s::uuid
            AND (SELECT count(*) FROM walk) < %(lanes)s::int
         ORDER BY organization_id, kind, coalesce(leased_until, due_at) LIMIT 1)
        UNION ALL
        SELECT lane.*, place + 1 FROM walk_on CROSS JOIN LATERAL (
            SELECT organization_id, kind, coalesce(leased_until, due_at) FROM work
            WHERE (organization_id, kind) > (walk_on.organization_id, walk_on.kind)
                AND organization_id < %(start)s::uuid
            ORDER BY organization_id, kind, coalesce(leased_until, due_at) LIMIT 1
        ) AS lane
        WHERE place < %(lanes)s::int
    ), running AS MATERIALIZED (
        SELECT organization_id, count(*) AS pieces FROM work
        WHERE lease_token IS NOT NULL AND leased_until > (SELECT postroom_now()) GROUP BY organization_id
    ), lanes AS MATERIALIZED (
        SELECT organization_id, kind, coalesce(pieces, 0) AS pieces FROM (
            SELECT organization_id, kind FROM head
            UNION
            SELECT organization_id, kind FROM (TABLE walk UNION ALL TABLE walk_on) AS walked
            WHERE claimable_at <= (SELECT postroom_now())
        ) AS due LEFT JOIN running USING (organization_id)
        WHERE kind = ANY(%(kinds)s)
        ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY random()) + coalesce(pieces, 0),
            random()
        LIMIT %(batch)s::int
    ), due AS MATERIALIZED (
        SELECT row.id, lanes.organization_id, pieces,
            row_number() OVER (PARTITION BY lanes.organization_id, lanes.kind ORDER BY claimable_at) AS place
        FROM lanes CROSS JOIN LATERAL (
            SELECT id, coalesce(leased_until, due_at) AS claimable_at FROM work
            WHERE organization_id = lanes.organization_id AND kind = lanes.kind
              AND coalesce(leased_until, due_at) <= (SELECT postroom_now())
            ORDER BY coalesce(leased_until, due_at)
            LIMIT (SELECT ceil(%(batch)s::float8 / count(*))::int FROM lanes)
            FOR UPDATE SKIP LOCKED
        ) AS row
    ), picked AS MATERIALIZED (
        SELECT id FROM due
        ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY place, random()) + pieces, random()
        LIMIT %(batch)s::int
    ), claimed AS (
        UPDATE work SET
            lease_token = %(token)s,
            leased_until = postroom_now() + %(lease)s * interval '1 second',
            attempts = CASE WHEN lease_token IS NULL THEN attempts + 1 ELSE attempts END,
            lost = CASE WHEN lease_token IS NULL THEN lost ELSE lost + 1 END
        FROM picked WHERE work.id = picked.id
        RETURNING work.id, organization_id, kind, subject, attempts, generation, lease_token, trace, lost
    ), next AS (
        SELECT coalesce(leased_until, due_at) AS claimable_at FROM work
        WHERE coalesce(leased_until, due_at) > (SELECT postroom_now()) AND NOT EXISTS (SELECT FROM claimed)
        ORDER BY coalesce(leased_until, due_at) LIMIT 1
    )
    SELECT *, NULL::float8 FROM claimed
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        extract(epoch FROM claimable_at - postroom_now())::float8 FROM next
"""


async def claim(
    connection: Connection, kinds: Sequence[str], *, batch: int, lease_seconds: float
) -> ClaimResult:
    """Lease up to `batch` due rows: organizations take turns, their kinds take turns, then the oldest first.

    What an organization already has under way counts as turns it took. A lane is one kind of one
    organization. Where little is due, the oldest rows name all lanes there are; where much is due, the lanes
    are walked by the index, one probe each, in a circle, so that a long backlog cannot hide another's single
    row.
    """
    cursor = await connection.execute(
        _CLAIM, claim_parameters(kinds, batch=batch, lease_seconds=lease_seconds)
    )
    rows = await cursor.fetchall()
    if rows and rows[0][0] is None:
        return ClaimResult([], rows[0][9])
    return ClaimResult([Lease(*row[:9]) for row in rows])


def claim_parameters(kinds: Sequence[str], *, batch: int, lease_seconds: float) -> dict[str, object]:
    return {
        "batch": batch,
        "head": max(HEAD_ROWS, 4 * batch),
        "lanes": max(MAX_WALKED_LANES, 4 * batch),
        "start": uuid4(),
        "kinds": list(kinds),
        "token": uuid4(),
        "lease": lease_seconds,
    }


async def extend(connection: Connection, leases: Sequence[Lease], *, lease_seconds: float) -> ExtensionResult:
    """Prolong what is still held. Nobody waits here: one row that is locked would hold up all the others."""
    cursor = await connection.execute(
        """
        WITH given AS (
            SELECT * FROM unnest(%(ids)b::int8[], %(tokens)b::uuid[]) AS given (id, token)
        ), free AS MATERIALIZED (
            SELECT work.id FROM work JOIN given
                ON work.id = given.id AND lease_token = token AND leased_until > postroom_now()
            FOR UPDATE OF work SKIP LOCKED
        ), prolonged AS (
            UPDATE work SET leased_until = postroom_now() + %(lease)b * interval '1 second'
            FROM free WHERE work.id = free.id
        )
        SELECT work.id, work.id IN (SELECT id FROM free) FROM work JOIN given
            ON work.id = given.id AND lease_token = token AND leased_until > postroom_now()
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
    """A transaction of the lease's organization that commits only while the lease is held.

    The row stays locked until the commit, so nobody can claim it in between, however long the commit takes.
    """
    with traces.span("commit"):
        async with database.transaction(lease.organization) as connection:
            await _require_lease(connection, lease)
            yield connection


async def _require_lease(connection: Connection, lease: Lease) -> None:
    cursor = await connection.execute(
        """
        SELECT 1 FROM work WHERE id = %s AND lease_token = %s AND leased_until > postroom_now() FOR UPDATE
        """,
        [lease.id, lease.token],
    )
    if await cursor.fetchone() is None:
        raise LeaseLost("the lease ended before its work was committed")


async def record_progress(connection: Connection, lease: Lease) -> None:
    """A part of the work is committed with this: what was lost before was not lost because of the work."""
    if lease.lost:
        await connection.execute(
            "UPDATE work SET lost = 0 WHERE id = %s AND lease_token = %s", [lease.id, lease.token]
        )


async def block_commits(connection: Connection, kind: str, subject: str) -> None:
    """Let nobody commit a step of this work until this transaction ends."""
    await connection.execute("SELECT FROM work WHERE kind = %s AND subject = %s FOR UPDATE", [kind, subject])


async def block_commits_of_kind(connection: Connection, kind: str) -> None:
    """The same for all work of this kind in the organization."""
    await connection.execute("SELECT FROM work WHERE kind = %s ORDER BY id FOR UPDATE", [kind])


_FINISH = """
    WITH held AS MATERIALIZED (
        SELECT work.id, ended.again_after, work.generation > ended.generation AS woken
        FROM unnest(%b::int8[], %b::uuid[], %b::int8[], %b::float8[])
            AS ended (id, token, generation, again_after)
        JOIN work ON work.id = ended.id AND lease_token = ended.token AND leased_until > postroom_now()
        ORDER BY work.id FOR UPDATE OF work
    ), gone AS (
        DELETE FROM work USING held WHERE work.id = held.id AND again_after IS NULL AND NOT woken
    ), kept AS (
        UPDATE work SET
            due_at = postroom_now() + CASE WHEN woken THEN 0 ELSE again_after END * interval '1 second',
            lease_token = NULL, leased_until = NULL, attempts = 0, lost = 0, last_error = NULL,
            trace = CASE WHEN woken THEN trace END
        FROM held WHERE work.id = held.id AND (again_after IS NOT NULL OR woken)
    )
    SELECT id, pg_notify('postroom_work', '') FROM held WHERE woken
    UNION ALL
    SELECT id, NULL FROM held WHERE NOT woken
"""


async def finish(connection: Connection, finishes: Sequence[FinishedWork]) -> set[int]:
    """End leases well. A row woken meanwhile is due again at once; the ids that come back were still held.

    Rows are locked first, in order, so that the decision is taken on what a concurrent wake-up left there.
    """
    cursor = await connection.execute(
        _FINISH,
        [
            [each.lease.id for each in finishes],
            [each.lease.token for each in finishes],
            [each.lease.generation for each in finishes],
            [each.again_after for each in finishes],
        ],
    )
    return {row[0] for row in await cursor.fetchall()}


async def retry(
    connection: Connection, lease: Lease, *, delay: float, error: str, counts: bool = True
) -> None:
    """The attempt failed; it is due again after a delay. One that does not count starts the count anew.

    An error without an attempt that counts is how `resume_waiting` knows what waits for somebody to act.
    """
    await connection.execute(
        """
        UPDATE work SET due_at = postroom_now() + %s * interval '1 second', last_error = %s,
            attempts = CASE WHEN %s THEN attempts ELSE 0 END, lost = 0,
            lease_token = NULL, leased_until = NULL
        WHERE id = %s AND lease_token = %s
        """,
        [delay, error, counts, lease.id, lease.token],
    )


async def park(connection: Connection, lease: Lease, *, error: str) -> None:
    """The attempt failed for good; a person decides."""
    await connection.execute(
        """
        UPDATE work SET due_at = NULL, last_error = %s, lease_token = NULL, leased_until = NULL
        WHERE id = %s AND lease_token = %s
        """,
        [error, lease.id, lease.token],
    )


async def release(connection: Connection, leases: Sequence[Lease]) -> None:
    """The worker stops before the work was done: due as before, and the attempt does not count."""
    await connection.execute(
        """
        UPDATE work SET lease_token = NULL, leased_until = NULL, attempts = attempts - 1
        FROM unnest(%b::int8[], %b::uuid[]) AS held (id, token)
        WHERE work.id = held.id AND lease_token = held.token
        RETURNING pg_notify('postroom_work', '')
        """,
        [[lease.id for lease in leases], [lease.token for lease in leases]],
    )


async def list_parked(connection: Connection) -> list[ParkedWork]:
    """What waits for a person, over all organizations that the connection sees."""
    cursor = await connection.execute(
        """
        SELECT organization_id, kind, subject, attempts + lost, last_error FROM work
        WHERE due_at IS NULL AND lease_token IS NULL ORDER BY kind, subject
        """
    )
    return [ParkedWork(*row) for row in await cursor.fetchall()]


async def unpark(connection: Connection, kind: str, subject: str | None = None) -> int:
    """A person asks for another round of attempts, of one piece of work or of the whole kind."""
    cursor = await connection.execute(
        """
        UPDATE work SET due_at = postroom_now(), attempts = 0, lost = 0, last_error = NULL,
            generation = generation + 1
        WHERE kind = %(kind)s AND (%(subject)s::text IS NULL OR subject = %(subject)s)
            AND due_at IS NULL AND lease_token IS NULL
        RETURNING pg_notify('postroom_work', '')
        """,
        {"kind": kind, "subject": subject},
    )
    return len(await cursor.fetchall())


async def restart(connection: Connection, wakes: Sequence[WorkRequest]) -> None:
    """Like `wake`, when what failed is put right: parked rows and backoffs begin anew, at once."""
    await connection.execute(
        """
        UPDATE work SET due_at = postroom_now(), attempts = 0, lost = 0, last_error = NULL
        FROM unnest(%b::text[], %b::text[]) AS asked (kind, subject)
        WHERE work.kind = asked.kind AND work.subject = asked.subject AND lease_token IS NULL
        """,
        [[each.kind for each in wakes], [each.subject for each in wakes]],
    )
    await enqueue(connection, wakes)


async def resume_waiting_for_operator(connection: Connection) -> int:
    """Somebody has acted: what waits for that, wherever the connection reaches, is tried at once."""
    cursor = await connection.execute(
        """
        UPDATE work SET due_at = postroom_now()
        WHERE last_error IS NOT NULL AND attempts = 0 AND lease_token IS NULL AND due_at > postroom_now()
        RETURNING pg_notify('postroom_work', '')
        """
    )
    return len(await cursor.fetchall())


async def delete_by_subject(connection: Connection, subject: str) -> None:
    """Nothing is to be done for this any more. A step under way loses its lease and commits nothing."""
    await connection.execute("DELETE FROM work WHERE subject = %s", [subject])
