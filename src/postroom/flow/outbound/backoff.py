"""How long to wait before a rejected delivery or notice is sent again."""

import random
from typing import Final

LONGEST_WAIT_SECONDS: Final = 6 * 3600.0


def backoff_seconds(attempts: int, first_seconds: float) -> float:
    """Double with each attempt, up to six hours. Jitter spreads what failed at the same time."""
    longest = min(LONGEST_WAIT_SECONDS, first_seconds * 2 ** min(attempts, 20))
    return longest * random.uniform(0.5, 1)
