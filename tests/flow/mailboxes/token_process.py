"""A process that needs the access token of a mailbox: waits for a line, requests it, prints the result."""

import asyncio
import json
import sys
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from postroom.config import Settings
from postroom.providers.transport import open_client
from postroom.store.database import open_database
from postroom.wiring import secrets
from postroom.wiring.engine import build_engine


async def main() -> None:
    given = json.loads(sys.argv[1])
    settings = Settings(**given["settings"] | {"home": Path(given["home"])})
    async with (
        open_client() as client,
        open_database(
            given["database"],
            pool_size=3,
            name="postroom tests",
            entry_macs=secrets.build_entry_macs(settings),
        ) as database,
    ):
        tokens = build_engine(settings, database, client).tokens
        print("ready", flush=True)
        sys.stdin.readline()
        token = await tokens.for_mailbox(UUID(given["organization"]), UUID(given["mailbox"])).get_token()
        print("token", sha256(token.reveal().encode()).hexdigest(), flush=True)


asyncio.run(main())
