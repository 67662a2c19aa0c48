"""The vault that keeps grants in the database, sealed."""

from dataclasses import dataclass

from postroom.errors import OperatorError
from postroom.model import Secret
from postroom.ports import SealedSecret, SecretLocation, SsmParameter, StoredSecret
from postroom.vault.sealer import Sealer


@dataclass(frozen=True)
class LocalVault:
    sealer: Sealer

    async def keep(self, place: SecretLocation, secret: Secret) -> SealedSecret:
        return self.sealer.seal(place.context, secret)

    async def fetch(self, place: SecretLocation, kept: StoredSecret) -> Secret:
        return self.sealer.open(place.context, _require_sealed(kept))

    async def forget(self, place: SecretLocation, kept: StoredSecret) -> None:
        """Nothing is left once the row is gone."""
        del place
        _require_sealed(kept)


def _require_sealed(kept: StoredSecret) -> SealedSecret:
    match kept:
        case SealedSecret():
            return kept
        case SsmParameter():
            raise OperatorError(
                "The grant of this mailbox is kept in AWS SSM."
                " Set POSTROOM_VAULT=ssm, or connect the mailbox again."
            )
