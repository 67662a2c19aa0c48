"""Hash and verify passwords with Argon2id, in threads: each takes tens of milliseconds.

Also the limits on their length. No database: `members` and `sign_in` read and write the hashes.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from postroom.errors import PermanentError
from postroom.model import Secret

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 1000
_hasher: Final = PasswordHasher()
# Each hash takes 64 MB for a moment: a burst of attempts queues instead of filling the memory.
_MAX_CONCURRENT: Final = 2
# More sign-ins than this at a time are turned away: a queue without end would keep every member waiting.
MAX_SIGN_INS: Final = 20


@cache
def _hashing_slots(_loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    return asyncio.Semaphore(_MAX_CONCURRENT)


@dataclass
class SignInQueue:
    """Counts the sign-ins by password that wait or are checked."""

    count: int = 0

    def is_full(self) -> bool:
        return self.count >= MAX_SIGN_INS

    @contextmanager
    def enter(self) -> Generator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


sign_in_queue: Final = SignInQueue()


async def hash_password(password: Secret) -> Secret:
    """Hash a password. Raises PermanentError if it is too short or too long."""
    if not MIN_LENGTH <= len(password.reveal()) <= MAX_LENGTH:
        raise PermanentError(f"A password must have {MIN_LENGTH} to {MAX_LENGTH} characters.")
    async with _hashing_slots(asyncio.get_running_loop()):
        return Secret(await asyncio.to_thread(_hasher.hash, password.reveal()))


async def verify_password(stored_hash: Secret | None, password: Secret) -> bool:
    """Compare a password with a hash. Takes the same time without a hash, to not reveal who has one."""
    if len(password.reveal()) > MAX_LENGTH:
        return False
    async with _hashing_slots(asyncio.get_running_loop()):
        return await asyncio.to_thread(_verify, stored_hash, password.reveal())


def _verify(stored_hash: Secret | None, password: str) -> bool:
    try:
        return (
            _hasher.verify(stored_hash.reveal() if stored_hash else _dummy_hash(), password)
            and stored_hash is not None
        )
    except (Argon2Error, InvalidHashError):
        return False


@cache
def _dummy_hash() -> str:
    return _hasher.hash("matches no member")
