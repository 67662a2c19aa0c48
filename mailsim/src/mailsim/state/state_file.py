"""The file of a saved simulation: gzip-compressed JSON with a format name and a version.

The checksum of gzip detects damage. `object_graph` explains the values.
"""

import json
import zlib
from typing import Any, cast

from mailsim.errors import InvalidRequest
from mailsim.state.object_graph import DamagedState

FORMAT = "mailsim state"
VERSION = 1
MAX_BYTES = 1 << 30  # uncompressed; protects against small files that would fill the memory
_GZIP = 31  # zlib's window bits for a gzip header and trailer


def write_state(content: dict[str, Any]) -> bytes:
    text = json.dumps({"format": FORMAT, "version": VERSION, **content}, separators=(",", ":"))
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(text.encode()) + packer.flush()


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
    return found
