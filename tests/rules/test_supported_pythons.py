"""make finds a supported Python by itself, and every distribution names the same versions."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rules.source_tree import ROOT

FIND_PYTHON = ROOT / "scripts/find-python"
SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]
COMPILE = """
import pathlib, sys
for folder in sys.argv[1:]:
    for path in pathlib.Path(folder).rglob("*.py"):
        compile(path.read_bytes(), path, "exec")
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory for programs that is the whole PATH."""
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def add_python(machine: Path, name: str, *, before: str = "") -> None:
    """Add the real interpreter under this name, after running the statements in `before`."""
    (machine / f"{name}-site").mkdir()
    (machine / f"{name}-site/sitecustomize.py").write_text(before)
    add_program(machine, name, f'PYTHONPATH="{machine}/{name}-site" exec "{sys.executable}" "$@"')


def add_program(machine: Path, name: str, script: str) -> None:
    (machine / name).write_text(f"#!/bin/sh\n{script}\n")
    (machine / name).chmod(0o755)


def find(machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", FIND_PYTHON, *arguments],
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_newest_python_is_found(machine: Path):
    for name in ("python3", "python3.11", "python3.13"):
        add_python(machine, name)
    assert find(machine).stdout == f"{machine}/python3.13\n"


def test_python_that_does_not_start_is_passed_over(machine: Path):
    add_program(machine, "python3.14", "echo 'pyenv: python3.14: command not found' >&2; exit 127")
    add_python(machine, "python3")
    assert find(machine).stdout == f"{machine}/python3\n"


def test_python_without_venv_is_passed_over(machine: Path):
    add_python(machine, "python3.13", before="import sys; sys.modules['ensurepip'] = None")
    add_python(machine, "python3.12")
    assert find(machine).stdout == f"{machine}/python3.12\n"


@pytest.mark.parametrize(
    "before, reason",
    [
        ("import sys; sys.version_info = (3, 10, 4)", "python3 is cpython 3.10"),
        ("import sys; sys.version_info = (3, 15, 0)", "python3 is cpython 3.15"),
        ("import sys; sys.implementation.name = 'pypy'", "python3 is pypy"),
        ("import sys; sys.modules['ensurepip'] = None", "apt-get install python3-venv"),
    ],
)
def test_error_explains_why_the_python_that_is_there_does_not_do(machine: Path, before: str, reason: str):
    add_python(machine, "python3", before=before)
    result = find(machine)
    assert (result.returncode, result.stdout) == (1, "")
    assert reason in result.stderr
    assert "make PYTHON=/path/to/python" in result.stderr


def test_python_that_the_user_names_is_the_only_candidate(machine: Path):
    add_python(machine, "python3.13")
    add_python(machine, "my python")
    assert find(machine, f"{machine}/my python").stdout == f"{machine}/my python\n"
    result = find(machine, "python3.12")
    assert (result.returncode, result.stdout) == (1, "")
    assert "python3.12" in result.stderr


def test_environment_whose_python_was_removed_is_created_again(tmp_path: Path):
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/removed/by/an/upgrade/python3.11")
    (tmp_path / ".venv/.runtime").touch()
    made = ["make", "-f", ROOT / "Makefile", ".venv/bin/python", f"PYTHON={sys.executable}"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True, env=dict(os.environ, MAKEFLAGS=""))
    subprocess.run([tmp_path / ".venv/bin/python", "-m", "pip", "--version"], check=True, capture_output=True)
    assert not (tmp_path / ".venv/.runtime").exists()


@pytest.mark.parametrize("version", sorted({*SUPPORTED} - {"{}.{}".format(*sys.version_info)}))
def test_sources_compile_without_warnings(version: str):
    """With the others that this machine has. `make pythons` runs every test with them."""
    python = subprocess.run(
        ["/bin/sh", FIND_PYTHON, f"python{version}"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not python:
        pytest.skip(f"this machine has no Python {version}")
    folders = [ROOT / "src", ROOT / "mailsim/src", ROOT / "chaos/src"]
    subprocess.run([python, "-I", "-W", "error", "-c", COMPILE, *folders], check=True)


@pytest.mark.parametrize("folder", ["", "mailsim", "chaos"])
def test_distributions_name_the_supported_versions(folder: str):
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    named = [each.split(" :: ")[-1] for each in project["classifiers"] if "Python :: 3." in each]
    assert (named, project["requires-python"]) == (SUPPORTED, f">={SUPPORTED[0]}")


@pytest.mark.parametrize("file", ["README.md", "scripts/find-python", "Makefile"])
def test_supported_versions_are_stated(file: str):
    text = (ROOT / file).read_text()
    assert {f"3.{minor}" for minor in re.findall(r"\b3\.(1\d)\b", text)} == set(SUPPORTED)
