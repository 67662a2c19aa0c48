"""Requirements and threats each name tests, and these tests exist."""

import re

import pytest

from rules.source_tree import ROOT, parse

COUNTS = {"C": 6, "S": 5, "N": 7, "Y": 9, "K": 8, "D": 11, "W": 6}


def read_rows(path, name):
    """The first and the last cell of the rows of three cells."""
    return re.findall(rf"^\| ({name}) \| .+ \| (.+) \|$", (ROOT / path).read_text(), re.MULTILINE)


REQUIREMENTS = read_rows("docs/requirements.md", r"[A-Z]\d+")
THREATS = [row for row in read_rows("docs/security.md", ".+") if row != ("threat", "test")]


def test_every_requirement_is_explained_once():
    expected = [f"{initial}{number}" for initial, count in COUNTS.items() for number in range(1, count + 1)]
    assert [name for name, _ in REQUIREMENTS] == expected


def test_threats_are_found():
    assert len(THREATS) > 20


@pytest.mark.parametrize("name, shown_by", [*REQUIREMENTS, *THREATS])
def test_the_named_tests_of_a_requirement_or_threat_exist(name, shown_by):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", shown_by)
    assert named, name
    for path, function in named:
        names = {getattr(node, "name", None) for node in parse(ROOT / path).body}
        assert function in names, f"{path}::{function}"
