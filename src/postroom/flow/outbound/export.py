"""Export to Parquet: follow the feed, and write what changed as files named by their positions.

The initial range has everything that is stored. Each later one has the rows that its events name, as they
are when the file is written; a change after that has an event in a later range. The file of `events` is
written first and so fixes the range. A process that is killed after it leaves files of the range
missing, and the next one adds them. Every mail event is in exactly one file: its feed event names its
revision.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from uuid import UUID

from postroom.errors import PermanentError
from postroom.flow.outbound import export_tables
from postroom.flow.outbound.export_tables import EVENT_COLUMNS, ExportTable
from postroom.flow.outbound.parquet_files import EVENTS, ExportDirectory, PositionRange, arrow
from postroom.model import OrganizationId
from postroom.store import feed
from postroom.store.database import Database
from postroom.store.export_rows import ChangedEntities, ExportPage
from postroom.store.feed import FeedBounds, FeedEvent

MAX_EVENTS: Final = 10_000  # in a file
PAGE_ROWS: Final = 5000

ReportFile = Callable[[str, PositionRange, int], None]


@dataclass
class Export:
    """An export of one organization to one directory. `report` gets table, range and rows of each file."""

    database: Database
    organization: OrganizationId
    directory: ExportDirectory
    report: ReportFile
    tables: Sequence[ExportTable] = field(default_factory=export_tables.build_tables)
    _newest: PositionRange | None = None
    _is_complete: bool = False  # all files of the newest range are written

    async def write_available(self) -> None:
        """Complete the newest range, and write the ranges after it up to the end of the feed."""
        if not self._is_complete:
            await self._resume()
        self._is_complete = False  # until the end is reached: after an error, check everything again
        while (positions := await self._find_next()) is not None:
            await self._write_events(positions)
            await self._write_tables(positions)
            self._newest = positions
            if positions.is_initial or positions.last - positions.first + 1 < MAX_EVENTS:
                break
        self._is_complete = True

    async def _resume(self) -> None:
        self._newest = self.directory.find_newest()
        if self._newest is not None:
            await self._require_same_feed(self._newest)
            await self._write_tables(self._newest)

    async def _find_next(self) -> PositionRange | None:
        last = (await self._read_bounds()).last
        if self._newest is None:
            return PositionRange(0, last)
        if last <= self._newest.last:
            return None
        return PositionRange(self._newest.last + 1, min(last, self._newest.last + MAX_EVENTS))

    async def _read_bounds(self) -> FeedBounds:
        async with self.database.transaction(self.organization) as connection:
            while await feed.assign_positions(connection) == feed.BATCH:
                pass
            return await feed.get_bounds(connection)

    async def _require_same_feed(self, newest: PositionRange) -> None:
        """Raise if the directory has files of another organization, or of a feed that was replaced."""
        if self.directory.read_metadata(newest) != self._metadata:
            raise PermanentError("The directory has files of another organization. Choose an empty one.")
        written = [(row["id"], row["created_at"]) for row in self.directory.read_last_event(newest)]
        bounds = await self._read_bounds()
        async with self.database.transaction(self.organization) as connection:
            stored = await feed.list_after(connection, newest.last - 1, 1)
        is_readable = bounds.pruned < newest.last
        if newest.last > bounds.last or (
            is_readable and written != [(event.id, event.created_at) for event in stored]
        ):
            raise PermanentError(
                f"The files end at position {newest.last}, but the database has a different history: it was"
                " restored from an older backup. Export to an empty directory."
            )

    async def _write_events(self, positions: PositionRange) -> None:
        """Write the events. An initial range has those that the feed still has, any other has all of them."""
        start = (await self._read_bounds()).pruned if positions.is_initial else positions.first - 1
        position = start
        with self.directory.write_file(EVENTS, positions, self._build_schema(EVENT_COLUMNS)) as write_rows:
            while position < positions.last:
                async with self.database.transaction(self.organization) as connection:
                    page = await feed.list_after(
                        connection, position, min(PAGE_ROWS, positions.last - position)
                    )
                if not page or (page[0].position != position + 1 and not positions.is_initial):
                    raise PermanentError(
                        f"The feed no longer has the events after position {position}: they are kept for"
                        " POSTROOM_KEEP_EVENTS_DAYS. Export to an empty directory."
                    )
                write_rows([_build_event_row(event) for event in page])
                position = page[-1].position
        self.report(EVENTS, positions, positions.last - start)

    async def _write_tables(self, positions: PositionRange) -> None:
        """Write the files of a range that are missing."""
        changed = None if positions.is_initial else _find_changed(self.directory.read_events(positions))
        for table in self.tables:
            if not self.directory.has_file(table.name, positions):
                await self._write_table(table, positions, changed)

    async def _write_table(
        self, table: ExportTable, positions: PositionRange, changed: ChangedEntities | None
    ) -> None:
        after, count = None, 0
        with self.directory.write_file(
            table.name, positions, self._build_schema(table.columns)
        ) as write_rows:
            while True:
                async with self.database.transaction(self.organization) as connection:
                    page = await table.list_rows(
                        connection, ExportPage(changed, positions.last, after, PAGE_ROWS)
                    )
                write_rows([table.convert(row) | {"position": positions.last} for row in page])
                count += len(page)
                if len(page) < PAGE_ROWS:
                    break
                after = page[-1]["id"]
        if count or positions.is_initial:
            self.report(table.name, positions, count)

    def _build_schema(self, columns: Mapping[str, Any]) -> Any:
        return arrow.schema(columns, metadata=self._metadata)

    @property
    def _metadata(self) -> Mapping[bytes, bytes]:
        return {b"postroom.organization": str(self.organization).encode()}


def _build_event_row(event: FeedEvent) -> dict[str, Any]:
    return asdict(event) | {"data": json.dumps(event.data, ensure_ascii=False)}


def _find_changed(events: Iterable[Mapping[str, Any]]) -> ChangedEntities:
    messages: set[int] = set()
    revisions: set[tuple[int, int]] = set()
    documents: set[UUID] = set()
    records: set[UUID] = set()
    for event in events:
        match event["entity_type"]:
            case "message":
                messages.add(int(event["entity_id"]))
                revision = json.loads(event["data"]).get("revision")
                revisions |= {(int(event["entity_id"]), revision)} if revision else set()
            case "document":
                documents.add(UUID(event["entity_id"]))
            case "record":
                records.add(UUID(event["entity_id"]))
            case _:
                pass
    return ChangedEntities(tuple(messages), tuple(revisions), tuple(documents), tuple(records))
