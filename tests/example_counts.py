"""How many examples a property is tried with: a third before a landing, all of them by `make soak`."""

import os

_ALL = os.environ.get("TEST_EXAMPLES") == "all"


def examples(count: int) -> int:
    return count if _ALL else max(2, count // 3)
