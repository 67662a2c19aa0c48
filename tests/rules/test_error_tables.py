"""The tables from error class to outcome, exit code and HTTP status."""

import inspect

import pytest

from postroom import errors, worker
from postroom.cli import exit_codes
from postroom.web import app

CLASSES = [
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.PostroomError)
]


def test_error_tree_lists_every_class():
    drawn = errors.__doc__ or ""
    assert all(each.__name__ in drawn for each in CLASSES)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_an_outcome(kind):
    deciding = next(each for each in kind.__mro__ if each in worker.OUTCOMES)
    assert kind is errors.PostroomError or issubclass(deciding, errors.PostroomError)
    assert kind is errors.PostroomError or deciding is not errors.PostroomError


FAMILIES = [
    (exit_codes.EXIT_CODES, {errors.OperatorError: 1, errors.TransientError: 5, errors.PermanentError: 1}),
    (
        app.STATUSES,
        {errors.OperatorError: 500, errors.TransientError: 503, errors.PermanentError: 500},
    ),
]


@pytest.mark.parametrize("table, families", FAMILIES, ids=["exit", "status"])
def test_tables_list_only_classes_that_differ_from_their_base(table, families):
    def lookup(kind):
        return next(table[each] for each in kind.__mro__ if each in table)

    assert {kind: lookup(kind) for kind in families} == families
    named = set(table) - {errors.PostroomError}
    assert all(table[kind] != lookup(kind.__mro__[1]) for kind in named)


def test_help_lists_every_exit_code():
    chosen = set(exit_codes.ExitCode) - {exit_codes.ExitCode.BROKEN_PIPE}
    assert all(f"\n  {code.value} " in exit_codes.HELP for code in chosen)
