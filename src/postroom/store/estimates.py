"""How many rows a statement has, as the planner estimates it: counting them would read them all."""

import json
from collections.abc import Mapping
from typing import Any, LiteralString

from postroom.store.database import Connection


async def estimate_rows(connection: Connection, statement: LiteralString, values: Mapping[str, Any]) -> int:
    """The planner's estimate of the rows of a SELECT."""
    cursor = await connection.execute("EXPLAIN (FORMAT JSON) " + statement, values, prepare=False)
    row = await cursor.fetchone()
    assert row is not None, "a plan has a row"
    plan = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return int(plan[0]["Plan"]["Plan Rows"])
