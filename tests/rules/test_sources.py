"""Source code rules that no linter checks."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POSTROOM = sorted((ROOT / "src").rglob("*.py"))
MAILSIM = sorted((ROOT / "mailsim/src").rglob("*.py"))
CHAOS = sorted((ROOT / "chaos/src").rglob("*.py"))
SOURCES = POSTROOM + MAILSIM + CHAOS
PARTS = {"utils", "util", "helpers", "helper", "common", "base", "core", "manager", "service", "handler"}
# Written in pieces, so that this file obeys the rule it checks.
PROMISES = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error"]))
REGISTRIES = re.compile(
    "|".join(
        ["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.", "docker" + r"\.io", "ghcr" + r"\.io"]
    )
)


def named(path):
    return str(path.relative_to(ROOT))


def tree(path):
    return ast.parse(path.read_text(), named(path))


def functions(path):
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def test_sources_are_found():
    assert len(SOURCES) > 20
    assert len(tracked()) > 40


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_files_and_functions_are_short(path):
    assert len(path.read_text().splitlines()) < 500
    long = [node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno + 1 >= 50]
    assert long == []


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_modules_have_a_docstring_and_a_specific_name(path):
    if path.read_text():
        words = ast.get_docstring(tree(path)) or ""
        assert 1 <= len([line for line in words.splitlines() if line]) <= 60
    assert not PARTS & set(path.relative_to(ROOT).with_suffix("").parts)


def test_no_file_contains_unfinished_work():
    written = [path for path in tracked() if path.suffix in {".py", ".sql", ".html", ".js", ".css", ".md"}]
    assert [named(path) for path in written if PROMISES.search(path.read_text())] == []


def test_no_file_names_a_package_registry():
    texts = [
        (path, path.read_bytes().decode(errors="replace"))
        for path in tracked()
        if path.stat().st_size < 2_000_000
    ]
    assert [named(path) for path, text in texts if REGISTRIES.search(text)] == []


def reads_environment(node):
    return isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}


def test_only_the_settings_read_the_environment():
    readers = [path for path in POSTROOM if any(map(reads_environment, ast.walk(tree(path))))]
    # The store passes the environment on to PostgreSQL's programs; it reads no setting.
    reader = "src/postroom/config/__init__.py"
    assert [named(path) for path in readers if "store" not in path.parts] == [reader]
    assert [named(path) for path in readers if '"POSTROOM_' in path.read_text()] == []


def log_events(path):
    for node in ast.walk(tree(path)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log"), attr="debug" | "info" | "warning" | "error"),
                args=[event, *_],
            ):
                yield event


@pytest.mark.parametrize("path", POSTROOM, ids=named)
def test_log_events_are_literals(path):
    assert all(isinstance(event, ast.Constant) and isinstance(event.value, str) for event in log_events(path))


def test_only_the_logs_module_uses_structlog():
    assert [named(path) for path in POSTROOM if "structlog" in path.read_text()] == ["src/postroom/logs.py"]
