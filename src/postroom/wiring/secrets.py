"""Build what keeps secrets from the settings: the sealer and its keys, the vault, the ledger's keys."""

from typing import assert_never

from postroom.config import Settings, VaultKind
from postroom.model import decode_key, parse_sealing_keys
from postroom.ports import Vault
from postroom.store.embedded import default_home
from postroom.store.entry_macs import EntryMacs
from postroom.vault import (
    ConfiguredKeys,
    KeyFile,
    LedgerHeads,
    LedgerKeys,
    LedgerMacs,
    LocalVault,
    Sealer,
)


def build_vault_keys(settings: Settings) -> ConfiguredKeys | KeyFile:
    """The keys of POSTROOM_VAULT_KEYS, or else those in the home directory."""
    if settings.vault_keys is not None:
        return ConfiguredKeys(parse_sealing_keys(settings.vault_keys.reveal().split(",")))
    return KeyFile(settings.home or default_home())


def build_sealer(settings: Settings) -> Sealer:
    return Sealer(build_vault_keys(settings))


def build_vault(settings: Settings, sealer: Sealer) -> Vault:
    """Where grants are kept. The sealer still opens those that were stored in the database before."""
    match settings.vault:
        case VaultKind.LOCAL:
            return LocalVault(sealer)
        case VaultKind.SSM:
            from postroom.vault import ssm

            return ssm.SsmVault(ssm.connect(), sealer, settings.ssm_prefix, settings.ssm_kms_key)
        case _:
            assert_never(settings.vault)


def build_ledger_keys(settings: Settings) -> LedgerKeys:
    """The key that signs the ledger, and the public keys of all that signed it before."""
    configured = settings.ledger_key
    home = settings.home or default_home()
    return LedgerKeys(
        home, [decode_key(each) for each in configured.reveal().split(",")] if configured else ()
    )


def build_entry_macs(settings: Settings) -> EntryMacs:
    """What makes and checks the MACs of ledger entries, in every process that appends or verifies some."""
    macs = LedgerMacs(build_ledger_keys(settings))
    return EntryMacs(macs.load_current, macs.load_known)


def build_ledger_heads(settings: Settings) -> LedgerHeads:
    return LedgerHeads(settings.home or default_home(), settings.ledger_heads_file)
