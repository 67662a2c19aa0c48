"""The file of a saved simulation: gzip-compressed JSON with a format name, a version and checksums.

The checksum of gzip detects damage. Those of the parts and objects detect an edited file and locate the
edit: a simulation with values that do not fit together would fail later, in the middle of a test.
`object_graph` explains the values.
"""

import json
import zlib
from itertools import zip_longest
from typing import Any, cast

from mailsim.errors import InvalidRequest
from mailsim.state.object_graph import DamagedState

FORMAT = "mailsim state"
VERSION = 2
MAX_BYTES = 1 << 30  # uncompressed; protects against small files that would fill the memory
_GZIP = 31  # zlib's window bits for a gzip header and trailer


def write_state(content: dict[str, Any]) -> bytes:
    """Return the file. `content` has the sections options, clock, parts (by name) and objects (a list)."""
    text = _to_json({"format": FORMAT, "version": VERSION, **content, "checksums": _sum_up(content)})
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(text.encode()) + packer.flush()


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _sum_up(content: dict[str, Any]) -> dict[str, Any]:
    """Return a checksum for each place that an error can name: section, part and object."""
    parts = {f"part {name}": _checksum(part) for name, part in content["parts"].items()}
    sections = {name: _checksum(content[name]) for name in ("options", "clock")}
    return {**sections, **parts, "objects": [_checksum(one) for one in content["objects"]]}


def _checksum(value: Any) -> int:
    return zlib.crc32(_to_json(value).encode())


def _check_sums(content: dict[str, Any]) -> None:
    """Raise DamagedState with the place if the content is not what was saved."""
    expected: Any = content.pop("checksums", None)
    try:
        found = _sum_up(content)
        changed = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
        if "objects" in changed:
            pairs = zip_longest(expected["objects"], found["objects"])
            place = next(number for number, (one, other) in enumerate(pairs) if one != other)
            node = content["objects"][place] if place < len(content["objects"]) else None
            changed = [f"object {place} ({node[0] if isinstance(node, list) and node else 'missing'})"]
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise DamagedState("a section is missing or has an unknown form") from error
    if changed:
        raise DamagedState(f"{changed[0]} was edited after it was saved")


def read_state(data: bytes) -> dict[str, Any]:
    """Return the content. Raises InvalidRequest with a sentence for a person if it cannot be read."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise InvalidRequest("this is not a saved state of mailsim, or it is damaged") from error
    if unpacker.unconsumed_tail:
        raise InvalidRequest(f"the saved state is larger than {MAX_BYTES >> 20} MB")
    if not unpacker.eof or unpacker.unused_data:
        raise DamagedState("the file is incomplete")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedState("it is not JSON") from error
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("format") != FORMAT:
        raise InvalidRequest("this is not a saved state of mailsim")
    found = cast("dict[str, Any]", content)
    if found.get("version") != VERSION:
        raise InvalidRequest(
            f"the saved state has version {found.get('version')!r}; this mailsim reads version {VERSION}. "
            "Load it with the mailsim that saved it"
        )
    _check_sums(found)
    return found
