"""Inputs for a fuzz run: mutations of valid samples, always the same for one seed."""

import random
from collections.abc import Sequence

MAX_BYTES = 20_000
_ODD_BYTES = [
    b"\x00",
    b"\xff",
    b"\n",
    b"\r\n",
    b"%",
    b"<",
    b">",
    b'"',
    b"\\",
    b"(",
    b"=",
    b"{",
    b"[",
    b"-1",
    b"9" * 30,
]


def mutate(samples: Sequence[bytes], seed: int) -> bytes:
    """A sample with one to eight changes, at most `MAX_BYTES` long."""
    chosen = random.Random(seed)
    content = bytearray(chosen.choice(samples))
    for _ in range(chosen.randint(1, 8)):
        _change(chosen, content, samples)
        del content[MAX_BYTES:]
    return bytes(content)


def _change(chosen: random.Random, content: bytearray, samples: Sequence[bytes]) -> None:
    place = chosen.randint(0, len(content))
    length = chosen.choice([1, 2, 8, 64, 512])
    match chosen.randint(0, 6):
        case 0:
            content[place : place + 1] = bytes([chosen.randrange(256)])
        case 1:
            del content[place : place + length]
        case 2:
            content[place:place] = chosen.choice(_ODD_BYTES)
        case 3:
            content[place:place] = bytes(content[place : place + length]) * chosen.randint(1, 50)
        case 4:
            other = chosen.choice(samples)
            start = chosen.randint(0, len(other))
            content[place:place] = other[start : start + length]
        case 5:
            content[place : place + length] = chosen.randbytes(length)
        case _:
            content[place : place + length] = content[place : place + length][::-1]
