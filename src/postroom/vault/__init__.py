"""Secrets at rest: encryption keys, the sealer, the vaults for grants, and the ledger's keys and heads."""

from postroom.vault.keys import ConfiguredKeys, KeyFile, KeySource
from postroom.vault.ledger_heads import LedgerHeads
from postroom.vault.ledger_keys import LedgerKeys
from postroom.vault.ledger_macs import LedgerMacs
from postroom.vault.local import LocalVault
from postroom.vault.sealer import Sealer

__all__ = [
    "ConfiguredKeys",
    "KeyFile",
    "KeySource",
    "LedgerHeads",
    "LedgerKeys",
    "LedgerMacs",
    "LocalVault",
    "Sealer",
]
