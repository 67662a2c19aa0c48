"""`postroom …` that kills itself at a crash point.

The first argument says in JSON where: the function (`place`, "module:name"), whether right `before` or right
`after` it runs, and in which `call`. A function that opens a transaction is a crash point of its commit:
`before` is the end of the block. Then `kind` limits the calls to leases of one kind of work, and `within` to
transactions in which another function is called with the connection. `about` limits the calls, or those of
`within`, to those whose arguments contain this text.
"""

import inspect
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

from postroom import cli
from postroom.store.work import Lease

REACHED = "killed at"


@dataclass
class CrashTrap:
    """Replaces a function by one that kills this process."""

    place: str
    when: str
    call: int = 1
    kind: str | None = None
    within: str | None = None
    about: str = ""
    calls: count = field(default_factory=lambda: count(1))
    seen: set[int] = field(default_factory=set)  # connections

    def arm(self) -> None:
        if self.within:
            replace(self.within, self._watched)
        replace(self.place, self._killing)

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Remember in which transactions it is called."""

        async def awaited(connection: Any, *given: Any, **named: Any) -> Any:
            if self.about in repr((given, named)):
                self.seen.add(id(connection))
            return await function(connection, *given, **named)

        return awaited

    def _killing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isasyncgenfunction(inspect.unwrap(function)):
            return asynccontextmanager(partial(self._commit, function))

        async def awaited(*given: Any, **named: Any) -> Any:
            number = next(self.calls) if self.about in repr((given, named)) else 0
            self._die_if("before", number)
            result = await function(*given, **named)
            self._die_if("after", number)
            return result

        def called(*given: Any, **named: Any) -> Any:
            number = next(self.calls) if self.about in repr((given, named)) else 0
            self._die_if("before", number)
            result = function(*given, **named)
            self._die_if("after", number)
            return result

        return awaited if inspect.iscoroutinefunction(function) else called

    async def _commit(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        async with function(*given, **named) as connection:
            self.seen.discard(id(connection))
            yield connection
            number = next(self.calls) if self._is_meant(given, connection) else 0
            self._die_if("before", number)
        self._die_if("after", number)

    def _is_meant(self, given: tuple[Any, ...], connection: Any) -> bool:
        if self.within:
            return id(connection) in self.seen
        return not self.kind or any(isinstance(each, Lease) and each.kind == self.kind for each in given)

    def _die_if(self, when: str, number: int) -> None:
        if (when, number) == (self.when, self.call):
            os.write(2, f"{REACHED} {self.place} {when}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)


def replace(place: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    module, _, path = place.partition(":")
    owner: Any = import_module(module)
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    setattr(owner, name, wrap(getattr(owner, name)))


if __name__ == "__main__":
    CrashTrap(**json.loads(sys.argv[1])).arm()
    sys.exit(cli.run(sys.argv[2:]))
