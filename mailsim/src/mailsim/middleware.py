"""The middleware around every provider route: request log, meters, latency and faults in the response.

It is independent of the provider: error bodies come from `Provider.error_response`. Providers handle the
parts of a batch themselves and call `Simulator.take_part_fault` for each of them.
"""

import asyncio
import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailsim.faults import REFUSALS, Fault
from mailsim.request_log import MAX_BODY_SIZE, HttpExchange
from mailsim.simulator import Provider, RawResponse, Simulator

_HTML = b"""<!DOCTYPE html>
<html lang=en><meta charset=utf-8><title>Error %d</title><p><b>%d.</b> That's an error.
<p>The server encountered a temporary error and could not complete your request.
"""


def get_exchange(request: Request) -> HttpExchange:
    """Return the log entry of the current request.

    Handlers set its `mailbox`, `endpoint` and `units` as soon as they are known.
    """
    return request.scope["mailsim.exchange"]


@dataclass(frozen=True)
class ProviderMiddleware:
    """The ASGI app of one route, wrapped. `endpoint` is the route's name."""

    app: ASGIApp
    sim: Simulator
    provider: Provider
    endpoint: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sim = self.sim
        path = scope["path"]
        exchange = sim.request_log.open(
            sim.clock.milliseconds(), scope["method"], path, scope["query_string"].decode("latin-1")
        )
        target = self.provider.identify_request(scope, self.endpoint)
        exchange.provider = self.provider.name
        exchange.mailbox = target.mailbox
        exchange.endpoint = target.endpoint or self.endpoint
        scope["mailsim.exchange"] = exchange
        meter = sim.meters.get(target.mailbox)
        meter.enter()
        sim.meters.concurrent[target.limit_key] += 1
        started = time.perf_counter()
        try:
            if sim.options.latency_ms:
                await asyncio.sleep(sim.options.latency_ms / 1000)
            fault = sim.faults.take_response_fault(
                exchange.mailbox, exchange.endpoint, self.provider.name, path
            )
            if sim.request_log.keep_bodies:
                receive, send = _record_bodies(exchange, scope, receive, send)
            if fault is None:
                await self.app(scope, receive, _record_status(sim, exchange, send))
            else:
                meter.faults += 1
                exchange.fault = fault.kind
                await self._respond_with_fault(fault, scope, receive, _record_status(sim, exchange, send))
        except ClientDisconnect:
            exchange.status = 0  # the client is gone
            raise
        except Exception:
            exchange.status = 500
            raise
        finally:
            exchange.duration_ms = (time.perf_counter() - started) * 1000
            meter.leave()
            sim.meters.concurrent[target.limit_key] -= 1
            served = sim.meters.get(exchange.mailbox)
            served.calls[exchange.endpoint] += 1
            served.statuses[exchange.status] += 1
            served.units += exchange.units

    async def _respond_with_fault(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.kind in REFUSALS:
            await _send_response(send, self.provider.error_response(*fault.refusal))
        elif fault.kind == "html":
            status = fault.status or 502
            page = (("content-type", "text/html; charset=UTF-8"),)
            await _send_response(send, RawResponse(status, _HTML % (status, status), page))
        elif fault.kind == "stall":
            await asyncio.sleep(fault.seconds or 30)
            await self.app(scope, receive, send)
        else:
            await self._respond_incompletely(fault, scope, receive, send)

    async def _respond_incompletely(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the handler, then send only half of its response."""
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, collect)
        start = next(message for message in messages if message["type"] == "http.response.start")
        body = b"".join(
            message.get("body", b"") for message in messages if message["type"] == "http.response.body"
        )
        half = body[: len(body) // 2]
        headers = [
            (name, value) for name, value in start.get("headers", ()) if name.lower() != b"content-length"
        ]
        length = len(half) if fault.kind == "truncated" else len(body)
        headers.append((b"content-length", str(max(length, 1 if fault.kind == "cut" else 0)).encode()))
        await send({**start, "headers": headers})
        # The server closes the connection when a body is shorter than its Content-Length.
        await send({"type": "http.response.body", "body": half, "more_body": fault.kind == "cut"})


def _record_status(sim: Simulator, exchange: HttpExchange, send: Send) -> Send:
    """Record the status, log a 501, and add a Date header with the simulator's time."""

    async def record(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            date = (b"date", _date(int(sim.clock.time())))
            message = {**message, "headers": [*message.get("headers", ()), date]}
        elif exchange.status == 501 and not exchange.fault:
            sim.log_unsimulated(message.get("body", b"").decode(errors="replace"))
        await send(message)

    return record


@lru_cache(maxsize=16)
def _date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()


def _record_bodies(
    exchange: HttpExchange, scope: Scope, receive: Receive, send: Send
) -> tuple[Receive, Send]:
    exchange.request_headers = _decode_headers(scope["headers"])

    async def receiving() -> Message:
        message = await receive()
        if message["type"] == "http.request" and len(exchange.request_body) < MAX_BODY_SIZE:
            exchange.request_body += message.get("body", b"")[:MAX_BODY_SIZE]
        return message

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.response_headers = _decode_headers(message.get("headers", ()))
        elif len(exchange.response_body) < MAX_BODY_SIZE:
            exchange.response_body += message.get("body", b"")[:MAX_BODY_SIZE]
        await send(message)

    return receiving, sending


def _decode_headers(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


async def _send_response(send: Send, reply: RawResponse) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
