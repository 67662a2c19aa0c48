"""Read all rows of a database, and state what an upgrade may change.

Names, work that it enqueues, and the copies of documents that it removes.
"""

from collections.abc import Mapping
from typing import Any

from psycopg.rows import dict_row

from postroom.store.connection import Connection

# Tables, columns and work kinds that a migration renamed.
TABLES = {
    "blob_place": "blob_location",
    "doomed_blobs": "blob_removals",
    "forgotten_people": "purged_people",
    "listed": "listed_messages",
    "quota_uses": "quota_usage",
    "record_marks": "record_identifiers",
    "shared_ids": "foreign_message_ids",
}
COLUMNS = {
    ("blob_place", "place"): "location",
    ("blob_place", "known_from"): "set_at",
    ("doomed_blobs", "doomed_at"): "marked_at",
    ("forgotten_people", "forgotten_at"): "purged_at",
    ("record_marks", "mark"): "identifier_sha256",
    ("subscriptions", "reauthorization_told_at"): "reauthorization_requested_at",
    ("subscriptions", "removal_told_at"): "removal_reported_at",
    ("watched_files", "taken_at"): "imported_at",
    ("watched_files", "refused"): "rejection",
    ("work", "woken_at"): "enqueued_at",
    ("work", "lost"): "lost_leases",
    ("work", "carried_until"): "dispatched_until",
}
# Columns that a migration dropped.
DROPPED = {
    ("members", "failed_sign_ins"),
    ("members", "locked_until"),
    ("records", "identifiers_pending"),
    ("records", "issuer_pending"),
}
KINDS = {
    "collect": "collect_garbage",
    "lower": "apply_policy",
    "retain": "apply_retention",
    "document": "process_document",
    "share": "share_state",
    "watch": "watch_folder",
}
# Work that a migration enqueues.
ADDED_KINDS = {"index_file_names"}
# Earlier versions made a document in each pipeline. The first of these states is kept.
STATES = ["completed", "needs_review", "processing", "queued", "failed", "skipped"]

Row = Mapping[str, Any]


async def read_all_rows(connection: Connection) -> dict[str, list[Row]]:
    """The rows of every table of Postroom, except the list of migrations."""
    cursor = await connection.execute(
        """
        SELECT relname FROM pg_class
        WHERE relnamespace = 'postroom'::regnamespace AND relkind = 'r' AND relname <> 'schema_migrations'
        """
    )
    return {table: await _read_rows(connection, table) for (table,) in await cursor.fetchall()}


async def _read_rows(connection: Connection, table: str) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(f'SELECT * FROM postroom."{table}"'.encode())
        return await cursor.fetchall()


def assert_kept(before: Mapping[str, list[Row]], after: Mapping[str, list[Row]]) -> None:
    """Each row from before is there once, with all its values, and no other row is there."""
    for table, rows in _merge_copies(before).items():
        expected = [_rename(table, row) for row in rows]
        columns = expected[0].keys() if expected else ()
        found = [
            {column: row[column] for column in columns}
            for row in after[TABLES.get(table, table)]
            if row.get("kind") not in ADDED_KINDS
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr), table


def _merge_copies(before: Mapping[str, list[Row]]) -> Mapping[str, list[Row]]:
    """The rows with one document per content, which has the arrivals of all copies without a record."""
    kept: dict[object, object] = {}
    removed: dict[object, object] = {}
    for row in sorted(
        before["documents"], key=lambda row: (STATES.index(row["state"]), row["created_at"], row["id"])
    ):
        first = kept.setdefault((row["organization_id"], row["sha256"]), row["id"])
        if first != row["id"] and row["state"] != "completed":
            removed[row["id"]] = first
    after = dict(before)
    after["documents"] = [row for row in before["documents"] if row["id"] not in removed]
    for table in ("transcripts", "extractions", "reviews"):
        after[table] = [row for row in before[table] if row["document_id"] not in removed]
    arrivals = sorted(before["arrivals"], key=lambda row: (row["document_id"] in removed, row["id"]))
    merged: dict[object, Row] = {}
    for row in arrivals:
        document = removed.get(row["document_id"], row["document_id"])
        file = (document, row["message_id"], row["part"]) if row["message_id"] else row["id"]
        merged.setdefault(file, {**row, "document_id": document})
    after["arrivals"] = list(merged.values())
    return after


def _rename(table: str, row: Row) -> Row:
    """The row as the current schema should show it."""
    renamed = {
        COLUMNS.get((table, column), column): value
        for column, value in row.items()
        if (table, column) not in DROPPED
    }
    if table in {"work", "backlogs"} and isinstance(kind := renamed["kind"], str):
        renamed["kind"] = KINDS.get(kind, kind)
    return renamed
