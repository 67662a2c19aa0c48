"""Tables that must be complete: every error class of ours has an outcome, an exit code and a status."""

import inspect

import pytest

from postroom import errors, worker
from postroom.cli import exits
from postroom.web import app

CLASSES = [
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.PostroomError)
]


def test_the_drawn_tree_names_every_class_below_its_parent():
    drawn = errors.__doc__ or ""
    assert all(each.__name__ in drawn for each in CLASSES)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_an_outcome_of_its_own_or_its_family(kind):
    deciding = next(each for each in kind.__mro__ if each in worker.OUTCOMES)
    assert kind is errors.PostroomError or issubclass(deciding, errors.PostroomError)
    assert kind is errors.PostroomError or deciding is not errors.PostroomError


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_an_exit_code_and_a_status(kind):
    assert exits.EXITS[kind] not in {exits.Exit.OK, exits.Exit.BUG}
    assert 400 <= app.STATUSES[kind] < 600


def test_the_help_names_every_exit_code_a_command_chooses():
    chosen = set(exits.Exit) - {exits.Exit.READER_GONE}
    assert all(f"\n  {code.value} " in exits.HELP for code in chosen)
