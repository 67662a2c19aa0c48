"""Documentation is true: settings, commands, license."""

import re
from functools import cache
from pathlib import Path

import pytest
import typer

from postroom.cli import app
from postroom.config import PREFIX, Settings
from rules.source_tree import list_tracked, relative

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ROWS = re.findall(
    r"^\| `(POSTROOM_[A-Z_]+)` \| (.+?) \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE
)


def commands(command, path=("postroom",)):
    inner = getattr(command, "commands", {})
    return [
        (path, command),
        *(found for name, each in inner.items() for found in commands(each, (*path, name))),
    ]


ALL = commands(typer.main.get_command(app))
KNOWN = {" ".join(path) for path, _ in ALL}
LEAVES = [(" ".join(path), command) for path, command in ALL if not hasattr(command, "commands")]


def examples(command):
    """The commands in the examples of a help text, without their arguments."""
    shown = re.findall(r"^ +(?:\w+=\S+ )*(postroom(?: [a-z-]+)+)", command.epilog, re.MULTILINE)
    found = set()
    for line in shown:
        words = line.split()
        found.add(next((" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in KNOWN), line))
    return found


def test_settings_page_lists_every_setting_once():
    assert sorted(name for name, _ in ROWS) == sorted(PREFIX + name.upper() for name in Settings.model_fields)


@pytest.mark.parametrize("name, default", ROWS)
def test_settings_page_states_the_default(name, default):
    value = Settings.model_fields[name.removeprefix(PREFIX).lower()].default
    assert default == ("unset" if value is None else f"`{value}`") or (
        name == "POSTROOM_HOME" and value is None
    )


@pytest.mark.parametrize("path, command", LEAVES, ids=[path for path, _ in LEAVES])
def test_every_command_has_help_and_an_example(path, command):
    assert command.help
    assert command.epilog
    assert f"  {path}" in command.epilog
    assert examples(command) <= KNOWN
    assert all(option.help for option in command.params if not getattr(option, "hidden", False))


@pytest.mark.parametrize(
    "path, command", [each for each in ALL if hasattr(each[1], "commands")], ids=lambda each: str(each)[:40]
)
def test_every_group_has_help_and_examples(path, command):
    assert command.help
    assert command.epilog
    if len(path) > 1:
        assert len(examples(command)) >= 1
        assert examples(command) <= {name for name in KNOWN if name.startswith(f"{' '.join(path)} ")}


def test_readme_commands_exist():
    for line in re.findall(r"^(?:\$ )?(postroom [^\n`#]+)", README, re.MULTILINE):
        words = line.split()
        assert " ".join(words[:2]) in KNOWN or words[1].startswith("-"), line
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^(?:\$ )?make ([a-z]+)", README, re.MULTILINE)) <= targets


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("docs/how-to/*.md")), ROOT / "docs/security.md", ROOT / "SECURITY.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_in_how_tos_and_on_security_exist(page):
    for line in re.findall(r"(?:^|`)(postroom [a-z][^\n`#]+)", page.read_text(), re.MULTILINE):
        words = line.split()
        assert " ".join(words[:2]) in KNOWN, line
        is_group = " ".join(words[:2]) not in {path for path, _ in LEAVES}
        is_name = is_group and len(words) > 2 and re.fullmatch(r"[a-z][a-z-]+", words[2])
        assert not is_name or " ".join(words[:3]) in KNOWN, line


def test_make_clean_removes_what_git_ignores():
    clean = re.search(r"^clean:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    removed = set(clean.replace("$(VENV)", ".venv").split())
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert ignored - {"*.egg-info"} <= removed


def test_licence_is_apache_2_everywhere():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()


def links_of(page):
    """The files that a page links to. `make docs` checks the anchors too."""
    found = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    return {(page.parent / link).resolve() for link in found}


PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *(ROOT / each / "README.md" for each in ("mailsim", "chaos")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    assert [str(link) for link in links_of(page) if not link.exists()] == []


def test_every_page_is_listed():
    index, decisions = ROOT / "docs/README.md", ROOT / "docs/decisions/README.md"
    listed = links_of(index) | links_of(decisions)
    assert [page for page in PAGES if page not in {*listed, index, ROOT / "README.md"}] == []


# Pages that explain the code. A name in backticks there is one of the code, or of the system below it.
EXPLANATIONS = [
    *(
        ROOT / name
        for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/crash-points.md", "docs/schema.md")
    ),
    *ROOT.glob("docs/decisions/*.md"),
]
OF_LINUX = {"PR_SET_DUMPABLE", "PR_SET_PDEATHSIG"}


@cache
def names_of_the_code():
    files = [path for path in list_tracked() if path.suffix not in {".md", ".npz", ".png", ".xz"}]
    words = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    return words | {word for path in list_tracked() for word in re.findall(r"\w+", relative(path))} | OF_LINUX


@pytest.mark.parametrize("page", EXPLANATIONS, ids=lambda page: page.stem)
def test_names_in_explanations_exist(page):
    named = re.findall(
        r"`([A-Za-z_][\w./]*)(?:\(\))?`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    )
    assert [name for name in named if not set(re.findall(r"\w+", name)) <= names_of_the_code()] == []


def test_architecture_lists_every_module_of_flow():
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("## Domains")[2].partition("## Due")[0]
    listed, package = {}, ""
    for first, *others in (
        line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")
    ):
        package = first.strip(" `") or package
        listed.setdefault(package, set()).update(re.findall(r"`(\w+)/?`", " ".join(others)))
    modules = [path for path in (ROOT / "src/postroom/flow").glob("*/*") if not path.name.startswith("__")]
    for path in modules:
        assert path.stem in listed[f"flow/{path.parent.name}"], path
    assert {name for names in listed.values() for name in names} - {"module"} <= {
        path.stem for path in modules
    }
