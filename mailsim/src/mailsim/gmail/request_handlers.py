"""The ASGI handlers of single and batch requests, and the mailbox and endpoint that a request targets.

They read and write HTTP, record the calls and inject faults; `api` runs the calls, `batch` parses the
envelope.
"""

import asyncio
from collections.abc import Mapping

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from mailsim.gmail import batch, errors
from mailsim.gmail.api import (
    JSON,
    GmailApi,
    GmailCall,
    GmailCallOutcome,
    MatchedMethod,
    encode_json,
    match_method,
)
from mailsim.gmail.errors import GmailError, GmailErrorBody
from mailsim.request_log import MAX_BODY_SIZE, HttpExchange
from mailsim.simulator import RawResponse, RequestTarget, Simulator

MAX_BODY = 64 << 20
_FIXED_HEADERS = [
    (b"vary", b"Origin, X-Origin, Referer"),
    (b"cache-control", b"private"),
    (b"x-content-type-options", b"nosniff"),
]
_CALLS_PER_YIELD = 20  # calls of a batch that run before other requests get a turn


class SingleCallHandler:
    """Handler of requests with one call."""

    def __init__(self, gmail: GmailApi) -> None:
        self.gmail = gmail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: HttpExchange = scope["mailsim.exchange"]
        body = await _read_body(receive)
        if body is None:
            await _send_response(send, _make_too_large_response())
            return
        meter = self.gmail.google.sim.meters.get(exchange.mailbox)
        call = GmailCall(
            http=scope["method"],
            path=_get_raw_path(scope),
            query=scope["query_string"].decode("latin-1"),
            headers=_decode_headers(scope),
            body=body,
            concurrency=meter.in_flight,
            scheme=scope["scheme"],
        )
        outcome = self.gmail.handle_call(call, self.gmail.match_call(call.http, call.path, call.query))
        exchange.units = outcome.units
        meter.rejections += outcome.quota_exceeded
        await _send_response(send, outcome.response)


class BatchHandler:
    """Handler of batch requests.

    Their headers apply to every call; a call's own headers win.
    """

    def __init__(self, gmail: GmailApi) -> None:
        self.gmail = gmail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read_body(receive)
        if body is None:
            await _send_response(send, _make_too_large_response())
            return
        headers = _decode_headers(scope)
        try:
            if scope["method"] != "POST":
                raise errors.not_found("Not Found")
            calls = batch.parse_batch(body, batch.parse_boundary(headers.get("content-type", "")))
        except GmailError as error:
            await _send_response(
                send, RawResponse(error.body.code, encode_json(error.body.to_json(), pretty=True), JSON)
            )
            return
        outer = {name: value for name, value in headers.items() if not name.startswith("content-")}
        exchange: HttpExchange = scope["mailsim.exchange"]
        in_flight = self.gmail.google.sim.meters.get(exchange.mailbox).in_flight - 1
        parsed_calls = [
            self._parse_call(inner, outer, in_flight + position) for position, inner in enumerate(calls, 1)
        ]
        self.gmail.prefetch_messages(exchange.mailbox, (matched for _, matched in parsed_calls))
        responses: list[batch.BatchResponse] = []
        for position, (inner, (call, matched)) in enumerate(zip(calls, parsed_calls, strict=True), 1):
            response = self._run_call(call, matched, exchange, own_token="authorization" in inner.headers)
            kind = next((value for name, value in response.headers if name == "content-type"), "")
            responses.append(
                batch.BatchResponse(
                    batch.to_response_id(inner.content_id), response.status, response.body, kind
                )
            )
            if position % _CALLS_PER_YIELD == 0:
                await asyncio.sleep(0)
        boundary = f"batch_{exchange.number:016x}{len(body):08x}"
        content_type = (("content-type", f"multipart/mixed; boundary={boundary}"),)
        await _send_response(send, RawResponse(200, batch.format_batch(responses, boundary), content_type))

    def _parse_call(
        self, inner: batch.BatchCall, outer: Mapping[str, str], concurrency: int
    ) -> tuple[GmailCall, MatchedMethod | None]:
        path, _, query = inner.target.partition("?")
        headers = {**outer, **inner.headers} if inner.headers else outer
        call = GmailCall(inner.method, path, query, headers, inner.body, concurrency)
        return call, match_method(call.http, call.path)

    def _run_call(
        self, call: GmailCall, matched: MatchedMethod | None, exchange: HttpExchange, *, own_token: bool
    ) -> RawResponse:
        sim = self.gmail.google.sim
        entry = sim.request_log.open(
            exchange.milliseconds, call.http, call.path, call.query, via=exchange.number
        )
        endpoint = matched.method.endpoint if matched else "unknown"
        mailbox = _find_address(self.gmail, call.headers) if own_token else exchange.mailbox
        fault = sim.take_part_fault("gmail", mailbox, endpoint, entry)
        if fault is None:
            outcome = self.gmail.handle_call(call, matched)
            if outcome.response.status == 501:
                sim.log_unsimulated(outcome.response.body.decode())
        else:
            outcome = GmailCallOutcome(sim.providers["gmail"].error_response(*fault.refusal))
        _record_call(sim, entry, call, outcome, endpoint, mailbox)
        return outcome.response


def _record_call(
    sim: Simulator,
    entry: HttpExchange,
    call: GmailCall,
    outcome: GmailCallOutcome,
    endpoint: str,
    mailbox: str,
) -> None:
    entry.provider, entry.endpoint, entry.mailbox = "gmail", endpoint, mailbox
    entry.status, entry.units = outcome.response.status, outcome.units
    meter = sim.meters.get(mailbox)
    meter.calls[endpoint] += 1
    meter.statuses[outcome.response.status] += 1
    meter.units += outcome.units
    meter.rejections += outcome.quota_exceeded
    if sim.request_log.keep_bodies:
        entry.request_headers = tuple(call.headers.items())
        entry.request_body = call.body[:MAX_BODY_SIZE]
        entry.response_headers = outcome.response.headers
        entry.response_body = outcome.response.body[:MAX_BODY_SIZE]


def identify_target(gmail: GmailApi, scope: Scope, endpoint: str) -> RequestTarget:
    """Identify mailbox and endpoint of a request before its body is read."""
    if not endpoint.startswith("gmail"):
        return RequestTarget(_find_address(gmail, _decode_headers(scope)), endpoint)
    query = scope["query_string"].decode("latin-1")
    matched = gmail.match_call(scope["method"], _get_raw_path(scope), query)
    return RequestTarget(
        _find_address(gmail, _decode_headers(scope)), matched.method.endpoint if matched else "unknown"
    )


def _find_address(gmail: GmailApi, headers: Mapping[str, str]) -> str:
    try:
        return gmail.find_token(headers, {}).account.email
    except GmailError:
        return ""


async def _read_body(receive: Receive) -> bytes | None:
    """Read the whole body; None if it exceeds Google's limit."""
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


async def _send_response(send: Send, response: RawResponse) -> None:
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in response.headers]
    if response.status != 204:
        headers.append((b"content-length", str(len(response.body)).encode()))
    headers += _FIXED_HEADERS
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _make_too_large_response() -> RawResponse:
    error_body = GmailErrorBody(
        413, "uploadTooLarge", "Request payload size exceeds the limit.", status="INVALID_ARGUMENT"
    )
    return RawResponse(413, encode_json(error_body.to_json(), pretty=True), JSON)


def _decode_headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _get_raw_path(scope: Scope) -> str:
    """Return the path without decoding it: an encoded slash is part of an ID."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")
