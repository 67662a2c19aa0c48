"""The refusals of `postroom export`. What it writes is tested in `scenarios/test_export.py`."""

import fcntl
import sys

import pytest

import databases
from postroom.cli import export
from postroom.errors import OperatorError
from postroom.flow import outbound

OTHER = "00000000-0000-4000-8000-000000000002"


@pytest.fixture
def settings(database_url):
    return databases.login_settings(database_url)


async def test_an_export_refuses_files_that_it_cannot_continue(
    postroom, complaint, settings, owner, tmp_path
):
    assert postroom("export", "lake", **settings).returncode == 0
    named = {**settings, "POSTROOM_ORGANIZATION": OTHER}
    assert complaint(1, "export", "lake", **named) == (
        "The directory has files of another organization. Choose an empty one."
    )
    assert postroom("api-keys", "create", "one", **settings).returncode == 0  # the organization exists
    events = """
        INSERT INTO events (organization_id, kind, entity_type, entity_id)
        SELECT id, 'ledger.sealed', 'ledger', '1' FROM organizations, generate_series(1, 3)
    """
    await owner.execute(events)
    assert "events/000000000001-000000000003.parquet: 3 rows" in postroom("export", "lake", **settings).stderr
    await owner.execute("UPDATE events SET created_at = created_at - interval '1 second' WHERE position = 3")
    assert "restored from an older backup" in complaint(1, "export", "lake", **settings)
    await owner.execute(events)
    await owner.execute("SELECT set_config('postroom.organization', id::text, false) FROM organizations")
    await owner.execute("SELECT number_events(10)")
    await owner.execute("DELETE FROM events WHERE position < 5")
    await owner.execute("UPDATE feeds SET pruned_position = 4")
    assert "The feed no longer has the events after position 3" in complaint(1, "export", "lake", **settings)


async def test_one_process_exports_to_a_directory(complaint, settings, tmp_path):
    (tmp_path / "lake").mkdir()
    with (tmp_path / "lake/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "Another process is exporting to lake" in complaint(1, "export", "lake", **settings)


async def test_an_export_needs_a_directory_that_can_be_written(complaint, settings, tmp_path):
    (tmp_path / "lake").write_text("")
    assert complaint(1, "export", "lake", **settings) == (
        "lake cannot be written: file exists. Correct it, or choose another directory."
    )


def test_parquet_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "postroom.flow.outbound.parquet_files", raising=False)
    monkeypatch.delattr(outbound, "parquet_files", raising=False)
    with pytest.raises(OperatorError, match=r"pip install 'postroom\[parquet\]'"):
        export.load_parquet_files()
