"""A program that receives Postroom's outgoing webhooks and records each request as a line of JSON.

    python -m postroom_chaos.webhook_receiver PORT FILE

`PUT /mode` with `accept`, `refuse`, `stall` or `drop` changes how it answers; `stall` answers too late and
`drop` closes the connection without an answer.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final

from aiohttp import web

STALL_SECONDS: Final = 8.0


class WebhookReceiver:
    def __init__(self, file: Path) -> None:
        self._file = file.open("a", encoding="utf-8")
        self._mode = "accept"

    async def set_mode(self, request: web.Request) -> web.Response:
        self._mode = await request.text()
        return web.Response(status=204)

    async def receive(self, request: web.Request) -> web.Response:
        body = (await request.read()).decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in request.headers.items()}
        mode = self._mode
        status = {"accept": 200, "refuse": 503}.get(mode)
        record = {"headers": headers, "body": body, "status": status, "time": time.time()}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        if mode == "stall":
            await asyncio.sleep(STALL_SECONDS)
        if status is None and request.transport is not None:
            request.transport.close()
        return web.Response(status=status or 500)


def main() -> None:
    port, file = int(sys.argv[1]), Path(sys.argv[2])
    receiver = WebhookReceiver(file)
    application = web.Application()
    application.router.add_put("/mode", receiver.set_mode)
    application.router.add_post("/events", receiver.receive)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    main()
