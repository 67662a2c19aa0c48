"""Secrets at rest: encryption keys, the sealer, the vaults for grants, and the ledger's signing keys."""

from postroom.vault.keys import ConfiguredKeys, KeyFile, KeySource
from postroom.vault.ledger_keys import LedgerKeys
from postroom.vault.local import LocalVault
from postroom.vault.sealer import Sealer

__all__ = ["ConfiguredKeys", "KeyFile", "KeySource", "LedgerKeys", "LocalVault", "Sealer"]
