"""Secrets at rest. Read keys (what seals), sealer (how), local and ssm (where); signing is for the ledger."""

from postroom.vault.keys import GivenKeys, KeyFile, Keys
from postroom.vault.local import LocalVault
from postroom.vault.sealer import Sealer
from postroom.vault.signing import LedgerKeys

__all__ = ["GivenKeys", "KeyFile", "Keys", "LedgerKeys", "LocalVault", "Sealer"]
