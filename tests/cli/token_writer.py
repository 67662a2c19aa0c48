"""A process that keeps writing the tokens of its mailboxes until its standard input is closed.

Before each write it checks that it still reads what it wrote last, whichever key encrypts it by now. It
prints the number of completed rounds.
"""

import asyncio
import random
import sys
from pathlib import Path
from uuid import UUID

from postroom.config import Settings
from postroom.model import CredentialKind, Secret
from postroom.ports import SecretLocation
from postroom.store import credentials
from postroom.store.database import open_database
from postroom.vault import KeyFile, LocalVault, Sealer
from postroom.wiring import secrets


async def write(url: str, home: str, organization: UUID, mailboxes: list[UUID]) -> None:
    vault = LocalVault(Sealer(KeyFile(Path(home))))
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    number = 0
    async with open_database(
        url,
        pool_size=3,
        name="postroom tests",
        entry_macs=secrets.build_entry_macs(Settings(home=Path(home))),
    ) as database:
        while not ended.done():
            number += 1
            for mailbox in mailboxes:
                grant, access = (
                    SecretLocation(organization, mailbox, field) for field in ("grant", "access")
                )
                async with database.transaction(organization) as connection:
                    found = await credentials.load(connection, mailbox)
                    if found and found.access:
                        assert await vault.fetch(grant, found.grant) == Secret(f"grant {number - 1}")
                        assert await vault.fetch(access, found.access) == Secret(f"access {number - 1}")
                    kept = await vault.store(grant, Secret(f"grant {number}"))
                    await asyncio.sleep(random.random() / 200)
                    await credentials.save(
                        connection,
                        mailbox,
                        kind=CredentialKind.DELEGATED,
                        grant=kept,
                        access=await vault.store(access, Secret(f"access {number}")),
                    )
            print(number, flush=True)


if __name__ == "__main__":
    where, place, owner, *boxes = sys.argv[1:]
    asyncio.run(write(where, place, UUID(owner), [UUID(box) for box in boxes]))
