"""The names of blobs, the same in all stores: organization, first two digits, whole digest.

Names of archived files are in `documents.archive_path`.
"""

import re
from typing import Final

from postroom.model import OrganizationId

# Written to read the time of a bucket. No organization has this name.
CLOCK: Final = "clock"
_HEX = re.compile(r"[0-9a-f]{64}")


def object_name(organization: OrganizationId, sha256: bytes) -> str:
    digits = sha256.hex()
    return f"{organization}/{digits[:2]}/{digits}"


def parse_digest(name: str) -> bytes | None:
    """The digest at the end of a name; None if the object is not ours."""
    last = name.rpartition("/")[2]
    return bytes.fromhex(last) if _HEX.fullmatch(last) else None
