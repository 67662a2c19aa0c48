"""A real worker that keeps push subscriptions, and nothing else; for tests that kill it."""

import asyncio
import json
import sys
from functools import partial
from types import SimpleNamespace

import databases
from flow.mailboxes.subscribe.subscribed_mailbox import RENEWAL_SECONDS
from postroom import worker
from postroom.engine import WorkHandler
from postroom.flow.mailboxes import subscribe
from postroom.flow.mailboxes.subscribe_context import SubscribeContext
from postroom.model import Secret, WorkKind
from postroom.providers.transport import open_client
from providers.conftest import Tokens, graph


async def main() -> None:
    options = json.loads(sys.argv[1])
    limits = worker.WorkerLimits(
        concurrency=2,
        lease_seconds=2,
        poll_seconds=0.2,
        stop_seconds=5,
        backoff_first_seconds=0.1,
        backoff_max_seconds=0.5,
        wake_by_notify=True,
    )
    async with (
        databases.open_pools(options["database_url"], name="postroom scenario") as database,
        open_client() as client,
    ):
        provider = graph(SimpleNamespace(**options["sim"]), client)
        tokens = Tokens(provider, Secret(options["access"]), Secret(options["refresh"]))
        context = SubscribeContext(
            database,
            lambda mailbox: provider.mailbox(mailbox.provider_user_id, tokens, mailbox.folder),
            options["public_url"],
            RENEWAL_SECONDS,
        )
        kinds = {WorkKind.SUBSCRIBE: WorkHandler(partial(subscribe.run, context), None)}
        print("ready", flush=True)
        await worker.run(database, kinds, limits, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main())
