"""The samples of the metrics endpoint: counts, quota use and latency over all organizations.

Needs the engine role. The format and the metrics of a process are in `web.metrics`.
"""

from dataclasses import dataclass

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class MetricSample:
    name: str
    label: str
    second_label: str
    value: float


async def list_samples(engine: Connection) -> list[MetricSample]:
    """The samples, at most about a minute old: the first scrape after that measures them for all."""
    cursor = await engine.execute(
        "SELECT samples, measured_at > postroom_now() - interval '1 minute' FROM metric_snapshot"
    )
    row = await cursor.fetchone()
    if row is None or (not row[1] and await _try_lock(engine)):
        cursor = await engine.execute(_MEASURE)
        row = await cursor.fetchone()
    assert row is not None, "an upsert returns a row"
    return [MetricSample(*sample) for sample in row[0]]


async def _try_lock(engine: Connection) -> bool:
    """Whether no other process is measuring; it ends with the transaction."""
    cursor = await engine.execute("SELECT pg_try_advisory_xact_lock(hashtextextended('postroom metrics', 0))")
    return await cursor.fetchone() == (True,)


_MEASURE = """
    INSERT INTO metric_snapshot (measured_at, samples)
    SELECT postroom_now(), jsonb_agg(jsonb_build_array(name, label, also, value)) FROM (
        SELECT * FROM metrics() UNION ALL SELECT * FROM quota_and_latency_metrics()
        UNION ALL SELECT * FROM health_metrics()
    ) AS sample
    ON CONFLICT (only_row) DO UPDATE SET measured_at = excluded.measured_at, samples = excluded.samples
    RETURNING samples
"""
