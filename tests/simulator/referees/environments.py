"""Installs third-party programs for the referee tests, each in a cached environment of its own.

Every environment is locked by hashes in `locks`. The cache is `$POSTROOM_REFEREES`, or
`~/.cache/postroom-referees`. Where the package registry is not reachable, tests of a program that is not
cached are skipped.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest

LOCKS = Path(__file__).parent / "locks"
CACHE = Path(os.environ.get("POSTROOM_REFEREES") or Path.home() / ".cache/postroom-referees")
INSTALL_SECONDS = 1800


def python_environment(name: str) -> Path:
    """Return the directory of the Python programs of an environment, installed on first use."""
    lock = LOCKS / f"{name}.txt"
    with _installing(name, [lock]) as (place, is_new):
        if is_new:
            _run([sys.executable, "-m", "venv", "--clear", str(place)], place.parent)
            pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
            install = [*pip, "install", "--quiet", "--require-hashes", "--requirement", str(lock)]
            _install(name, install, [*pip, "download", "--quiet", "--no-deps", "pip"], place)
    return place / "bin"


def node_environment(name: str) -> Path:
    """Return the directory with the `node_modules` of an environment, installed on first use."""
    files = [LOCKS / name / "package.json", LOCKS / name / "package-lock.json"]
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    with _installing(name, files) as (place, is_new):
        if is_new:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            for file in files:
                shutil.copy(file, place)
            _install(
                name,
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                ["npm", "view", "npm", "name"],
                place,
            )
    return place


@contextmanager
def _installing(name: str, locks: Iterable[Path]) -> Generator[tuple[Path, bool]]:
    """Lock the place of an environment; say whether it has to be installed, for the first time or again."""
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks) + sys.version.encode()).hexdigest()
    place = CACHE / f"{name}-{digest[:12]}"
    complete = place / ".complete"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_new = not complete.exists()
        yield place, is_new
        if is_new:
            complete.touch()


def _install(name: str, command: list[str], probe: list[str], place: Path) -> None:
    """Install, or skip the test if it failed because no registry is reachable."""
    ended = _run(command, place, check=False)
    if ended.returncode == 0:
        return
    if _run(probe, place, check=False).returncode:
        pytest.skip(f"cannot install {name}: the package registry is not reachable")
    pytest.fail(f"cannot install {name}:\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}")


def _run(command: list[str], place: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=place, check=check, capture_output=True, text=True, timeout=INSTALL_SECONDS
    )
