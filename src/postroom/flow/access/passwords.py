"""Passwords: what is kept of them (Argon2id), and whether one is right. In a thread: it takes its time."""

import asyncio
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from postroom.errors import PermanentError
from postroom.model import Secret

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 1000
_hasher: Final = PasswordHasher()
# Each takes 64 MB for a moment: a storm of tries waits in line instead of filling the memory.
_MAX_CONCURRENT: Final = 2


@cache
def _hashing_slots(_loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    return asyncio.Semaphore(_MAX_CONCURRENT)


async def hash_password(password: Secret) -> Secret:
    """What may be kept. Raises PermanentError, with the rule, for a password that is too short."""
    if not MIN_LENGTH <= len(password.reveal()) <= MAX_LENGTH:
        raise PermanentError(f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters.")
    async with _hashing_slots(asyncio.get_running_loop()):
        return Secret(await asyncio.to_thread(_hasher.hash, password.reveal()))


async def verify_password(kept: Secret | None, password: Secret) -> bool:
    """Takes the same time where nothing is kept, so that nobody learns who has a password here."""
    if len(password.reveal()) > MAX_LENGTH:
        return False
    async with _hashing_slots(asyncio.get_running_loop()):
        return await asyncio.to_thread(_verify, kept, password.reveal())


def _verify(kept: Secret | None, password: str) -> bool:
    try:
        return _hasher.verify(kept.reveal() if kept else _dummy_hash(), password) and kept is not None
    except (Argon2Error, InvalidHashError):
        return False


@cache
def _dummy_hash() -> str:
    return _hasher.hash("of nobody")
