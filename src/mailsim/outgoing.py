"""The HTTP client with which mailsim calls its subscribers, and the log of what it sent them."""

import time
from dataclasses import dataclass
from typing import Any

import httpx2

from mailsim.clock import Clock
from mailsim.log import LONGEST_BODY, Exchange, RequestLog

_ENTRY = "mailsim.exchange"
_ORIGIN = "mailsim.origin"
_STARTED = "mailsim.started"
_LIMITS = httpx2.Limits(max_connections=500, max_keepalive_connections=100)


@dataclass(frozen=True, slots=True)
class Origin:
    """Why a call is made, for the log. A call for several mailboxes names them all, with commas between."""

    provider: str
    endpoint: str
    mailbox: str
    subscription: str

    def extensions(self) -> dict[str, Any]:
        """To be given to the client with the call."""
        return {_ORIGIN: self}


def outgoing_client(clock: Clock, log: RequestLog) -> httpx2.AsyncClient:
    """Give each call a timeout of its own. A status of 0 in the log: no answer, or none yet."""

    async def sending(request: httpx2.Request) -> None:
        url = request.url
        entry = log.open(
            clock.milliseconds(), request.method, str(url.copy_with(query=None)), url.query.decode()
        )
        origin: Origin = request.extensions[_ORIGIN]
        entry.provider, entry.endpoint = origin.provider, origin.endpoint
        entry.mailbox, entry.subscription = origin.mailbox, origin.subscription
        if log.bodies:
            entry.request_headers = tuple(request.headers.items())
            entry.request_body = request.content[:LONGEST_BODY]
        request.extensions = {**request.extensions, _ENTRY: entry, _STARTED: time.perf_counter()}

    async def answered(response: httpx2.Response) -> None:
        extensions = response.request.extensions
        entry: Exchange = extensions[_ENTRY]
        entry.status = response.status_code
        entry.duration_ms = (time.perf_counter() - extensions[_STARTED]) * 1000

    return httpx2.AsyncClient(
        verify=False,  # subscribers mostly have a certificate of their own making
        trust_env=False,
        follow_redirects=False,
        limits=_LIMITS,
        event_hooks={"request": [sending], "response": [answered]},
    )
