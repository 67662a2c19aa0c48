"""docs/requirements.md explains every requirement and names tests that exist."""

import re

import pytest

from rules.source_tree import ROOT, parse

COUNTS = {"C": 6, "S": 5, "N": 7, "Y": 9, "K": 8, "D": 11, "W": 6}
TEXT = (ROOT / "docs/requirements.md").read_text()
ROWS = re.findall(r"^\| ([A-Z]\d+) \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)


def test_every_requirement_is_explained_once():
    expected = [f"{initial}{number}" for initial, count in COUNTS.items() for number in range(1, count + 1)]
    assert [name for name, _, _ in ROWS] == expected


@pytest.mark.parametrize("name, shown_by", [(name, tests) for name, _, tests in ROWS])
def test_the_named_tests_of_a_requirement_exist(name, shown_by):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", shown_by)
    assert named, name
    for path, function in named:
        names = {getattr(node, "name", None) for node in parse(ROOT / path).body}
        assert function in names, f"{path}::{function}"
