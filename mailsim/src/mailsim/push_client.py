"""The HTTP client that posts pushes and handshakes to subscribers and logs every request.

It builds no payload and does not retry. Nothing else in a running simulator opens outbound connections.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailsim.clock import Clock
from mailsim.request_log import MAX_BODY_SIZE, HttpExchange, RequestLog

if TYPE_CHECKING:
    import aiohttp

_CONNECTIONS = 500


class SubscriberUnreachable(Exception):
    """The subscriber did not respond, or not with HTTP."""


@dataclass(frozen=True, slots=True)
class PushOrigin:
    """What a request is about, for the log. Several mailboxes are separated by commas."""

    provider: str
    endpoint: str
    mailbox: str
    subscription: str


@dataclass(frozen=True, slots=True)
class SubscriberResponse:
    """A subscriber's response to a push or a handshake."""

    status: int
    reason: str
    content_type: str  # lower case, without parameters
    text: str


class PushClient:
    """Posts to subscribers and logs every request; status 0 means no response, or none yet."""

    def __init__(self, clock: Clock, log: RequestLog) -> None:
        self._clock = clock
        self._log = log
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], origin: PushOrigin, seconds: float
    ) -> SubscriberResponse:
        """Send a POST request.

        Raises TimeoutError after `seconds`, SubscriberUnreachable for any other failure to respond.
        """
        import aiohttp  # imported on first use, so that mailsim starts faster
        from yarl import URL

        if self._session is None:
            # Subscribers mostly use self-signed certificates.
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=False)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        entry = self._open_entry(url, body, headers, origin)
        started = time.perf_counter()
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            target = URL(url, encoded=True)  # exactly as registered
            request = self._session.post(
                target, data=body, headers=headers, timeout=limit, allow_redirects=False
            )
            async with request as response:
                entry.status = response.status
                entry.duration_ms = (time.perf_counter() - started) * 1000
                text = (await response.read()).decode("utf-8", "replace")
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SubscriberUnreachable(str(error)) from error
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return SubscriberResponse(response.status, response.reason or "", kind, text)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open_entry(
        self, url: str, body: bytes, headers: Mapping[str, str], origin: PushOrigin
    ) -> HttpExchange:
        address, _, query = url.partition("?")
        entry = self._log.open(self._clock.milliseconds(), "POST", address, query)
        entry.provider, entry.endpoint = origin.provider, origin.endpoint
        entry.mailbox, entry.subscription = origin.mailbox, origin.subscription
        if self._log.keep_bodies:
            entry.request_headers = tuple(headers.items())
            entry.request_body = body[:MAX_BODY_SIZE]
        return entry
