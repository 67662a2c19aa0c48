"""Mail served by mailsim per CPU second of its process, beside a bare Starlette route with ready-made bytes.

Gmail in batches of 50 `messages.get` (raw, not pretty-printed), Graph in delta pages with whole messages: 8
KB letters, each written for this one answer. The bare route answers one request per message with 11 KB; a
quarter of it is wanted. Each is warmed up first, ours with other mailboxes. Other work on the machine's cores
slows the bare route more than ours: the ratio counts on a quiet machine.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

MESSAGES, WARMING, BATCH = 8_000, 300, 50
WANTED = 0.25
LETTERS = ["plain", "html", "reply", "newsletter"]
BARE = """
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


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def rate(pid: int, run: Callable[[], Awaitable[int]]) -> float:
    """Messages per CPU second of that process."""
    before = cpu_seconds(pid)
    served = await run()
    return served / (cpu_seconds(pid) - before)


@asynccontextmanager
async def server(*command: str) -> AsyncGenerator[tuple[int, str]]:
    """A process that prints one line when it is ready; its pid and that line."""
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    try:
        yield process.pid, (await process.stdout.readline()).decode()
    finally:
        process.terminate()
        await process.wait()


async def bare(client: aiohttp.ClientSession) -> float:
    async with server("-c", BARE) as (pid, line):
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
        return await rate(pid, run)


async def gmail(client: aiohttp.ClientSession, http: str, messages: int) -> Callable[[], Awaitable[int]]:
    """A mailbox of so many messages, and what reads all of it."""
    headers = await prepare(client, http, "gmail", f"gmail{messages}@example.com", messages)
    ids: list[str] = []
    token = ""
    while len(ids) < messages:
        url = f"{http}/gmail/v1/users/me/messages?maxResults=500&includeSpamTrash=true&pageToken={token}"
        async with client.get(url, headers=headers) as answer:
            page = await answer.json()
        ids += [each["id"] for each in page["messages"]]
        token = page.get("nextPageToken", "")

    async def run() -> int:
        for start in range(0, messages, BATCH):
            body = "".join(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: <{each}>\r\n\r\n"
                f"GET /gmail/v1/users/me/messages/{each}?format=raw&prettyPrint=false HTTP/1.1\r\n\r\n\r\n"
                for each in ids[start : start + BATCH]
            )
            batch = headers | {"Content-Type": "multipart/mixed; boundary=b"}
            async with client.post(f"{http}/batch/gmail/v1", data=f"{body}--b--", headers=batch) as answer:
                text = await answer.text()
                assert text.count("HTTP/1.1 200 OK") == min(BATCH, messages - start), text[:500]
        return messages

    return run


async def graph(client: aiohttp.ClientSession, http: str, messages: int) -> Callable[[], Awaitable[int]]:
    """A mailbox of so many messages, and what reads all of it."""
    address = f"outlook{messages}@example.com"
    headers = await prepare(client, http, "outlook", address, messages)
    headers["Prefer"] = f'odata.maxpagesize={BATCH}, IdType="ImmutableId"'
    user = f"{http}/v1.0/users/{address}"

    async def run() -> int:
        served = 0
        async with client.get(
            f"{user}/mailFolders?$top=100&includeHiddenFolders=true", headers=headers
        ) as answer:
            folders = [each["id"] for each in (await answer.json())["value"] if "@odata.type" not in each]
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


async def prepare(
    client: aiohttp.ClientSession, http: str, provider: str, address: str, messages: int
) -> dict[str, str]:
    """A mailbox of everyday letters and a token for it."""
    order = {"provider": provider, "address": address, "messages": messages, "kinds": LETTERS, "size": 8000}
    async with client.post(f"{http}/_sim/mailboxes", json=order) as answer:
        assert answer.ok, await answer.text()
    company = "google" if provider == "gmail" else "microsoft"
    async with client.post(f"{http}/_sim/{company}/tokens", json={"address": address}) as answer:
        assert answer.ok, await answer.text()
        return {"Authorization": f"Bearer {(await answer.json())['access_token']}"}


async def main() -> int:
    async with aiohttp.ClientSession() as client:
        base = await bare(client)
        async with server("-m", "mailsim", "--quota", "off") as (pid, line):
            http = json.loads(line)["http"]
            rates: dict[str, float] = {}
            for name, mailbox in (("Gmail, batches of 50", gmail), ("Graph, delta pages", graph)):
                await (await mailbox(client, http, WARMING))()
                rates[name] = await rate(pid, await mailbox(client, http, MESSAGES))
    print(f"{'bare Starlette route':<22} {base:>8,.0f} messages per CPU second")
    for name, found in rates.items():
        ratio = f"ratio {found / base:.2f} (wanted: {WANTED} or better)"
        print(f"{name:<22} {found:>8,.0f} messages per CPU second, {ratio}")
    return 0 if min(rates.values()) >= WANTED * base else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
