"""How mailsim calls its subscribers, and the log of what it sent them. Nothing else makes a connection."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailsim.clock import Clock
from mailsim.log import LONGEST_BODY, Exchange, RequestLog

if TYPE_CHECKING:
    import aiohttp

_CONNECTIONS = 500


class Unreachable(Exception):
    """Nobody answered, or not in HTTP."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Why a call is made, for the log. A call for several mailboxes names them all, with commas between."""

    provider: str
    endpoint: str
    mailbox: str
    subscription: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A subscriber's answer."""

    status: int
    reason: str
    content_type: str  # lower case, without parameters
    text: str


class Outgoing:
    """A status of 0 in the log: no answer, or none yet."""

    def __init__(self, clock: Clock, log: RequestLog) -> None:
        self._clock = clock
        self._log = log
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], origin: Origin, seconds: float
    ) -> Heard:
        """Raises TimeoutError after so many seconds, Unreachable for anything else that is no answer."""
        import aiohttp  # with the first call, so that mailsim starts faster
        from yarl import URL

        if self._session is None:
            # Subscribers mostly have a certificate of their own making.
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=False)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        entry = self._opened(url, body, headers, origin)
        started = time.perf_counter()
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            target = URL(url, encoded=True)  # as it was registered, letter by letter
            sent = self._session.post(
                target, data=body, headers=headers, timeout=limit, allow_redirects=False
            )
            async with sent as answer:
                entry.status = answer.status
                entry.duration_ms = (time.perf_counter() - started) * 1000
                text = (await answer.read()).decode("utf-8", "replace")
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(str(error)) from error
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Heard(answer.status, answer.reason or "", kind, text)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self, url: str, body: bytes, headers: Mapping[str, str], origin: Origin) -> Exchange:
        address, _, query = url.partition("?")
        entry = self._log.open(self._clock.milliseconds(), "POST", address, query)
        entry.provider, entry.endpoint = origin.provider, origin.endpoint
        entry.mailbox, entry.subscription = origin.mailbox, origin.subscription
        if self._log.bodies:
            entry.request_headers = tuple(headers.items())
            entry.request_body = body[:LONGEST_BODY]
        return entry
