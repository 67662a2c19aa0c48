"""Source code rules that no linter checks."""

import ast
import re

from rules.source_tree import ROOT, list_modules, list_tracked, parse, relative

POSTROOM = list_modules("src")
SOURCES = [*POSTROOM, *list_modules("mailsim/src", "chaos/src")]
PYTHON = [path for path in list_tracked() if path.suffix == ".py"]
PARTS = {"utils", "util", "helpers", "helper", "common", "base", "core", "manager", "service", "handler"}
# Written in pieces, so that this file obeys the rule it checks.
PROMISES = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error"]))
REGISTRIES = re.compile(
    "|".join(
        ["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.", "docker" + r"\.io", "ghcr" + r"\.io"]
    )
)


def functions(path):
    tree = parse(path)
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_sources_are_found():
    assert len(SOURCES) > 20
    assert len(list_tracked()) > 40


def first_line(path, function):
    """The first decorator counts, except in tests: there it is a table of cases."""
    decorators = [] if relative(path).startswith("tests/") else function.decorator_list
    return min([function.lineno, *(decorator.lineno for decorator in decorators)])


def test_files_and_functions_are_short():
    lines = {relative(path): len(path.read_text().splitlines()) for path in PYTHON}
    assert [name for name, count in lines.items() if count > 500] == []
    long = [
        (relative(path), node.name)
        for path in PYTHON
        for node in functions(path)
        if node.end_lineno - first_line(path, node) + 1 > 50
    ]
    assert long == []


def has_docstring(path):
    if not path.read_text():
        return True
    words = ast.get_docstring(parse(path)) or ""
    return 1 <= len([line for line in words.splitlines() if line]) <= 60


def test_modules_have_a_docstring_and_a_specific_name():
    assert [relative(path) for path in SOURCES if not has_docstring(path)] == []
    assert [
        relative(path) for path in SOURCES if PARTS & {*path.relative_to(ROOT).with_suffix("").parts}
    ] == []


def test_no_file_contains_unfinished_work():
    written = [
        path for path in list_tracked() if path.suffix in {".py", ".sql", ".html", ".js", ".css", ".md"}
    ]
    assert [relative(path) for path in written if PROMISES.search(path.read_text())] == []


def test_no_file_names_a_package_registry():
    texts = [
        (path, path.read_bytes().decode(errors="replace"))
        for path in list_tracked()
        if path.stat().st_size < 2_000_000
    ]
    assert [relative(path) for path, text in texts if REGISTRIES.search(text)] == []


def reads_environment(node):
    return isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}


def test_only_the_settings_read_the_environment():
    readers = [path for path in POSTROOM if any(map(reads_environment, ast.walk(parse(path))))]
    # The store passes the environment on to PostgreSQL's programs; it reads no setting.
    reader = "src/postroom/config/__init__.py"
    assert [relative(path) for path in readers if "store" not in path.parts] == [reader]
    assert [relative(path) for path in readers if '"POSTROOM_' in path.read_text()] == []


def log_events(path):
    for node in ast.walk(parse(path)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log"), attr="debug" | "info" | "warning" | "error"),
                args=[event, *_],
            ):
                yield event


def is_literal(event):
    return isinstance(event, ast.Constant) and isinstance(event.value, str)


def test_log_events_are_literals():
    assert [relative(path) for path in POSTROOM if not all(map(is_literal, log_events(path)))] == []


def test_only_the_logs_module_uses_structlog():
    assert [relative(path) for path in POSTROOM if "structlog" in path.read_text()] == [
        "src/postroom/logs.py"
    ]
