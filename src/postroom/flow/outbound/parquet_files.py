"""Parquet files of an export: a directory per table, a file per range of feed positions.

A file is written under a temporary name, synced to disk and renamed to its range. So a file with its final
name is complete and never changes, and the newest file of `events` is all the state there is. Requires the
extra `parquet`.
"""

import fcntl
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from postroom.blobs.disk import fsync_path
from postroom.errors import OperatorError

arrow: Final[Any] = import_module("pyarrow")
parquet: Final[Any] = import_module("pyarrow.parquet")

EVENTS: Final = "events"
_NAME: Final = re.compile(r"(\d{12,})-(\d{12,})\.parquet")
_TEMPORARY: Final = ".part"  # of hidden files, which readers of a whole directory ignore
_LOCK: Final = ".lock"

WriteRows = Callable[[Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True, slots=True, order=True)
class PositionRange:
    """The positions that a file covers. A range that starts at 0 holds everything that was stored."""

    first: int
    last: int

    @property
    def is_initial(self) -> bool:
        return self.first == 0

    @property
    def file_name(self) -> str:
        return f"{self.first:012}-{self.last:012}.parquet"


class ExportDirectory:
    """The files of one export. Use it within `open_directory`, which lets one process write at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_newest(self) -> PositionRange | None:
        """The newest range. Its file of `events` is complete; files of other tables may be missing."""
        names = (_NAME.fullmatch(path.name) for path in (self._root / EVENTS).glob("*.parquet"))
        return max((PositionRange(int(name[1]), int(name[2])) for name in names if name), default=None)

    def has_file(self, table: str, positions: PositionRange) -> bool:
        return self._path(table, positions).exists()

    @contextmanager
    def write_file(self, table: str, positions: PositionRange, schema: Any) -> Generator[WriteRows]:
        """Write a file in parts. It gets its name at the end; without rows, only in an initial range."""
        path = self._path(table, positions)
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f".{path.stem}{_TEMPORARY}")
        is_empty = True

        def write_rows(rows: Sequence[Mapping[str, Any]]) -> None:
            nonlocal is_empty
            if rows:
                is_empty = False
                writer.write_table(arrow.Table.from_pylist(rows, schema))

        try:
            with temporary.open("wb") as file:
                with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
                    yield write_rows
                file.flush()
                os.fsync(file.fileno())
            if not is_empty or positions.is_initial:
                temporary.rename(path)
                fsync_path(path.parent)
                fsync_path(self._root)
        finally:
            temporary.unlink(missing_ok=True)

    def read_events(self, positions: PositionRange) -> Iterator[dict[str, Any]]:
        """The events of a range, in order."""
        with parquet.ParquetFile(self._path(EVENTS, positions)) as file:
            for batch in file.iter_batches(batch_size=1000):
                yield from batch.to_pylist()

    def read_last_event(self, positions: PositionRange) -> list[dict[str, Any]]:
        """The last event of a range; none if it has no events."""
        with parquet.ParquetFile(self._path(EVENTS, positions)) as file:
            groups = file.num_row_groups
            return file.read_row_group(groups - 1).to_pylist()[-1:] if groups else []

    def read_metadata(self, positions: PositionRange) -> Mapping[bytes, bytes]:
        """The metadata that the schema of a range's events carries."""
        return parquet.read_schema(self._path(EVENTS, positions)).metadata

    def _path(self, table: str, positions: PositionRange) -> Path:
        return self._root / table / positions.file_name


@contextmanager
def open_directory(root: Path) -> Generator[ExportDirectory]:
    """Create the directory if it is missing, lock it, and remove what a killed process left."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (root / _LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(
                f"Another process is exporting to {root}. Stop it first, or choose another directory."
            ) from None
        for leftover in root.glob(f"*/.*{_TEMPORARY}"):
            leftover.unlink()
        yield ExportDirectory(root)
