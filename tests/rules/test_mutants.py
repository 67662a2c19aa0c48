"""The list of planted bugs stays usable: each one still fits its file, and names tests that exist."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = tomllib.loads((ROOT / "tests/mutants.toml").read_text())["mutant"]


def test_there_are_forty_with_names_of_their_own():
    assert len(MUTANTS) >= 40
    assert [name for name, count in Counter(mutant["name"] for mutant in MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_a_mutant_changes_one_place(mutant):
    assert (ROOT / mutant["file"]).read_text().count(mutant["before"]) == 1
    assert mutant["before"] != mutant["after"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_the_tests_of_a_mutant_exist(mutant):
    assert mutant["tests"]
    for test in mutant["tests"]:
        path, _, name = test.partition("[")[0].partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), (
            "name single tests, so that all mutants can be tried"
        )
