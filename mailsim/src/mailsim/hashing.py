"""Two reproducible 64-bit functions: a hash of any values, and a bijection that scatters numbers.

They are the same in every process. `samples` has its own in `seeded_random`.
"""

from hashlib import blake2b

_MASK = (1 << 64) - 1


def stable_hash(*parts: object) -> int:
    """Hash the parts to 64 bits. Unlike hash(), the result is the same in every process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def scramble(value: int) -> int:
    """Scramble a 64-bit number with a fixed bijection."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)
