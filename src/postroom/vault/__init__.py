"""Secrets at rest: keys, the sealer that encrypts with them, the vaults for grants, the ledger's keys."""

from postroom.vault.keys import ConfiguredKeys, KeyFile, KeySource
from postroom.vault.ledger_keys import LedgerKeys
from postroom.vault.local import LocalVault
from postroom.vault.sealer import Sealer

__all__ = ["ConfiguredKeys", "KeyFile", "KeySource", "LedgerKeys", "LocalVault", "Sealer"]
