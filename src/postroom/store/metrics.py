"""The query of the metrics endpoint: counts, quota use and latency over all organizations.

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
    cursor = await engine.execute(
        "SELECT * FROM metrics() UNION ALL SELECT * FROM quota_and_latency_metrics()"
        " UNION ALL SELECT * FROM health_metrics()"
    )
    return [MetricSample(*row) for row in await cursor.fetchall()]
