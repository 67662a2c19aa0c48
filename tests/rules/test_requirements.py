"""Requirements and threats each name tests, and these tests exist; so do modules and settings."""

import re

import pytest

from postroom.config import PREFIX, Settings
from rules.source_tree import ROOT, list_modules, parse, relative

COUNTS = {"C": 6, "S": 5, "N": 7, "Y": 9, "K": 8, "D": 11, "W": 6}


def read_rows(path, name):
    """The first and the last cell of the rows of three cells."""
    return re.findall(rf"^\| ({name}) \| .+ \| (.+) \|$", (ROOT / path).read_text(), re.MULTILINE)


REQUIREMENTS = read_rows("docs/requirements.md", r"[A-Z]\d+")
THREATS = [row for row in read_rows("docs/security.md", ".+") if row != ("threat", "test")]


def test_every_requirement_is_explained_once():
    expected = [f"{initial}{number}" for initial, count in COUNTS.items() for number in range(1, count + 1)]
    assert [name for name, _ in REQUIREMENTS] == expected


def test_tests_name_only_codes_that_are_explained():
    """As in `D1, D2: what a pipeline takes.` and `Keys rotate (C3).`"""
    codes = r"[A-Z]\d{1,2}(?:, [A-Z]\d{1,2})*"
    docstring = re.compile(rf'"""({codes})[:,]|\(({codes})\)\.?(?:"""|$)', re.MULTILINE)
    used = {
        (code, relative(path))
        for path in list_modules("tests", "bench")
        for groups in docstring.findall(path.read_text())
        for code in "".join(groups).split(", ")
    }
    assert len(used) > 50
    explained = {name for name, _ in REQUIREMENTS}
    assert sorted(each for each in used if each[0] not in explained) == []


def test_threats_are_found():
    assert len(THREATS) > 20


def find_missing_tests(text):
    return [
        f"{path}::{function}"
        for path, function in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
        if function not in {getattr(node, "name", None) for node in parse(ROOT / path).body}
    ]


@pytest.mark.parametrize("name, shown_by", [*REQUIREMENTS, *THREATS])
def test_the_named_tests_of_a_requirement_or_threat_exist(name, shown_by):
    assert "`tests/" in shown_by, name
    assert find_missing_tests(shown_by) == []


def test_tests_modules_and_settings_in_the_threat_model_exist():
    text = (ROOT / "docs/security.md").read_text()
    assert find_missing_tests(text) == []
    modules = [f"/{relative(path)}" for path in list_modules("src", "mailsim/src", "bench")]
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert named
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in modules)] == []
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"{PREFIX}[A-Z_]+", text)) - settings == set()
