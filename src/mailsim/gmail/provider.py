"""Gmail over HTTP: the routes, the batch envelope, and what the rest of the simulator asks a provider for."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mailsim.gmail import batch, quota, refusal
from mailsim.gmail.api import JSON, Call, Gmail, Outcome, encode, find_method
from mailsim.gmail.refusal import Fault, Refusal
from mailsim.gmail.watch import Watch
from mailsim.google import oauth
from mailsim.google.control import Control
from mailsim.google.pubsub import PubSub
from mailsim.google.realm import Realm, account_of
from mailsim.log import LONGEST_BODY, Exchange
from mailsim.mailbox import Mailbox
from mailsim.simulator import Caller, Provider, Reply, Simulator
from mailsim.state import Change

MAX_BODY = 64 << 20
_FIXED_HEADERS = [
    (b"vary", b"Origin, X-Origin, Referer"),
    (b"cache-control", b"private"),
    (b"x-content-type-options", b"nosniff"),
]
_BREATH = 20  # inner calls of a batch between two looks at other requests


def routes(sim: Simulator) -> list[Route]:
    """Every path of Google: mail, batch, sign-in. Registers the provider."""
    realm = Realm(sim)
    gmail = Gmail(realm, PubSub(realm))
    sim.world.listeners.append(lambda mailbox, change: _heard(gmail, mailbox, change))
    sim.providers["gmail"] = _provider(gmail)
    single, batched = _Single(gmail), _Batch(gmail)
    return [
        Route("/gmail/{rest:path}", single, name="gmail"),
        Route("/upload/gmail/{rest:path}", single, name="gmail.upload"),
        Route("/resumable/upload/gmail/{rest:path}", single, name="gmail.upload"),
        Route("/batch", batched, name="batch"),
        Route("/batch/gmail/v1", batched, name="batch"),
        *oauth.routes(realm),
    ]


def _heard(gmail: Gmail, mailbox: Mailbox, change: Change) -> None:
    if mailbox.provider != "gmail":
        return
    if change.kind == "added":
        fault = gmail.realm.sim.faults.take("not_readable", mailbox.address, "messages.get", "gmail")
        if fault is not None:
            until = gmail.realm.sim.clock.milliseconds() + round((fault.seconds or 2.0) * 1000)
            gmail.hidden_until[mailbox.address, change.number] = until
    gmail.watches.heard(mailbox, change)


class _Single:
    """A request that is one call."""

    def __init__(self, gmail: Gmail) -> None:
        self.gmail = gmail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["mailsim.exchange"]
        body = await _read(receive)
        if body is None:
            await _send(send, _too_large())
            return
        meter = self.gmail.realm.sim.meters.of(exchange.mailbox)
        call = Call(
            http=scope["method"],
            path=_raw_path(scope),
            query=scope["query_string"].decode("latin-1"),
            headers=_headers(scope),
            body=body,
            width=meter.in_flight,
        )
        outcome = self.gmail.answer(call)
        exchange.units = outcome.units
        meter.rejections += outcome.rejected
        await _send(send, outcome.reply)


class _Batch:
    """A request that carries many calls. Its own headers hold for each, those of the call win."""

    def __init__(self, gmail: Gmail) -> None:
        self.gmail = gmail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        if body is None:
            await _send(send, _too_large())
            return
        headers = _headers(scope)
        try:
            if scope["method"] != "POST":
                raise refusal.not_found("Not Found")
            calls = batch.take_apart(body, batch.boundary_of(headers.get("content-type", "")))
        except Refusal as refused:
            await _send(send, Reply(refused.fault.code, encode(refused.fault.body(), pretty=True), JSON))
            return
        outer = {name: value for name, value in headers.items() if not name.startswith("content-")}
        exchange: Exchange = scope["mailsim.exchange"]
        answers: list[batch.InnerAnswer] = []
        already = self.gmail.realm.sim.meters.of(exchange.mailbox).in_flight - 1
        for place, inner in enumerate(calls, 1):
            reply = self._inner(inner, outer, exchange, already + place)
            answers.append(
                batch.InnerAnswer(
                    batch.answer_id(inner.content_id),
                    reply.status,
                    reply.body,
                    dict(reply.headers).get("content-type", ""),
                )
            )
            if place % _BREATH == 0:
                await asyncio.sleep(0)
        boundary = f"batch_{exchange.number:016x}{len(body):08x}"
        content_type = (("content-type", f"multipart/mixed; boundary={boundary}"),)
        await _send(send, Reply(200, batch.put_together(answers, boundary), content_type))

    def _inner(
        self, inner: batch.InnerCall, outer: Mapping[str, str], exchange: Exchange, width: int
    ) -> Reply:
        sim = self.gmail.realm.sim
        path, _, query = inner.target.partition("?")
        entry = sim.log.open(exchange.milliseconds, inner.method, path, query, via=exchange.number)
        call = Call(inner.method, path, query, {**outer, **inner.headers}, inner.body, width)
        endpoint, mailbox = _named(self.gmail, call)
        reply = sim.refused("gmail", mailbox, endpoint, entry)
        if reply is None:
            outcome = self.gmail.answer(call)
            reply = outcome.reply
        else:
            outcome = Outcome(reply)
        _note(sim, entry, call, outcome, endpoint, mailbox)
        return reply


def _named(gmail: Gmail, call: Call) -> tuple[str, str]:
    """Endpoint and mailbox of a call before it runs, as faults and meters want them."""
    found = find_method(call.http, call.path)
    try:
        mailbox = gmail.token_of(call.headers, {}).account.email
    except Refusal:
        mailbox = ""
    return (found.method.endpoint if found else "unknown"), mailbox


def _note(sim: Simulator, entry: Exchange, call: Call, outcome: Outcome, endpoint: str, mailbox: str) -> None:
    entry.provider, entry.endpoint, entry.mailbox = "gmail", endpoint, mailbox
    entry.status, entry.units = outcome.reply.status, outcome.units
    meter = sim.meters.of(mailbox)
    meter.calls[endpoint] += 1
    meter.statuses[outcome.reply.status] += 1
    meter.units += outcome.units
    meter.rejections += outcome.rejected
    if sim.log.bodies:
        entry.request_headers = tuple(call.headers.items())
        entry.request_body = call.body[:LONGEST_BODY]
        entry.response_headers = outcome.reply.headers
        entry.response_body = outcome.reply.body[:LONGEST_BODY]


def _provider(gmail: Gmail) -> Provider:
    async def revoke(mailbox: Mailbox, details: Mapping[str, Any]) -> int:
        account = account_of(mailbox)
        match details.get("reason", "consent"):
            case "password":
                return gmail.realm.grants.change_password(account.sub)
            case "consent":
                return gmail.realm.grants.end_grant(account.sub)
            case reason:
                gmail.realm.grants.trouble[account.sub] = str(reason)
                return 1

    async def expire_tokens(mailbox: Mailbox, _details: Mapping[str, Any]) -> int:
        return gmail.realm.grants.expire_access(account_of(mailbox).sub)

    async def expire_cursors(mailbox: Mailbox, _details: Mapping[str, Any]) -> int:
        # One more number is skipped, so that a cursor at the newest change is expired too.
        mailbox.sequence += 1
        mailbox.forget_changes()
        return 1

    def number(mailbox: Mailbox, message_id: str) -> int | None:
        try:
            return gmail.box(mailbox).number(message_id)
        except Refusal:
            return None

    return Provider(
        name="gmail",
        message_id=lambda mailbox, number: gmail.box(mailbox).ids.message(number),
        message_number=number,
        thread_id=lambda mailbox, root: gmail.box(mailbox).ids.message(root),
        folder_id=lambda _mailbox, key: key,
        refusal=lambda status, seconds: _refusal(gmail, status, seconds),
        caller=lambda scope, endpoint: _caller(gmail, scope, endpoint),
        subscriptions=lambda mailbox: [_watch(watch) for watch in gmail.watches.of(mailbox.address)],
        prefixes=("/gmail/", "/o/oauth2/", "/oauth2/", "/batch/"),
        revoke=revoke,
        expire_tokens=expire_tokens,
        expire_cursors=expire_cursors,
        controls=Control(gmail.realm, gmail.pubsub).endpoints(),
    )


def _caller(gmail: Gmail, scope: Scope, endpoint: str) -> Caller:
    headers = _headers(scope)
    try:
        mailbox = gmail.token_of(headers, {}).account.email
    except Refusal:
        mailbox = ""
    if endpoint.startswith("gmail"):
        found = find_method(scope["method"], _raw_path(scope))
        endpoint = found.method.endpoint if found else "unknown"
    return Caller(mailbox, endpoint)


def _refusal(gmail: Gmail, status: int, seconds: int) -> Reply:
    """A fault in Google's words. Gmail puts the time to wait into the text, not into a header."""
    now = gmail.realm.sim.clock.milliseconds()
    match status:
        case 401:
            fault = refusal.bad_token().fault
        case 404:
            fault = refusal.not_found().fault
        case 403:
            fault = Fault(403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits")
        case 429 if seconds:
            fault = quota.over_user("429-retry-after", "", 0, now + seconds * 1000, 0).fault
        case 429:
            text = "Resource has been exhausted (e.g. check quota)."
            fault = Fault(429, "rateLimitExceeded", text)
        case _ if status >= 500:
            fault = Fault(status, "backendError", "Backend Error")
        case _:
            fault = Fault(status, "badRequest", "Bad Request")
    return Reply(status, encode(fault.body(), pretty=True), JSON)


def _watch(watch: Watch) -> dict[str, Any]:
    return {
        "kind": "watch",
        "project": watch.project,
        "topic": watch.topic,
        "labels": sorted(watch.labels),
        "behavior": "exclude" if watch.exclude else "include",
        "expires": quota.zulu(watch.expires_ms),
    }


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when it is larger than Google takes."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def _send(send: Send, reply: Reply) -> None:
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers]
    if reply.status != 204:
        headers.append((b"content-length", str(len(reply.body)).encode()))
    headers += _FIXED_HEADERS
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _too_large() -> Reply:
    fault = Fault(413, "uploadTooLarge", "Request payload size exceeds the limit.", status="INVALID_ARGUMENT")
    return Reply(413, encode(fault.body(), pretty=True), JSON)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _raw_path(scope: Scope) -> str:
    """The path as it came: an encoded slash is part of an id."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")
