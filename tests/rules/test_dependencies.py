"""Each distribution declares what it imports, and imports what it declares."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from rules.source_tree import ROOT, parse

SOURCES = {
    "postroom": (ROOT, ROOT / "src/postroom"),
    "mailsim": (ROOT / "mailsim", ROOT / "mailsim/src/mailsim"),
    "postroom_chaos": (ROOT / "chaos", ROOT / "chaos/src/postroom_chaos"),
}
# Loaded by name, not by an import statement of ours.
LOADED_BY_OTHERS = {
    "httptools": "uvicorn's HTTP parser",
    "mailsim": "started as a program by the demo",
    "onnxruntime": "runs the models of rapidocr",
    "python-multipart": "starlette's form parser",
}
# Imported, and always installed with the declared distribution that is named.
BROUGHT_BY_EXTRAS = {
    "anthropic": "pydantic-ai-slim",
    "botocore": "boto3",
    "google-api-core": "google-cloud-storage",
    "google-auth": "google-cloud-storage",
    "openai": "pydantic-ai-slim",
    "opentelemetry-api": "opentelemetry-sdk",
    "requests": "google-cloud-storage",
}


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared_by(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    requirements = [*project["dependencies"], *(each for extra in extras for each in extra)]
    return {normalized(re.match(r"[\w.-]+", each)[0]) for each in requirements}


def called_name(function):
    """Such as `importlib.import_module`. Not by `ast.unparse`, which takes seconds for all calls."""
    if isinstance(function, ast.Attribute):
        return f"{called_name(function.value)}.{function.attr}"
    return getattr(function, "id", "")


def imported_modules(folder):
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Call) and node.args and "import" in called_name(node.func):
                name = getattr(node.args[0], "value", None)
                if isinstance(name, str):
                    yield name


distributions_of_packages = cache(packages_distributions)


@cache
def imported_by(name, folder):
    """The distributions that hold the imported modules."""
    holders = distributions_of_packages()
    found = set()
    for module in imported_modules(folder):
        top = module.partition(".")[0]
        if top == name or top in sys.stdlib_module_names:
            continue
        candidates = {normalized(each) for each in holders.get(top, [top])}
        found.add(candidates.pop() if len(candidates) == 1 else closest(module, candidates))
    return found


def closest(module, candidates):
    """A namespace package belongs to several distributions; choose the one with the most similar name."""
    wanted = normalized(module.replace(".", "-"))

    def unlikeness(name):
        parts = name.split("-")
        return not wanted.startswith(name), -len(set(parts) & set(wanted.split("-"))), len(parts), name

    return min(candidates, key=unlikeness)


@pytest.mark.parametrize("name", SOURCES)
def test_declared_dependencies_equal_the_imported_ones(name):
    folder, sources = SOURCES[name]
    declared, imported = declared_by(folder), imported_by(name, sources)
    assert imported - set(BROUGHT_BY_EXTRAS) - declared == set(), "imported, not declared"
    assert declared - imported - set(LOADED_BY_OTHERS) == set(), "declared, not imported"
    assert {holder for extra, holder in BROUGHT_BY_EXTRAS.items() if extra in imported} <= declared


def test_the_chaos_harness_imports_neither_postroom_nor_mailsim():
    imported = {module.partition(".")[0] for module in imported_modules(SOURCES["postroom_chaos"][1])}
    assert imported & {"postroom", "mailsim"} == set()


@pytest.mark.parametrize("name", SOURCES)
def test_one_library_reads_and_signs_tokens(name):
    assert imported_by(name, SOURCES[name][1]) & {
        "authlib",
        "joserfc",
        "jwcrypto",
        "python-jose",
        "pyjwt",
    } <= {"pyjwt"}


LOCKS = {"runtime": {"demo"}, "extras": {"aws", "gcs", "llm", "mcp", "otel", "parquet"}}


def read_lock(name):
    """The version and the hashes of each package in a list."""
    found = {}
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.lstrip().startswith("#"):
            package, version, rest = re.match(r"([\w.-]+)==(\S+)(.*)", line).groups()
            found[normalized(package)] = version, re.findall(r"--hash=sha256:[0-9a-f]{64}(?= |$)", rest)
    return found


@pytest.mark.parametrize("name", [*LOCKS, "dev"])
def test_every_locked_package_has_a_hash(name):
    assert [package for package, (_, hashes) in read_lock(name).items() if not hashes] == []


@pytest.mark.parametrize("name", LOCKS)
def test_lists_for_users_hold_all_dependencies_in_the_tested_versions(name):
    locked, tested = read_lock(name), read_lock("dev")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert set(extras) == set().union(*LOCKS.values())
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    needed += [each for extra in LOCKS[name] for each in extras[extra]]
    names = {normalized(re.match(r"[\w.-]+", each)[0]) for each in needed} - {"mailsim"}
    assert names - set(locked) == set()
    assert locked == {package: tested.get(package) for package in locked}
