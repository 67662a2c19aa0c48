"""The newest known head of each organization's ledger, in the file `ledger.heads` of the home directory.

A ledger that no longer contains its kept head was truncated, rewritten or replaced by an older backup. A line
holds an organization's id and a head, `NUMBER:DIGEST`. A kept head is only ever replaced by a later one.
Each head can also be published: appended, with its time, to a file that is best on another machine.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from postroom.errors import OperatorError
from postroom.vault import private_files

HEADS: Final = "ledger.heads"
_LINE: Final = re.compile(r"([0-9a-f-]{36}) ([0-9]{1,18}:[0-9a-f]{64})")


@dataclass(frozen=True)
class LedgerHeads:
    """The heads kept in one home directory. `published`: the file to which they are appended too."""

    home: Path
    published: Path | None = None

    @property
    def path(self) -> Path:
        return self.home / HEADS

    def load(self) -> dict[UUID, str]:
        with private_files.disk_errors("The ledger's heads", self.path, "POSTROOM_HOME"):
            try:
                text, _ = private_files.read(self.path)
            except FileNotFoundError:
                return {}
        found = [_LINE.fullmatch(line) for line in text.splitlines()]
        heads = {UUID(match[1]): match[2] for match in found if match}
        if None in found or not heads:
            raise OperatorError(f"{self.path} is damaged. Restore it from a backup.")
        return heads

    def list_known(self, organization: UUID) -> list[str]:
        """The heads that an organization's ledger must contain: the kept one and the last published one."""
        found = {self.load().get(organization), self._find_published(organization)}
        return sorted(head for head in found if head is not None)

    def keep(self, organization: UUID, head: str) -> None:
        """Keep a head, unless a later one is kept. The caller has found the kept head in the ledger."""
        with (
            private_files.disk_errors("The ledger's heads", self.path, "POSTROOM_HOME"),
            private_files.lock(self.path),
        ):
            heads = self.load()
            if _number(head) > _number(heads.get(organization, "0:")):
                heads[organization] = head
                lines = [f"{each} {kept}\n" for each, kept in sorted(heads.items())]
                private_files.replace(self.path, "".join(lines))
                self._publish(organization, head)

    def _publish(self, organization: UUID, head: str) -> None:
        if self.published is None:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with private_files.disk_errors("The published heads", self.published, "POSTROOM_LEDGER_HEADS_FILE"):
            descriptor = os.open(self.published, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, f"{now} {organization} {head}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _find_published(self, organization: UUID) -> str | None:
        """The last published head of an organization. The file may be long, so it is read line by line."""
        if self.published is None:
            return None
        last = None
        with private_files.disk_errors("The published heads", self.published, "POSTROOM_LEDGER_HEADS_FILE"):
            try:
                with self.published.open(encoding="utf-8", errors="replace") as lines:
                    for line in lines:
                        match = _LINE.fullmatch(line.partition(" ")[2].rstrip("\n"))
                        if match and match[1] == str(organization):
                            last = match[2]
            except FileNotFoundError:
                return None
        return last


def _number(head: str) -> int:
    return int(head.partition(":")[0])
