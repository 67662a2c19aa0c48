"""LocalVault: seals grants for storage in the database, and opens them.

It has no SQL: the caller stores the sealed value.
"""

from dataclasses import dataclass

from postroom.errors import SecretUnreadable
from postroom.model import Secret
from postroom.ports import SealedSecret, SecretLocation, SsmParameter, StoredSecret
from postroom.vault.sealer import Sealer


@dataclass(frozen=True)
class LocalVault:
    sealer: Sealer

    async def store(self, location: SecretLocation, secret: Secret) -> SealedSecret:
        return self.sealer.seal(location.context, secret)

    async def fetch(self, location: SecretLocation, stored: StoredSecret) -> Secret:
        return self.sealer.open(location.context, _require_sealed(stored))

    async def delete(self, location: SecretLocation, stored: StoredSecret) -> None:
        """Nothing to do: the grant is deleted with its row."""
        del location
        _require_sealed(stored)


def _require_sealed(stored: StoredSecret) -> SealedSecret:
    match stored:
        case SealedSecret():
            return stored
        case SsmParameter():
            raise SecretUnreadable(
                "The grant of this mailbox is stored in AWS SSM."
                " Set POSTROOM_VAULT=ssm, or connect the mailbox again."
            )
