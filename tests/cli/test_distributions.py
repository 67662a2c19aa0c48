"""What `make dist` builds can be installed by name and runs without the sources."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from postroom.cli import simulator_process
from postroom.errors import OperatorError
from postroom.web import documentation
from rules.source_tree import ROOT

SOURCES = {"postroom": ROOT / "src/postroom", "mailsim": ROOT / "mailsim/src/mailsim"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "scripts/dist", sys.executable, folder], check=True, capture_output=True)
    return folder


def run_pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def pip(*arguments: str | Path) -> None:
    result = run_pip(*arguments)
    assert result.returncode == 0, result.stderr


def find(dist: Path, pattern: str) -> Path:
    [found] = dist.glob(pattern)
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_wheels_hold_every_file_of_their_package(dist: Path, name: str):
    held = {
        each for each in zipfile.ZipFile(find(dist, f"{name}-*.whl")).namelist() if ".dist-info/" not in each
    }
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=SOURCES[name], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {f"{name}/{path}" for path in tracked} <= held
    assert {each for each in held if not each.startswith(f"{name}/")} == set()


def test_the_demo_brings_the_simulator(dist: Path):
    wheel = zipfile.ZipFile(find(dist, "postroom-*.whl"))
    [metadata] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    needed = message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist") or []
    assert [each for each in needed if each.startswith("mailsim")] == ["mailsim; extra == 'demo'"]


def test_the_demo_without_the_simulator_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mailsim", None)
    with (
        pytest.raises(OperatorError, match=re.escape("`uvx 'postroom[demo]' demo`")),
        simulator_process.run_simulator({}),
    ):
        pass


def install_by_released_list(
    dist: Path, name: str, wheels: Path, target: Path
) -> subprocess.CompletedProcess[str]:
    """Install a package from a folder of wheels with its entry in the released list."""
    lines = (dist / "requirements-runtime.txt").read_text()
    [own] = re.findall(rf"^{name}==.+\\\n.+\\\n.+\n", lines, re.MULTILINE)
    listed = target.with_suffix(".txt")
    listed.write_text(own)
    options = ["--no-index", "--no-deps", "--require-hashes", "--find-links", wheels, "--target", target]
    return run_pip("install", *options, "-r", listed)


@pytest.mark.parametrize("name", SOURCES)
def test_commands_of_the_installed_wheels_start(dist: Path, name: str, tmp_path: Path):
    """By name, from a folder of files, with the hashes of the released list."""
    target = tmp_path / "installed"
    result = install_by_released_list(dist, name, dist, target)
    assert result.returncode == 0, result.stderr
    environment = os.environ | {"PYTHONPATH": str(target), "HOME": str(tmp_path)}
    where = [sys.executable, "-P", "-c", f"import {name}; print({name}.__file__)"]
    found = subprocess.run(where, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(target / name / "__init__.py")
    shown = subprocess.run(
        [target / "bin" / name, "--help"], env=environment, capture_output=True, text=True, check=True
    )
    assert "Usage" in shown.stdout or "usage" in shown.stdout


def test_the_wheel_serves_the_documentation_of_the_repository(dist: Path, tmp_path: Path):
    result = install_by_released_list(dist, "postroom", dist, tmp_path / "installed")
    assert result.returncode == 0, result.stderr
    code = (
        "from postroom.web.documentation import FILES, render_documentation\n"
        "for name in FILES: print(FILES[name], len(render_documentation(name).html) > 1000)"
    )
    command, environment = [sys.executable, "-P", "-c", code], {"PYTHONPATH": str(tmp_path / "installed")}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    packaged = tmp_path / "installed/postroom/docs"
    assert sorted(shown.splitlines()) == sorted(f"{packaged / name} True" for name in documentation.FILES)
    held = {path.relative_to(packaged).as_posix() for path in packaged.rglob("*") if path.is_file()}
    assert held == set(documentation.FILES)


def test_a_replaced_wheel_is_not_installed(dist: Path, tmp_path: Path):
    released = find(dist, "mailsim-*.whl")
    replaced = Path(shutil.copy(released, tmp_path))
    with zipfile.ZipFile(replaced, "a") as wheel:
        wheel.writestr("mailsim/backdoor.py", "")
    target = tmp_path / "installed"
    result = install_by_released_list(dist, "mailsim", tmp_path, target)
    assert result.returncode != 0
    assert "DO NOT MATCH THE HASHES" in result.stderr
    assert not target.exists()


@pytest.mark.parametrize("name", SOURCES)
def test_sdists_build_the_same_wheel(dist: Path, name: str, tmp_path: Path):
    pip(
        "wheel",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        find(dist, f"{name}-*.tar.gz"),
    )
    built, released = (
        {each.filename: each.CRC for each in zipfile.ZipFile(find(folder, f"{name}-*.whl")).infolist()}
        for folder in (tmp_path, dist)
    )
    assert built == released


def test_released_lists_extend_the_locked_ones(dist: Path):
    digests = {
        hashlib.sha256(each.read_bytes()).hexdigest() for each in dist.glob("*-*.*") if each.suffix != ".txt"
    }
    assert len(digests) == 4
    for name in ("runtime", "extras"):
        released, locked = (
            (dist / f"requirements-{name}.txt").read_text(),
            (ROOT / f"requirements/{name}.txt").read_text(),
        )
        assert released.startswith(locked)
        added = set(re.findall(r"sha256:([0-9a-f]{64})", released.removeprefix(locked)))
        assert added == digests if name == "runtime" else len(added) == 2
