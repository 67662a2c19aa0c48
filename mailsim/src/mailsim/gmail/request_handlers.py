"""Requests to the Gmail API on the wire: one call each, or a batch of them; bodies in, answers out."""

import asyncio
from collections.abc import Mapping

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from mailsim.gmail import batch, errors
from mailsim.gmail.api import JSON, GmailApi, GmailCall, GmailCallOutcome, MatchedMethod, encode, find_method
from mailsim.gmail.errors import GmailError, GmailErrorDetails
from mailsim.request_log import MAX_BODY_SIZE, HttpExchange
from mailsim.simulator import RawResponse, RequestTarget, Simulator

MAX_BODY = 64 << 20
_FIXED_HEADERS = [
    (b"vary", b"Origin, X-Origin, Referer"),
    (b"cache-control", b"private"),
    (b"x-content-type-options", b"nosniff"),
]
_BREATH = 20  # inner calls of a batch between two looks at other requests


class SingleCallHandler:
    """A request that is one call."""

    def __init__(self, gmail: GmailApi) -> None:
        self.gmail = gmail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: HttpExchange = scope["mailsim.exchange"]
        body = await _read(receive)
        if body is None:
            await _send(send, _too_large())
            return
        meter = self.gmail.realm.sim.meters.get(exchange.mailbox)
        call = GmailCall(
            http=scope["method"],
            path=_raw_path(scope),
            query=scope["query_string"].decode("latin-1"),
            headers=_headers(scope),
            body=body,
            width=meter.in_flight,
        )
        outcome = self.gmail.answer(call, find_method(call.http, call.path))
        exchange.units = outcome.units
        meter.rejections += outcome.rejected
        await _send(send, outcome.reply)


class BatchHandler:
    """A request that carries many calls. Its own headers hold for each, those of the call win."""

    def __init__(self, gmail: GmailApi) -> None:
        self.gmail = gmail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        if body is None:
            await _send(send, _too_large())
            return
        headers = _headers(scope)
        try:
            if scope["method"] != "POST":
                raise errors.not_found("Not Found")
            calls = batch.take_apart(body, batch.boundary_of(headers.get("content-type", "")))
        except GmailError as refused:
            await _send(
                send, RawResponse(refused.fault.code, encode(refused.fault.body(), pretty=True), JSON)
            )
            return
        outer = {name: value for name, value in headers.items() if not name.startswith("content-")}
        exchange: HttpExchange = scope["mailsim.exchange"]
        already = self.gmail.realm.sim.meters.get(exchange.mailbox).in_flight - 1
        opened = [self._open(inner, outer, already + place) for place, inner in enumerate(calls, 1)]
        self.gmail.read_ahead(exchange.mailbox, (found for _, found in opened))
        answers: list[batch.BatchAnswer] = []
        for place, (inner, (call, found)) in enumerate(zip(calls, opened, strict=True), 1):
            reply = self._inner(call, found, exchange, own_token="authorization" in inner.headers)
            kind = next((value for name, value in reply.headers if name == "content-type"), "")
            answers.append(
                batch.BatchAnswer(batch.answer_id(inner.content_id), reply.status, reply.body, kind)
            )
            if place % _BREATH == 0:
                await asyncio.sleep(0)
        boundary = f"batch_{exchange.number:016x}{len(body):08x}"
        content_type = (("content-type", f"multipart/mixed; boundary={boundary}"),)
        await _send(send, RawResponse(200, batch.put_together(answers, boundary), content_type))

    def _open(
        self, inner: batch.BatchCall, outer: Mapping[str, str], width: int
    ) -> tuple[GmailCall, MatchedMethod | None]:
        path, _, query = inner.target.partition("?")
        headers = {**outer, **inner.headers} if inner.headers else outer
        call = GmailCall(inner.method, path, query, headers, inner.body, width)
        return call, find_method(call.http, call.path)

    def _inner(
        self, call: GmailCall, found: MatchedMethod | None, exchange: HttpExchange, *, own_token: bool
    ) -> RawResponse:
        sim = self.gmail.realm.sim
        entry = sim.request_log.open(exchange.milliseconds, call.http, call.path, call.query, via=exchange.number)
        endpoint = found.method.endpoint if found else "unknown"
        mailbox = _mailbox(self.gmail, call.headers) if own_token else exchange.mailbox
        reply = sim.take_part_fault("gmail", mailbox, endpoint, entry)
        if reply is None:
            outcome = self.gmail.answer(call, found)
            reply = outcome.reply
        else:
            outcome = GmailCallOutcome(reply)
        _note(sim, entry, call, outcome, endpoint, mailbox)
        return reply


def _note(
    sim: Simulator,
    entry: HttpExchange,
    call: GmailCall,
    outcome: GmailCallOutcome,
    endpoint: str,
    mailbox: str,
) -> None:
    entry.provider, entry.endpoint, entry.mailbox = "gmail", endpoint, mailbox
    entry.status, entry.units = outcome.reply.status, outcome.units
    meter = sim.meters.get(mailbox)
    meter.calls[endpoint] += 1
    meter.statuses[outcome.reply.status] += 1
    meter.units += outcome.units
    meter.rejections += outcome.rejected
    if sim.request_log.keep_bodies:
        entry.request_headers = tuple(call.headers.items())
        entry.request_body = call.body[:MAX_BODY_SIZE]
        entry.response_headers = outcome.reply.headers
        entry.response_body = outcome.reply.body[:MAX_BODY_SIZE]


def caller_of(gmail: GmailApi, scope: Scope, endpoint: str) -> RequestTarget:
    """Who asks for what, before the request is read."""
    if not endpoint.startswith("gmail"):
        return RequestTarget(_mailbox(gmail, _headers(scope)), endpoint)
    found = find_method(scope["method"], _raw_path(scope))
    return RequestTarget(_mailbox(gmail, _headers(scope)), found.method.endpoint if found else "unknown")


def _mailbox(gmail: GmailApi, headers: Mapping[str, str]) -> str:
    try:
        return gmail.token_of(headers, {}).account.email
    except GmailError:
        return ""


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when it is larger than Google takes."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def _send(send: Send, reply: RawResponse) -> None:
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers]
    if reply.status != 204:
        headers.append((b"content-length", str(len(reply.body)).encode()))
    headers += _FIXED_HEADERS
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _too_large() -> RawResponse:
    fault = GmailErrorDetails(
        413, "uploadTooLarge", "Request payload size exceeds the limit.", status="INVALID_ARGUMENT"
    )
    return RawResponse(413, encode(fault.body(), pretty=True), JSON)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _raw_path(scope: Scope) -> str:
    """The path as it came: an encoded slash is part of an id."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")
