"""Secrets at rest. Read keys (what seals), sealer (how), local and ssm (where); signing is for the ledger."""

from postroom.vault.keys import ConfiguredKeys, KeyFile, KeySource
from postroom.vault.ledger_keys import LedgerKeys
from postroom.vault.local import LocalVault
from postroom.vault.sealer import Sealer

__all__ = ["ConfiguredKeys", "KeyFile", "KeySource", "LedgerKeys", "LocalVault", "Sealer"]
