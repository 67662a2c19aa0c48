"""The newest known head of each organization's ledger, in the file `ledger.heads` of the home directory.

A ledger that no longer contains its kept head was truncated, rewritten or replaced by an older backup. A line
holds an organization's id and a head, `NUMBER:DIGEST`. A kept head is only ever replaced by a later one.
Each head can also be published: appended, with its time, to a file that is best on another machine. It is
published first, so a kept head is never one that the published file lacks.
"""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from postroom.errors import OperatorError
from postroom.vault import private_files

HEADS: Final = "ledger.heads"
_LINE: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,18}:[0-9a-f]{64})")
_BLOCK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class LedgerHeads:
    """The heads kept in one home directory. `published`: the file to which they are appended too."""

    home: Path
    published: Path | None = None

    @property
    def path(self) -> Path:
        return self.home / HEADS

    def load(self) -> dict[UUID, str]:
        """The kept heads. An operator may have removed some lines or all."""
        with self._disk():
            try:
                text, _ = private_files.read(self.path)
            except FileNotFoundError:
                return {}
        found = [_LINE.fullmatch(line) for line in text.splitlines()]
        if None in found:
            raise OperatorError(f"{self.path} is damaged. Restore it from a backup.")
        return {UUID(match[1]): match[2] for match in found if match}

    def list_newest(self, organization: UUID) -> list[str]:
        """The heads that the next head must extend: the kept one and the last published one."""
        newest = {self.load().get(organization), self._find_published(organization)}
        return sorted(head for head in newest if head is not None)

    def list_known(self, organization: UUID) -> Iterator[str]:
        """The heads that an organization's ledger must contain: the kept one and all published ones."""
        kept = self.load().get(organization)
        if kept is not None:
            yield kept
        yield from (head for each, head in self._read_published() if each == organization)

    def list_organizations(self) -> set[UUID]:
        """The organizations with a kept or published head."""
        return {*self.load(), *(organization for organization, _ in self._read_published())}

    def keep(self, organization: UUID, head: str) -> None:
        """Publish and keep a head, unless a later one is. The caller found `list_newest` in the ledger."""
        with self._disk(), private_files.lock(self.path):
            heads = self.load()
            self._publish(organization, head)
            if _number(head) > _number(heads.get(organization)):
                heads[organization] = head
                lines = [f"{each} {kept}\n" for each, kept in sorted(heads.items())]
                private_files.replace(self.path, "".join(lines))

    def _publish(self, organization: UUID, head: str) -> None:
        if self.published is None or _number(head) <= _number(self._find_published(organization)):
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._published_disk(self.published):
            descriptor = os.open(self.published, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, f"{now} {organization} {head}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _find_published(self, organization: UUID) -> str | None:
        return next((head for each, head in self._read_published() if each == organization), None)

    def _read_published(self) -> Iterator[tuple[UUID, str]]:
        """All published heads with their organizations, newest first."""
        if self.published is None:
            return
        with self._published_disk(self.published):
            for line in _read_backwards(self.published):
                match = _LINE.fullmatch(line.partition(" ")[2])
                if match:
                    yield UUID(match[1]), match[2]

    def _disk(self) -> AbstractContextManager[None]:
        remedy = "Give this user access, or set POSTROOM_HOME to another directory."
        return private_files.disk_errors("The kept heads of the ledger", self.path, remedy)

    def _published_disk(self, path: Path) -> AbstractContextManager[None]:
        remedy = "Let this user read it and append to it, or set POSTROOM_LEDGER_HEADS_FILE to another file."
        return private_files.disk_errors("The published heads of the ledger", path, remedy)


def _number(head: str | None) -> int:
    return int(head.partition(":")[0]) if head else 0


def _read_backwards(path: Path) -> Iterator[str]:
    """The lines of a file, the last one first; none if there is no file. It may be long."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        start, rest = file.seek(0, os.SEEK_END), b""
        while start > 0:
            end, start = start, max(start - _BLOCK_BYTES, 0)
            file.seek(start)
            rest, *lines = (file.read(end - start) + rest).split(b"\n")
            for line in reversed(lines):
                yield line.decode(errors="replace")
        yield rest.decode(errors="replace")
