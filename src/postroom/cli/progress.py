"""Prints progress on standard error: status lines, a spinner and a progress bar.

Spinner and bar appear on a terminal only. Standard output stays free for results that programs read.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import typer


def print_status(line: str) -> None:
    """Print a line about what the command is doing."""
    typer.echo(line, err=True)


@contextmanager
def spinner(label: str) -> Generator[None]:
    """Show that the command is busy."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{label} …"):
        yield


@contextmanager
def bar(label: str, total: int) -> Generator[Callable[[int], None]]:
    """Show a progress bar.

    Call the yielded function with the amount done since the last call.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=max(total, 1))
        yield lambda amount: progress.advance(task, amount)
