"""Rows for every table of the schema, derived from the catalog, so that new tables are filled too."""

import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from postroom.store.connection import Connection

# Tables that belong to the installation, not to an organization.
SHARED = {
    "schema_migrations",
    "clock_offset",
    "blob_location",
    "figure_steps",
    "metric_snapshot",
    "number_source",
}
# Values for constraints over several columns, which cannot be derived from the catalog.
EXAMPLES: dict[str, dict[str, object]] = {
    "credentials": {"ssm_parameter": "/postroom/example"},
    "ledger": {"mac": bytes(40)},
    "ledger_purges": {"mac": bytes(40)},
    "threads": {"message_count": 1},
}

VALUES = {
    "uuid": uuid4,
    "text": lambda: secrets.token_hex(8),
    "bytea": lambda: secrets.token_bytes(32),
    "integer": lambda: 1,
    "bigint": lambda: 1,
    "numeric": lambda: 1,
    "double precision": lambda: 1.0,
    "boolean": lambda: True,
    "timestamp with time zone": lambda: datetime.now(UTC),
    "interval": lambda: timedelta(minutes=1),
    "jsonb": lambda: Jsonb({}),
    "text[]": list,
    "tsvector": lambda: "",
}


async def organization_tables(connection: Connection) -> list[str]:
    """Every table of the schema except the shared ones."""
    cursor = await connection.execute(
        """
        SELECT relname FROM pg_class
        WHERE relnamespace = 'postroom'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname
        """
    )
    return [name for (name,) in await cursor.fetchall() if name not in SHARED]


def organization_column(table: str) -> str:
    """The column that holds the organization."""
    return "id" if table == "organizations" else "organization_id"


@dataclass
class TableFiller:
    """Inserts one row per table that its role may fill, for one organization.

    `rows` holds the inserted columns, `whole` all.
    """

    connection: Connection
    organization: UUID
    rows: dict[str, dict[str, object]] = field(default_factory=dict)
    whole: dict[str, dict[str, object]] = field(default_factory=dict)

    async def fill(self) -> None:
        self.whole["organizations"] = {"id": self.organization}
        self.rows["organizations"] = {"id": self.organization, "name": "another name"}
        for table in await organization_tables(self.connection):
            if await self._may_insert(table):
                await self._row(table)

    async def _may_insert(self, table: str) -> bool:
        cursor = await self.connection.execute("SELECT has_any_column_privilege(%s, 'INSERT')", [table])
        return await cursor.fetchone() == (True,)

    async def _row(self, table: str) -> dict[str, object]:
        if table not in self.whole:
            values = await self._required(table) | await self._list_examples(table)
            await self._link(table, values)
            async with self.connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(insert_statement(table, values), list(values.values()))
                [self.whole[table]] = await cursor.fetchall()
            self.rows[table] = values
        return self.whole[table]

    async def _list_examples(self, table: str) -> dict[str, object]:
        """The examples for columns that the table has; in an earlier schema it may have fewer."""
        cursor = await self.connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass", [table]
        )
        columns = {row[0] for row in await cursor.fetchall()}
        return {name: value for name, value in EXAMPLES.get(table, {}).items() if name in columns}

    async def _required(self, table: str) -> dict[str, object]:
        cursor = await self.connection.execute(
            """
            SELECT attname, format_type(atttypid, NULL), (
                SELECT pg_get_constraintdef(oid) FROM pg_constraint
                WHERE conrelid = attrelid AND contype = 'c' AND conkey = ARRAY[attnum]
                  AND pg_get_constraintdef(oid) LIKE '%%ARRAY[%%' LIMIT 1)
            FROM pg_attribute
            WHERE attrelid = %s::regclass AND attnum > 0 AND attnotnull AND NOT attisdropped
              AND NOT atthasdef AND attidentity = ''
            """,
            [table],
        )
        return {name: _value(kind, check) for name, kind, check in await cursor.fetchall()}

    async def _link(self, table: str, values: dict[str, object]) -> None:
        """Point required foreign keys to rows of the same organization."""
        cursor = await self.connection.execute(
            """
            SELECT confrelid::regclass::text,
                   array(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS key (number, place)
                         JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place),
                   array(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY AS key (number, place)
                         JOIN pg_attribute ON attrelid = confrelid AND attnum = number ORDER BY place)
            FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'f'
            """,
            [table],
        )
        for target, columns, target_columns in await cursor.fetchall():
            if all(column in values for column in columns):
                parent = await self._row(target)
                values.update({mine: parent[its] for mine, its in zip(columns, target_columns, strict=True)})


def insert_statement(table: str, values: dict[str, object]) -> str:
    places = ", ".join(["%s"] * len(values))
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places}) RETURNING *"


def _value(kind: str, check: str | None) -> object:
    allowed = re.search(r"ARRAY\['([^']+)'", check or "")
    return allowed[1] if allowed else VALUES[kind]()
