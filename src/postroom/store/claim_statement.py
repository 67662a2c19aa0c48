"""The statement that claims due work: which organization, kind and row is next. `work.claim` runs it.

Lanes are found first: along the index by time, or in a walk along the index by lane. They are ranked by turns
already taken and by recent use, then rows are locked, and the first of them get the lease.
"""

from collections.abc import Collection, Sequence
from typing import LiteralString
from uuid import uuid4

from postroom.model import OrganizationId

# A claim reads at most this many due rows to learn which lanes have work. With more, it walks the lanes.
HEAD_ROWS = 500
# A walk visits at most this many lanes, from a random start: every lane has the same chance, and the cost
# of a claim does not grow with the number of lanes.
MAX_WALKED_LANES = 500
# How long the time that an organization's work took counts against its next turn.
USE_WINDOW_SECONDS = 600

# Concurrent claims may choose the same lanes; those that find all rows locked try again after this time.
LOCKED_WAIT_SECONDS = 0.05

# `walk` and `due` write coalesce(leased_until, due_at) as CASE, as the index by lane does. With the
# expression of the index by time, the planner takes that one and reads the whole backlog of one organization
# to find the single row of another.
CLAIM: LiteralString = """
    WITH RECURSIVE head AS MATERIALIZED (
        SELECT organization_id, kind FROM work
        WHERE coalesce(leased_until, due_at) <= (SELECT postroom_now())
        ORDER BY coalesce(leased_until, due_at) LIMIT %(head)s::int
    ), walk AS (
        (SELECT organization_id, kind,
            CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END AS claimable_at, 1 AS place
         FROM work
         WHERE (SELECT count(*) FROM head) = %(head)s::int AND organization_id >= %(start)s::uuid
         ORDER BY organization_id, kind, claimable_at LIMIT 1)
        UNION ALL
        SELECT lane.*, place + 1 FROM walk CROSS JOIN LATERAL (
            SELECT organization_id, kind,
                CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END AS claimable_at
            FROM work
            WHERE (organization_id, kind) > (walk.organization_id, walk.kind)
            ORDER BY organization_id, kind, claimable_at LIMIT 1
        ) AS lane
        WHERE place < %(lanes)s::int
    ), walk_on AS (
        (SELECT organization_id, kind,
            CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END AS claimable_at,
            (SELECT count(*)::int FROM walk) + 1 AS place FROM work
         WHERE (SELECT count(*) FROM head) = %(head)s::int AND organization_id < %(start)s::uuid
            AND (SELECT count(*) FROM walk) < %(lanes)s::int
         ORDER BY organization_id, kind, claimable_at LIMIT 1)
        UNION ALL
        SELECT lane.*, place + 1 FROM walk_on CROSS JOIN LATERAL (
            SELECT organization_id, kind,
                CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END AS claimable_at
            FROM work
            WHERE (organization_id, kind) > (walk_on.organization_id, walk_on.kind)
                AND organization_id < %(start)s::uuid
            ORDER BY organization_id, kind, claimable_at LIMIT 1
        ) AS lane
        WHERE place < %(lanes)s::int
    ), open AS MATERIALIZED (
        SELECT %(batch)s::int - CASE WHEN count(*) > 1 THEN %(reserved)s::int ELSE 0 END AS slots
        FROM (SELECT id FROM organizations LIMIT 2) AS organization
    ), running AS MATERIALIZED (
        SELECT organization_id, count(*) AS pieces FROM work
        WHERE lease_token IS NOT NULL AND leased_until > (SELECT postroom_now()) GROUP BY organization_id
    ), lanes AS MATERIALIZED (
        SELECT * FROM (
            SELECT organization_id, kind, coalesce(pieces, 0) AS pieces, used,
                row_number() OVER (PARTITION BY organization_id ORDER BY random()) AS lane
            FROM (
                SELECT organization_id, kind FROM head
                UNION
                SELECT organization_id, kind FROM (TABLE walk UNION ALL TABLE walk_on) AS walked
                WHERE claimable_at <= (SELECT postroom_now())
            ) AS due LEFT JOIN running USING (organization_id) CROSS JOIN LATERAL (
                SELECT coalesce(sum(run_seconds), 0) AS used FROM resource_uses
                WHERE resource_uses.organization_id = due.organization_id
                    AND period > (SELECT postroom_now()) - %(window)s * interval '1 second'
            ) AS recent
            WHERE kind = ANY(%(kinds)s)
        ) AS numbered
        WHERE (SELECT slots FROM open) > 0 OR (lane = 1 AND organization_id <> ALL(%(busy)s::uuid[]))
        ORDER BY lane + pieces, used, random() LIMIT %(batch)s::int
    ), due AS MATERIALIZED (
        SELECT row.id, lanes.organization_id, pieces, used,
            row_number() OVER (PARTITION BY lanes.organization_id, lanes.kind ORDER BY claimable_at) AS place
        FROM lanes CROSS JOIN LATERAL (
            SELECT id, CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END AS claimable_at
            FROM work
            WHERE organization_id = lanes.organization_id AND kind = lanes.kind
                AND CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END
                    <= (SELECT postroom_now())
            ORDER BY claimable_at
            LIMIT (SELECT greatest(ceil(max(slots)::float8 / count(*)), 1)::int FROM lanes, open)
            FOR UPDATE SKIP LOCKED
        ) AS row
    ), picked AS MATERIALIZED (
        SELECT id FROM (
            SELECT *, row_number() OVER (ORDER BY turn + pieces, used, random()) AS position FROM (
                SELECT *, row_number() OVER (PARTITION BY organization_id ORDER BY place, random()) AS turn
                FROM due
            ) AS turns
        ) AS ranked
        WHERE position <= (SELECT slots FROM open)
            OR (turn = 1 AND organization_id <> ALL(%(busy)s::uuid[]))
        ORDER BY position LIMIT %(batch)s::int
    ), claimed AS (
        UPDATE work SET
            state = 'leased', lease_token = %(token)s,
            leased_until = postroom_now() + %(lease)s * interval '1 second',
            attempts = CASE WHEN lease_token IS NULL THEN attempts + 1 ELSE attempts END,
            lost_leases = CASE WHEN lease_token IS NULL THEN lost_leases ELSE lost_leases + 1 END
        FROM picked WHERE work.id = picked.id
        RETURNING work.id, organization_id, kind, subject, attempts, generation, lease_token, trace,
            lost_leases, extract(epoch FROM postroom_now() - due_at)::float8
    ), next AS (
        SELECT coalesce(leased_until, due_at) AS claimable_at FROM work
        WHERE coalesce(leased_until, due_at) > (SELECT postroom_now()) AND NOT EXISTS (SELECT FROM claimed)
        ORDER BY coalesce(leased_until, due_at) LIMIT 1
    )
    SELECT *, NULL::float8 FROM claimed
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, least(
        (SELECT extract(epoch FROM claimable_at - postroom_now())::float8 FROM next),
        (SELECT %(again)s::float8 WHERE EXISTS (SELECT FROM lanes)))
    WHERE NOT EXISTS (SELECT FROM claimed)
"""


def claim_parameters(
    kinds: Sequence[str],
    *,
    batch: int,
    lease_seconds: float,
    reserved: int = 0,
    busy: Collection[OrganizationId] = (),
) -> dict[str, object]:
    return {
        "batch": batch,
        "reserved": reserved,
        "busy": list(busy),
        "window": USE_WINDOW_SECONDS,
        "again": LOCKED_WAIT_SECONDS,
        "head": max(HEAD_ROWS, 4 * batch),
        "lanes": max(MAX_WALKED_LANES, 4 * batch),
        "start": uuid4(),
        "kinds": list(kinds),
        "token": uuid4(),
        "lease": lease_seconds,
    }
