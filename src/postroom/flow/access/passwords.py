"""Hash and verify passwords with Argon2id, in threads: each takes tens of milliseconds.

Also the limits on their length. No database: `members` and `sign_in` read and write the hashes.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
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
_threads: Final = ThreadPoolExecutor(2, thread_name_prefix="password")


async def hash_password(password: Secret) -> Secret:
    """Hash a password. Raises PermanentError if it is too short or too long."""
    if not MIN_LENGTH <= len(password.reveal()) <= MAX_LENGTH:
        raise PermanentError(f"A password must have {MIN_LENGTH} to {MAX_LENGTH} characters.")
    loop = asyncio.get_running_loop()
    return Secret(await loop.run_in_executor(_threads, _hasher.hash, password.reveal()))


async def verify_password(stored_hash: Secret | None, password: Secret) -> bool:
    """Compare a password with a hash. Takes the same time without a hash, to not reveal who has one."""
    if len(password.reveal()) > MAX_LENGTH:
        return False
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, _verify, stored_hash, password.reveal())


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
