"""`postroom …` in which one call of each named function never returns, so that a test can kill it there.

The first argument says in JSON, for each stage, the function ("module:name") and which call of it is held.
When one is, a line `inside STAGE` is printed.
"""

import asyncio
import importlib
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

from postroom import cli


def hold(stage: str, place: str, call: int) -> None:
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    function: Callable[..., Any] = getattr(owner, name)
    calls = count(1)

    def is_held() -> bool:
        if next(calls) != call:
            return False
        os.write(1, f"inside {stage}\n".encode())  # whole, whichever thread it is
        return True

    async def awaited(*given: Any, **named: Any) -> Any:
        if is_held():
            await asyncio.Event().wait()
        return await function(*given, **named)

    def called(*given: Any, **named: Any) -> Any:
        if is_held():
            threading.Event().wait()
        return function(*given, **named)

    setattr(owner, name, awaited if inspect.iscoroutinefunction(function) else called)


if __name__ == "__main__":
    for held, (function, number) in json.loads(sys.argv[1]).items():
        hold(held, function, number)
    sys.exit(cli.run(sys.argv[2:]))
