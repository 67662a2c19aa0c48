"""Small PNG images, made without an imaging library: stripes in colors that a seed determines."""

import struct
import zlib

from mailsim.samples.seeded_random import SeededRandom


def draw_png(seed: int, width: int = 120, height: int = 40) -> bytes:
    rng = SeededRandom(seed, 19)
    stripes = [bytes((rng.below(256), rng.below(256), rng.below(256))) for _ in range(6)]
    row = b"".join(stripes[column * len(stripes) // width] for column in range(width))
    pixels = b"".join(b"\0" + row for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (
        _encode_chunk(b"IHDR", header),
        _encode_chunk(b"IDAT", zlib.compress(pixels, 9)),
        _encode_chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _encode_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
