"""The key file: created once, owner-only, replaced atomically, and seen by every process at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from postroom.errors import OperatorError
from postroom.model import Secret
from postroom.vault import KeyFile, Sealer
from postroom.vault import keys as keys_module

SOURCES = Path(__file__).parents[2] / "src"
FIRST = "import sys; from pathlib import Path; from postroom.vault import KeyFile; sys.stdin.readline(); "
PRINT = "print(KeyFile(Path(sys.argv[1])).first().id)"
ADD = "print(KeyFile(Path(sys.argv[1])).add().id)"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "deep" / "home"


def at_once(count, program, home):
    """So many processes, all ready before any begins."""
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", FIRST + program, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(SOURCES)},
        )
        for _ in range(count)
    ]
    for each in started:
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = [each.communicate(timeout=120)[0].strip() for each in started]
    assert [each.returncode for each in started] == [0] * count
    return answers


def test_ten_concurrent_processes_create_one_key_and_all_use_it(home):
    assert len(set(at_once(10, PRINT, home))) == 1
    assert len(KeyFile(home).list_all()) == 1


def test_keys_added_by_ten_concurrent_processes_are_all_stored(home):
    added = at_once(10, ADD, home)
    assert sorted(key.id for key in KeyFile(home).list_all()) == sorted(added)


def test_the_file_is_owner_only_and_nothing_else_is_left_beside_it(home):
    KeyFile(home).first()
    assert (home / "vault.keys").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in home.iterdir()) == ["vault.keys", "vault.keys.lock"]


def test_listing_keys_creates_no_file(home):
    assert KeyFile(home).list_all() == ()
    assert KeyFile(home).find("x") is None
    assert not home.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_file_accessible_to_others_is_rejected_with_the_remedy(home, mode):
    KeyFile(home).first()
    (home / "vault.keys").chmod(mode)
    with pytest.raises(OperatorError, match=r"chmod 600 .*vault\.keys"):
        KeyFile(home).first()


@pytest.mark.parametrize("text", ["", "x", "a:AAAA\n", "a:!!!!\n", "\n\n"])
def test_a_damaged_file_is_rejected_and_left_unchanged(home, text):
    home.mkdir(parents=True)
    path = home / "vault.keys"
    path.write_text(text)
    path.chmod(0o600)
    for act in (KeyFile(home).first, KeyFile(home).add):
        with pytest.raises(OperatorError, match="Restore it from a backup"):
            act()
    assert path.read_text() == text


def test_a_directory_in_place_of_the_file_is_rejected(home):
    (home / "vault.keys").mkdir(parents=True)
    with pytest.raises(OperatorError, match=r"vault\.keys"):
        KeyFile(home).first()


def test_a_home_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="POSTROOM_HOME"):
        KeyFile(tmp_path / "file").first()


def test_a_key_added_by_another_process_seals_and_opens_here_at_once(home):
    here, there = Sealer(KeyFile(home)), Sealer(KeyFile(home))
    before = here.seal("x", Secret("one"))
    added = there.keys.add()
    after = there.seal("x", Secret("two"))
    assert after.key_id == added.id != before.key_id
    assert here.open("x", after) == Secret("two")
    assert here.seal("x", Secret("three")).key_id == added.id
    assert there.open("x", before) == Secret("one")


def test_a_new_key_is_found_even_when_the_file_looks_unchanged(home):
    """As on a network's file system whose attributes lag."""
    here = KeyFile(home)
    here.first()
    added = KeyFile(home).add()
    here._stamp = keys_module._stamp(here.path.stat())
    assert here.find(added.id) == added


def test_nothing_is_sealed_with_keys_that_were_deleted_from_the_disk(home):
    sealer = Sealer(KeyFile(home))
    sealed = sealer.seal("x", Secret("one"))
    (home / "vault.keys").unlink()
    with pytest.raises(OperatorError, match=r"missing.*backup"):
        sealer.seal("x", Secret("two"))
    assert sealer.open("x", sealed) == Secret("one")
    assert not (home / "vault.keys").exists()


def test_a_removed_key_is_gone_and_the_one_that_seals_cannot_be_removed(home):
    keys = KeyFile(home)
    old, new = keys.first(), keys.add()
    keys.remove([old.id, new.id])
    assert [key.id for key in KeyFile(home).list_all()] == [new.id]
