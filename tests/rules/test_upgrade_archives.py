"""The archives of earlier versions are listed, small, and not far behind the current schema."""

import re
from pathlib import Path

import pytest

from postroom.store.schema_migrations import list_shipped
from rules.source_tree import ROOT, list_tracked

FOLDER = ROOT / "tests/upgrades"
ARCHIVES = [path for path in list_tracked() if path.parent == FOLDER and path.name.endswith(".tar.xz")]
MOST_BYTES = 300_000
MOST_MIGRATIONS_BEHIND = 5


def schema_of(archive: Path) -> int:
    return int(archive.name.split("-")[1])


def test_readme_lists_every_archive_and_recording():
    listed = re.findall(
        r"^\| `((?:schema|conversation)-\S+)`", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(listed) == sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_archive_is_small(archive: Path):
    assert archive.stat().st_size < MOST_BYTES


def test_newest_archive_is_only_a_few_migrations_old():
    newest = max(schema_of(path) for path in ARCHIVES if path.name.startswith("schema-"))
    missing = [migration.version for migration in list_shipped() if migration.version > newest]
    assert len(missing) <= MOST_MIGRATIONS_BEHIND, (
        f"Schemas {missing} have no archive of a filled database. Make one: see tests/upgrades/README.md."
    )
