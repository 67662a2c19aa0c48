"""The layer around every provider's route: request log, meters, latency, and faults in the answer.

It knows neither provider's shapes: error bodies come from the provider. What happens inside a batch is up to
the provider, which asks `Simulator.refused` for each part.
"""

import asyncio
import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailsim.faults import Fault
from mailsim.log import LONGEST_BODY, Exchange
from mailsim.simulator import Provider, Reply, Simulator

_HTML = b"""<!DOCTYPE html>
<html lang=en><meta charset=utf-8><title>Error %d</title><p><b>%d.</b> That's an error.
<p>The server encountered a temporary error and could not complete your request.
"""


def exchange_of(request: Request) -> Exchange:
    """The log entry of the request being handled: set `mailbox`, `endpoint` and `units` as soon as they are
    known.
    """
    return request.scope["mailsim.exchange"]


@dataclass(frozen=True)
class Gate:
    """Wraps the ASGI app of one route. `endpoint` is the route's name."""

    app: ASGIApp
    sim: Simulator
    provider: Provider
    endpoint: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sim = self.sim
        path = scope["path"]
        exchange = sim.log.open(
            sim.clock.milliseconds(), scope["method"], path, scope["query_string"].decode("latin-1")
        )
        caller = self.provider.caller(scope, self.endpoint)
        exchange.provider = self.provider.name
        exchange.mailbox = caller.mailbox
        exchange.endpoint = caller.endpoint or self.endpoint
        scope["mailsim.exchange"] = exchange
        meter = sim.meters.of(caller.mailbox)
        meter.enter()
        sim.meters.flying[caller.budget] += 1
        started = time.perf_counter()
        try:
            if sim.options.latency_ms:
                await asyncio.sleep(sim.options.latency_ms / 1000)
            fault = sim.faults.take_answer(exchange.mailbox, exchange.endpoint, self.provider.name, path)
            if sim.log.bodies:
                receive, send = _recorded(exchange, scope, receive, send)
            if fault is None:
                await self.app(scope, receive, _noting(sim, exchange, send))
            else:
                meter.faults += 1
                exchange.fault = fault.kind
                await self._faulty(fault, scope, receive, _noting(sim, exchange, send))
        except ClientDisconnect:
            exchange.status = 0  # nobody is there to be answered
            raise
        except Exception:
            exchange.status = 500
            raise
        finally:
            exchange.duration_ms = (time.perf_counter() - started) * 1000
            meter.leave()
            sim.meters.flying[caller.budget] -= 1
            served = sim.meters.of(exchange.mailbox)
            served.calls[exchange.endpoint] += 1
            served.statuses[exchange.status] += 1
            served.units += exchange.units

    async def _faulty(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.kind == "throttle":
            await _answer(send, self.provider.refusal(429, fault.retry_after))
        elif fault.kind == "error":
            await _answer(send, self.provider.refusal(fault.status or 503, fault.retry_after))
        elif fault.kind == "html":
            status = fault.status or 502
            page = (("content-type", "text/html; charset=UTF-8"),)
            await _answer(send, Reply(status, _HTML % (status, status), page))
        elif fault.kind == "stall":
            await asyncio.sleep(fault.seconds or 30)
            await self.app(scope, receive, send)
        else:
            await self._damaged(fault, scope, receive, send)

    async def _damaged(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        """The handler does its work; its answer arrives in part."""
        kept: list[Message] = []

        async def keep(message: Message) -> None:
            kept.append(message)

        await self.app(scope, receive, keep)
        start = next(message for message in kept if message["type"] == "http.response.start")
        body = b"".join(
            message.get("body", b"") for message in kept if message["type"] == "http.response.body"
        )
        half = body[: len(body) // 2]
        headers = [
            (name, value) for name, value in start.get("headers", ()) if name.lower() != b"content-length"
        ]
        length = len(half) if fault.kind == "truncated" else len(body)
        headers.append((b"content-length", str(max(length, 1 if fault.kind == "cut" else 0)).encode()))
        await send({**start, "headers": headers})
        # A body that ends before its content-length makes the server close the connection.
        await send({"type": "http.response.body", "body": half, "more_body": fault.kind == "cut"})


def _noting(sim: Simulator, exchange: Exchange, send: Send) -> Send:
    """Note the status, and say when the answer was given, by the simulation's clock."""

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            date = (b"date", _date(int(sim.clock.time())))
            message = {**message, "headers": [*message.get("headers", ()), date]}
        await send(message)

    return noting


@lru_cache(maxsize=16)
def _date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()


def _recorded(exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    exchange.request_headers = _texts(scope["headers"])

    async def receiving() -> Message:
        message = await receive()
        if message["type"] == "http.request" and len(exchange.request_body) < LONGEST_BODY:
            exchange.request_body += message.get("body", b"")[:LONGEST_BODY]
        return message

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.response_headers = _texts(message.get("headers", ()))
        elif len(exchange.response_body) < LONGEST_BODY:
            exchange.response_body += message.get("body", b"")[:LONGEST_BODY]
        await send(message)

    return receiving, sending


def _texts(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


async def _answer(send: Send, reply: Reply) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
