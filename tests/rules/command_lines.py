"""Command lines of Postroom that files in the repository contain."""

from collections.abc import Iterable
from typing import Any

import typer

from postroom.cli import app


def require_command(words: Iterable[str]) -> None:
    """Parse the words as a command line of Postroom, without running it."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("postroom", list(words), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
