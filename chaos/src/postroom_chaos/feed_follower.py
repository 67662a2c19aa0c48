"""A program that follows the change feed over HTTP and records each event as a line of JSON.

    CHAOS_API_KEY=… python -m postroom_chaos.feed_follower WEB_URL FILE

It continues after the last recorded position, also after it was killed in the middle of a line.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import aiohttp

WAIT_SECONDS: Final = 5
RETRY_SECONDS: Final = 0.5
PAGE: Final = 200


def read_position(file: Path) -> int:
    """The position of the last complete line; what follows it is cut off."""
    if not file.exists():
        return 0
    complete, newline, _ = file.read_bytes().rpartition(b"\n")
    os.truncate(file, len(complete) + len(newline))
    return int(json.loads(complete.splitlines()[-1])["position"]) if complete else 0


async def follow(url: str, key: str, file: Path) -> None:
    position = read_position(file)
    timeout = aiohttp.ClientTimeout(total=WAIT_SECONDS + 10)
    headers = {"authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        while True:
            try:
                position = await _read_page(session, url, position, file)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                await asyncio.sleep(RETRY_SECONDS)


async def _read_page(session: aiohttp.ClientSession, url: str, position: int, file: Path) -> int:
    """Record the events after a position, and return the last position."""
    query = {"after": position, "limit": PAGE, "wait": WAIT_SECONDS}
    async with session.get(f"{url}/api/v1/events", params=query) as response:
        response.raise_for_status()
        page: dict[str, Any] = await response.json()
    events: list[dict[str, Any]] = page["data"]
    with file.open("a", encoding="utf-8") as record:
        for event in events:
            record.write(json.dumps(event) + "\n")
    return int(events[-1]["position"]) if events else position


def main() -> None:
    asyncio.run(follow(sys.argv[1], os.environ["CHAOS_API_KEY"], Path(sys.argv[2])))


if __name__ == "__main__":
    main()
