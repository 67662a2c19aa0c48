"""The key of the ledger entries that benchmarks write."""

from typing import Final

from postroom.store.entry_macs import EntryMacs

_KEY: Final = bytes(range(32))
ENTRY_MACS: Final = EntryMacs(lambda: _KEY, lambda: [_KEY])
