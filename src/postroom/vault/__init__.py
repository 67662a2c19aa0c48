"""Secrets at rest. Read in this order: keys (what seals), sealer (how), local and ssm (where)."""

from postroom.vault.keys import GivenKeys, KeyFile, Keys
from postroom.vault.local import LocalVault
from postroom.vault.sealer import Sealer

__all__ = ["GivenKeys", "KeyFile", "Keys", "LocalVault", "Sealer"]
