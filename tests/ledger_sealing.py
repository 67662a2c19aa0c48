"""Seals the ledger in tests, as the work `seal` of a worker does."""

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from postroom.flow.ledger import seal
from postroom.flow.ledger.seal import SealContext
from postroom.model import OrganizationId, WorkKind
from postroom.store import work
from postroom.store.database import Database
from postroom.store.ledger import Signer
from postroom.store.work import FinishedWork, Lease
from postroom.vault import LedgerHeads

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = Signer("k1", _KEY.sign)


def check_signature(key_id: str, signature: bytes, signed: bytes) -> bool | None:
    if key_id != SIGNER.key_id:
        return None
    try:
        _KEY.public_key().verify(signature, signed)
    except InvalidSignature:
        return False
    return True


async def run_seal(database: Database, home: Path | LedgerHeads, lease: Lease) -> None:
    heads = LedgerHeads(home) if isinstance(home, Path) else home
    result = await seal.run(SealContext(database, lambda: SIGNER, heads), lease)
    async with database.engine() as connection:
        await work.finish(connection, [FinishedWork(lease, result.again_after)])


async def seal_ledger(database: Database, home: Path | LedgerHeads, organization: OrganizationId) -> None:
    async with database.engine() as connection:
        await work.enqueue(connection, [work.WorkRequest(organization, WorkKind.SEAL, str(organization))])
        [lease] = (await work.claim(connection, [WorkKind.SEAL], batch=1, lease_seconds=60)).leases
    await run_seal(database, home, lease)
