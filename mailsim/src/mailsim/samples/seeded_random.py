"""Reproducible random numbers (SplitMix64), text hashes and noise bytes for the sample mail.

They are the same in every process and Python version, and fast to seed.
"""

import functools
import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


def mix_bits(value: int) -> int:
    """Run one round of SplitMix64: 64 well-distributed bits from a number."""
    value = (value + _STEP) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


_mix_salt = functools.lru_cache(maxsize=256)(mix_bits)  # there are few salts


class SeededRandom:
    """A stream of random values. The results depend on the order of the calls."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, salt: int = 0) -> None:
        self._state = mix_bits(seed ^ _mix_salt(salt)) if salt else mix_bits(seed)

    def next_bits(self) -> int:
        self._state = state = (self._state + _STEP) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def below(self, limit: int) -> int:
        return self.next_bits() % limit

    def between(self, low: int, high: int) -> int:
        return low + self.next_bits() % (high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.next_bits() % len(choices)]

    def digits(self, count: int) -> str:
        return str(self.next_bits() % 10**count).zfill(count)


@functools.lru_cache(maxsize=4096)
def hash_text(seed: int, text: str) -> int:
    """Hash a text under a seed.

    Unlike hash(), the result is the same in every process.
    """
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest(), "big")


def make_noise(seed: int, size: int) -> bytes:
    """Make incompressible bytes."""
    return hashlib.shake_128(seed.to_bytes(8, "big")).digest(size)
