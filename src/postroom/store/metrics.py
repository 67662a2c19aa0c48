"""What metrics read: counts over all organizations, by the engine's role; nothing of what is in them."""

from dataclasses import dataclass

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class MetricSample:
    name: str
    label: str
    also: str
    value: float


async def read_samples(engine: Connection) -> list[MetricSample]:
    cursor = await engine.execute("SELECT * FROM metrics() UNION ALL SELECT * FROM pace_metrics()")
    return [MetricSample(*row) for row in await cursor.fetchall()]
