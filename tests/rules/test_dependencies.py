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


# The modules that need an extra; all others import core dependencies only.
MODULES_OF_EXTRAS = {
    "aws": ["aws.py", "blobs/s3.py", "sqs.py", "vault/ssm.py"],
    "demo": ["cli/simulator_process.py"],
    "gcs": ["blobs/gcs.py"],
    "llm": ["documents/fields/llm_reader.py"],
    "mcp": ["mcp_server.py"],
    "otel": ["traces.py"],
    "parquet": ["flow/outbound/parquet_files.py", "web/list_export.py"],
}


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(requirements):
    return {normalized(re.match(r"[\w.-]+", each)[0]) for each in requirements}


def declared_by(folder):
    """The core dependencies, and those of each extra."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {})
    return names_of(project["dependencies"]), {name: names_of(extra) for name, extra in extras.items()}


def called_name(function):
    """Such as `importlib.import_module`. Not by `ast.unparse`, which takes seconds for all calls."""
    if isinstance(function, ast.Attribute):
        return f"{called_name(function.value)}.{function.attr}"
    return getattr(function, "id", "")


def imported_modules(place):
    """What a file imports, or all files of a folder."""
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
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
def imported_by(name, place):
    """The distributions that hold the modules imported by a file, or by all files of a folder."""
    holders = distributions_of_packages()
    found = set()
    for module in imported_modules(place):
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
    core, extras = declared_by(folder)
    declared, imported = core.union(*extras.values()), imported_by(name, sources)
    assert imported - set(BROUGHT_BY_EXTRAS) - declared == set(), "imported, not declared"
    assert declared - imported - set(LOADED_BY_OTHERS) == set(), "declared, not imported"
    assert {holder for extra, holder in BROUGHT_BY_EXTRAS.items() if extra in imported} <= declared


def test_only_the_modules_of_an_extra_import_what_it_installs():
    folder, sources = SOURCES["postroom"]
    core, extras = declared_by(folder)
    extra_of = {sources / module: extra for extra, modules in MODULES_OF_EXTRAS.items() for module in modules}
    for path in sources.rglob("*.py"):
        optional = {BROUGHT_BY_EXTRAS.get(each, each) for each in imported_by("postroom", path)} - core
        assert bool(optional) == (path in extra_of), path
        assert optional <= extras.get(extra_of.get(path), set()), path


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


@pytest.mark.parametrize("name", [*LOCKS, "dev", "docs", "sbom"])
def test_every_locked_package_has_a_hash(name):
    assert [package for package, (_, hashes) in read_lock(name).items() if not hashes] == []


def test_every_instruction_to_install_a_list_requires_hashes():
    guide = (ROOT / "docs/how-to/install.md").read_text()
    commands = re.findall(r"pip (?:install|download) [^`\n]*-r \S+", guide)
    assert len(commands) >= 3
    assert [command for command in commands if "--require-hashes" not in command] == []


@pytest.mark.parametrize("name", LOCKS)
def test_lists_for_users_hold_all_dependencies_in_the_tested_versions(name):
    locked, tested = read_lock(name), read_lock("dev")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert set(extras) == set().union(*LOCKS.values())
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    needed += [each for extra in LOCKS[name] for each in extras[extra]]
    names = names_of(needed) - {"mailsim"}
    assert names - set(locked) == set()
    assert locked == {package: tested.get(package) for package in locked}
