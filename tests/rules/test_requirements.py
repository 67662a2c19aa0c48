"""docs/requirements.md explains every requirement and names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
        tree = ast.parse((ROOT / path).read_text())
        assert function in {getattr(node, "name", None) for node in tree.body}, f"{path}::{function}"
