"""Every path of Google, and what the rest of the simulator asks a provider for."""

from functools import partial
from typing import Any

from starlette.routing import Route

from mailsim.errors import InvalidRequest
from mailsim.gmail import errors, quota
from mailsim.gmail.api import JSON, GmailApi, encode
from mailsim.gmail.errors import GmailErrorDetails
from mailsim.gmail.ids import is_message_id
from mailsim.gmail.methods import METHODS
from mailsim.gmail.request_handlers import BatchHandler, SingleCallHandler, caller_of
from mailsim.gmail.watches import GmailWatch
from mailsim.google import oauth
from mailsim.google.context import GoogleContext, account_of
from mailsim.google.control import GoogleControl
from mailsim.google.grants import ACCOUNT_PROBLEMS
from mailsim.google.pubsub import PubSub
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange
from mailsim.provider_actions import RevocationRequest
from mailsim.simulator import Provider, RawResponse, Simulator

_FAULT_CODES = {
    "token_error": frozenset({"", *oauth.ERRORS}),
    "push_token": frozenset({"aud", "email", "expired", "iss", "signature", "unverified"}),
}


def routes(sim: Simulator) -> list[Route]:
    """Every path of Google: mail, batch, sign-in. Registers the provider."""
    realm = GoogleContext(sim)
    gmail = GmailApi(realm, PubSub(realm))
    sim.registry.change_listeners.append(lambda mailbox, change: _heard(gmail, mailbox, change))
    sign_in = oauth.routes(realm)
    names = {method.endpoint for method in METHODS} | {route.name for route in sign_in}
    sim.providers["gmail"] = _provider(gmail, names | {"batch", "push", "unknown"})
    single, batched = SingleCallHandler(gmail), BatchHandler(gmail)
    return [
        Route("/gmail/{rest:path}", single, name="gmail"),
        Route("/upload/gmail/{rest:path}", single, name="gmail.upload"),
        Route("/resumable/upload/gmail/{rest:path}", single, name="gmail.upload"),
        Route("/batch", batched, name="batch"),
        Route("/batch/gmail/v1", batched, name="batch"),
        *sign_in,
    ]


def _heard(gmail: GmailApi, mailbox: Mailbox, change: MailboxChange) -> None:
    if mailbox.provider != "gmail":
        return
    if change.kind == "added":
        fault = gmail.realm.sim.faults.take("not_readable", mailbox.address, "messages.get", "gmail")
        if fault is not None:
            until = gmail.realm.sim.clock.milliseconds() + round((fault.seconds or 2.0) * 1000)
            gmail.hidden_until[mailbox.address, change.number] = until
    gmail.watches.heard(mailbox, change)


async def _revoke(gmail: GmailApi, mailbox: Mailbox, order: RevocationRequest) -> int:
    account = account_of(mailbox)
    if order.client_id:
        raise InvalidRequest("at Gmail a revocation is for every client of the account")
    match order.reason:
        case "password":
            return gmail.realm.grants.change_password(account.sub)
        case "consent":
            return gmail.realm.grants.end_grant(account.sub)
        case reason if reason in ACCOUNT_PROBLEMS:
            gmail.realm.grants.trouble[account.sub] = reason
            return 1
        case reason:
            known = ", ".join(("consent", "password", *ACCOUNT_PROBLEMS))
            raise InvalidRequest(f"no reason {reason!r}; there are {known}")


def _provider(gmail: GmailApi, names: set[str]) -> Provider:
    async def expire_tokens(mailbox: Mailbox) -> int:
        return gmail.realm.grants.expire_access(account_of(mailbox).sub)

    async def expire_cursors(mailbox: Mailbox) -> int:
        # One more number is skipped, so that a cursor at the newest change is expired too.
        mailbox.sequence += 1
        mailbox.forget_changes()
        return 1

    def number(mailbox: Mailbox, message_id: str) -> int | None:
        found = gmail.box(mailbox).ids.number(message_id) if is_message_id(message_id) else -1
        return found if mailbox.state(found) is not None else None

    return Provider(
        name="gmail",
        message_id=lambda mailbox, number: gmail.box(mailbox).ids.message(number),
        message_number=number,
        thread_id=lambda mailbox, root: gmail.box(mailbox).ids.message(root),
        folder_id=lambda _mailbox, key: key,
        error_response=lambda status, seconds: _refusal(gmail, status, seconds),
        identify_request=lambda scope, endpoint: caller_of(gmail, scope, endpoint),
        subscriptions=lambda mailbox: [_watch(watch) for watch in gmail.watches.of(mailbox.address)],
        endpoints=frozenset(names),
        fault_codes=_FAULT_CODES,
        prefixes=("/gmail/", "/o/oauth2/", "/oauth2/", "/batch/"),
        revoke=partial(_revoke, gmail),
        expire_tokens=expire_tokens,
        expire_cursors=expire_cursors,
        controls=GoogleControl(gmail.realm, gmail.pubsub).endpoints(),
    )


def _refusal(gmail: GmailApi, status: int, seconds: int) -> RawResponse:
    """A fault in Google's words. Gmail puts the time to wait into the text, not into a header."""
    now = gmail.realm.sim.clock.milliseconds()
    match status:
        case 401:
            fault = errors.bad_token().fault
        case 404:
            fault = errors.not_found().fault
        case 403:
            fault = GmailErrorDetails(
                403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits"
            )
        case 429 if seconds:
            fault = quota.over_user("429-retry-after", "", 0, now + seconds * 1000, 0).fault
        case 429:
            text = "Resource has been exhausted (e.g. check quota)."
            fault = GmailErrorDetails(429, "rateLimitExceeded", text)
        case _ if status >= 500:
            fault = GmailErrorDetails(status, "backendError", "Backend Error")
        case _:
            fault = GmailErrorDetails(status, "badRequest", "Bad Request")
    return RawResponse(status, encode(fault.body(), pretty=True), JSON)


def _watch(watch: GmailWatch) -> dict[str, Any]:
    return {
        "kind": "watch",
        "project": watch.project,
        "topic": watch.topic,
        "labels": sorted(watch.labels),
        "behavior": "exclude" if watch.exclude else "include",
        "expires": quota.zulu(watch.expires_ms),
    }
