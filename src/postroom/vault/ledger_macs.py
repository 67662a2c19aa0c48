"""The keys that make the MACs of ledger entries, derived from the keys that sign the ledger.

Every process that appends entries uses the same key: derived from the first key of the setting, or from the
file in the home directory. A derived key is stored in `ledger.macs` before it makes a MAC. So entries can
still be checked after a change of key, and what is stored is of no use for signing.
"""

import hmac
from functools import cached_property
from typing import Final

from postroom.errors import OperatorError
from postroom.vault.key_lines import KeyLines
from postroom.vault.ledger_keys import LedgerKeys

MACS: Final = "ledger.macs"


class LedgerMacs:
    """The MAC keys of one home directory and its signing keys."""

    def __init__(self, keys: LedgerKeys) -> None:
        self._signing = keys
        self._stored = KeyLines(keys.home / MACS)

    def load_current(self) -> bytes:
        return self._current

    def load_known(self) -> list[bytes]:
        """All keys that are known here. Creates none."""
        return [*self._stored.read(), *map(_derive, self._signing.list_private())]

    @cached_property
    def _current(self) -> bytes:
        """The key of this process. Read once: a new key takes effect with a restart."""
        key = _derive(self._signing.load_private())
        try:
            self._stored.add(key)
        except OperatorError:
            if not self._signing.configured:
                raise
            # The setting holds the key. A worker, whose home must be writable, stores it.
        return key


def _derive(private: bytes) -> bytes:
    return hmac.digest(private, b"postroom ledger mac key 1", "sha256")
