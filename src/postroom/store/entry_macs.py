"""Makes and checks the MACs of ledger entries and purges. The keys are not in the database.

A MAC is the id of its key, 8 bytes, followed by an HMAC-SHA256.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class MacKeys:
    """Keys that check MACs, by id."""

    by_id: Mapping[bytes, bytes]

    def check(self, mac: bytes, data: bytes) -> bool | None:
        """Whether a MAC is valid; None if its key is not one of these."""
        key = self.by_id.get(mac[:8])
        return None if key is None else hmac.compare_digest(mac[8:], hmac.digest(key, data, "sha256"))


@dataclass(frozen=True, slots=True)
class EntryMacs:
    """MACs with the current key of this process, and all keys that are known here."""

    load_current: Callable[[], bytes]
    load_known: Callable[[], Sequence[bytes]]

    def make(self, data: bytes) -> bytes:
        key = self.load_current()
        return _key_id(key) + hmac.digest(key, data, "sha256")

    def load(self) -> MacKeys:
        """Load all known keys once per run: another process may add its key in the meantime."""
        return MacKeys({_key_id(each): each for each in self.load_known()})


def _key_id(key: bytes) -> bytes:
    return sha256(b"postroom mac key " + key).digest()[:8]
