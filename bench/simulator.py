"""Benchmark: messages per CPU second of mailsim, compared with a Starlette route that returns fixed bytes.

Gmail serves batches of 50 `messages.get` (raw, not pretty-printed), Graph serves delta pages with whole
messages. Messages have 8 KB and are generated for the response. The Starlette route answers one request per
message with 11 KB. The target is a quarter of its rate. Both are warmed up first, mailsim with other
mailboxes. Other load slows the Starlette route more than mailsim, so run this on a quiet machine.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

MESSAGES, WARM_UP_MESSAGES, BATCH = 8_000, 300, 50
TARGET_RATIO = 0.25
KINDS = ["plain", "html", "reply", "newsletter"]
STARLETTE_SERVER = """
import socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
BODY = b'{"id":"18c2ab34cd56ef78","raw":"' + b"x" * 11000 + b'"}'
async def message(_request):
    return Response(BODY, media_type="application/json")
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/{id}", message)])
config = uvicorn.Config(app, log_level="error", access_log=False, loop="uvloop")
uvicorn.Server(config).run(sockets=[listening])
"""


def get_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure_rate(pid: int, run: Callable[[], Awaitable[int]]) -> float:
    """Return the messages served per CPU second of a process."""
    before = get_cpu_seconds(pid)
    served = await run()
    return served / (get_cpu_seconds(pid) - before)


@asynccontextmanager
async def start_server(*command: str) -> AsyncGenerator[tuple[int, str]]:
    """Start a process that prints one line when ready; yield its pid and that line."""
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    try:
        yield process.pid, (await process.stdout.readline()).decode()
    finally:
        process.terminate()
        await process.wait()


async def measure_starlette(client: aiohttp.ClientSession) -> float:
    async with start_server("-c", STARLETTE_SERVER) as (pid, line):
        url = f"http://127.0.0.1:{int(line)}"

        async def run() -> int:
            numbers = iter(range(MESSAGES))

            async def fetch() -> None:
                for number in numbers:
                    async with client.get(f"{url}/{number}") as answer:
                        await answer.read()

            await asyncio.gather(*(fetch() for _ in range(8)))
            return MESSAGES

        await run()
        return await measure_rate(pid, run)


async def prepare_gmail(
    client: aiohttp.ClientSession, http: str, messages: int
) -> Callable[[], Awaitable[int]]:
    """Create a mailbox and return a function that reads all its messages."""
    headers = await create_mailbox(client, http, "gmail", f"gmail{messages}@example.com", messages)
    ids: list[str] = []
    token = ""
    while len(ids) < messages:
        url = f"{http}/gmail/v1/users/me/messages?maxResults=500&includeSpamTrash=true&pageToken={token}"
        async with client.get(url, headers=headers) as answer:
            page = await answer.json()
        ids += [message["id"] for message in page["messages"]]
        token = page.get("nextPageToken", "")

    async def run() -> int:
        for start in range(0, messages, BATCH):
            body = "".join(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: <{message_id}>\r\n\r\n"
                f"GET /gmail/v1/users/me/messages/{message_id}?format=raw&prettyPrint=false HTTP/1.1"
                "\r\n\r\n\r\n"
                for message_id in ids[start : start + BATCH]
            )
            batch = headers | {"Content-Type": "multipart/mixed; boundary=b"}
            async with client.post(f"{http}/batch/gmail/v1", data=f"{body}--b--", headers=batch) as answer:
                text = await answer.text()
                assert text.count("HTTP/1.1 200 OK") == min(BATCH, messages - start), text[:500]
        return messages

    return run


async def prepare_graph(
    client: aiohttp.ClientSession, http: str, messages: int
) -> Callable[[], Awaitable[int]]:
    """Create a mailbox and return a function that reads all its messages."""
    address = f"outlook{messages}@example.com"
    headers = await create_mailbox(client, http, "outlook", address, messages)
    headers["Prefer"] = f'odata.maxpagesize={BATCH}, IdType="ImmutableId"'
    user = f"{http}/v1.0/users/{address}"

    async def run() -> int:
        served = 0
        async with client.get(
            f"{user}/mailFolders?$top=100&includeHiddenFolders=true", headers=headers
        ) as answer:
            folders = [
                folder["id"] for folder in (await answer.json())["value"] if "@odata.type" not in folder
            ]
        for folder in folders:
            url: str | None = f"{user}/mailFolders/{folder}/messages/delta"
            while url is not None:
                async with client.get(url, headers=headers) as answer:
                    page = await answer.json()
                    assert answer.status == 200, page
                served += len(page["value"])
                url = page.get("@odata.nextLink")
        assert served == messages
        return served

    return run


async def create_mailbox(
    client: aiohttp.ClientSession, http: str, provider: str, address: str, messages: int
) -> dict[str, str]:
    """Create a mailbox of ordinary messages and return request headers with a token for it."""
    body = {"provider": provider, "address": address, "messages": messages, "kinds": KINDS, "size": 8000}
    async with client.post(f"{http}/_sim/mailboxes", json=body) as answer:
        assert answer.ok, await answer.text()
    issuer = "google" if provider == "gmail" else "microsoft"
    async with client.post(f"{http}/_sim/{issuer}/tokens", json={"address": address}) as answer:
        assert answer.ok, await answer.text()
        return {"Authorization": f"Bearer {(await answer.json())['access_token']}"}


async def main() -> int:
    async with aiohttp.ClientSession() as client:
        base = await measure_starlette(client)
        async with start_server("-m", "mailsim", "--quota", "off") as (pid, line):
            http = json.loads(line)["http"]
            rates: dict[str, float] = {}
            for name, prepare in (
                ("Gmail, batches of 50", prepare_gmail),
                ("Graph, delta pages", prepare_graph),
            ):
                await (await prepare(client, http, WARM_UP_MESSAGES))()
                rates[name] = await measure_rate(pid, await prepare(client, http, MESSAGES))
    print(f"{'Starlette route':<22} {base:>8,.0f} messages per CPU second")
    for name, messages_per_second in rates.items():
        ratio = f"ratio {messages_per_second / base:.2f} (target: {TARGET_RATIO} or better)"
        print(f"{name:<22} {messages_per_second:>8,.0f} messages per CPU second, {ratio}")
    return 0 if min(rates.values()) >= TARGET_RATIO * base else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
