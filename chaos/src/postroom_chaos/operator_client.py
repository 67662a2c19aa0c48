"""What an operator does to Postroom over HTTP: sign in, connect and change mailboxes.

Everything but the sign-in is retried until it works.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import aiohttp

Result = TypeVar("Result")
PATIENCE_SECONDS: Final = 120.0
RETRY_SECONDS: Final = 0.5
MAX_REJECTIONS: Final = 5  # of a sign-in, which a person would not repeat forever
_HEADING: Final = re.compile(r"<h1>[^<]*</h1>\s*<p[^>]*>[^<]*</p>")


class ActionFailed(Exception):
    """An operator's action kept failing; the message has the last response."""


class OperatorClient:
    """`session` holds the cookies of the signed-in operator."""

    def __init__(self, session: aiohttp.ClientSession, url: str, api_key: str) -> None:
        self._session = session
        self._url = url
        self._api_key = api_key

    async def sign_in(self, link: str) -> None:
        token = parse_qs(urlsplit(link).query)["token"][0]
        headers = {"origin": self._url}
        form = {"token": token, "next": "/"}
        async with self._session.post(
            f"{self._url}/sign-in/link", data=form, headers=headers, allow_redirects=False
        ) as response:
            if response.status != 303:
                raise ActionFailed(f"the sign-in was refused with status {response.status}")

    async def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API until it responds; a client error is final."""

        async def call() -> Any:
            headers = {"authorization": f"Bearer {self._api_key}"}
            async with self._session.request(
                method, f"{self._url}/api/v1/{path}", json=body, headers=headers
            ) as response:
                if response.status >= 500 or response.status == 429:
                    raise _NotNow(f"{method} {path}: {response.status} {(await response.text())[:300]}")
                if response.status >= 400:
                    raise ActionFailed(f"{method} {path}: {response.status} {(await response.text())[:300]}")
                return await response.json() if response.status != 204 else None

        return await _insist(call)

    async def connect(self, provider: str, query: dict[str, str]) -> None:
        """Go through the provider's sign-in as a browser does; the simulator consents by itself."""
        rejections = 0

        async def visit() -> None:
            nonlocal rejections
            url = f"{self._url}/oauth/{provider}/authorize?{urlencode(query)}"
            async with self._session.get(url) as response:
                if response.status == 200 and "/mailboxes" in response.url.path:
                    return
                said = " ".join(_HEADING.findall(await response.text()))
                rejections += response.status < 500 and response.status != 429
                problem = f"{response.url.path}: {response.status} {said}"
                raise ActionFailed(problem) if rejections > MAX_REJECTIONS else _NotNow(problem)

        await _insist(visit)

    async def act_on_mailbox(self, mailbox: UUID, action: str) -> None:
        """Submit the form of the mailboxes page: disconnect or purge."""

        async def submit() -> None:
            async with self._session.post(
                f"{self._url}/mailboxes/{mailbox}/{action}",
                headers={"origin": self._url},
                allow_redirects=False,
            ) as response:
                if response.status not in {303, 404}:  # 404: an attempt whose answer was lost had purged it
                    raise _NotNow(f"{action}: {response.status}")

        await _insist(submit)


class _NotNow(Exception):
    """The web process could not answer; a person tries again."""


async def _insist(attempt: Callable[[], Awaitable[Result]]) -> Result:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await attempt()
        except (aiohttp.ClientError, TimeoutError, _NotNow) as error:
            if time.monotonic() > deadline:
                raise ActionFailed(str(error) or type(error).__name__) from error
        await asyncio.sleep(RETRY_SECONDS)
