"""A bar for what takes long: shown to a person at a terminal, silent to a file or a program."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def bar(words: str, total: int) -> Generator[Callable[[int], None]]:
    """What is yielded hears how much more is done, of the total."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(words, total=max(total, 1))
        yield lambda done: shown.advance(task, done)
