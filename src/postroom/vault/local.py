"""The vault that keeps grants in the database, sealed."""

from dataclasses import dataclass

from postroom.errors import OperatorError
from postroom.model import Secret
from postroom.ports import Kept, Parameter, Place, Sealed
from postroom.vault.sealer import Sealer


@dataclass(frozen=True)
class LocalVault:
    sealer: Sealer

    async def keep(self, place: Place, secret: Secret) -> Sealed:
        return self.sealer.seal(place.context, secret)

    async def fetch(self, place: Place, kept: Kept) -> Secret:
        return self.sealer.open(place.context, _sealed(kept))

    async def forget(self, place: Place, kept: Kept) -> None:
        """Nothing is left once the row is gone."""
        del place
        _sealed(kept)


def _sealed(kept: Kept) -> Sealed:
    match kept:
        case Sealed():
            return kept
        case Parameter():
            raise OperatorError(
                "The grant of this mailbox is kept in AWS SSM."
                " Set POSTROOM_VAULT=ssm, or connect the mailbox again."
            )
