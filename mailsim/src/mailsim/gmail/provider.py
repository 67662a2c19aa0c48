"""The routes of Gmail, Google sign-in, directory and Pub/Sub, and the simulator's Provider interface.

It connects the modules; the endpoints are elsewhere.
"""

import re
from functools import partial
from typing import Any

from starlette.routing import Route

from mailsim.admin_directory.api import DirectoryApi
from mailsim.cloud_pubsub.api import PubSubApi
from mailsim.errors import InvalidRequest
from mailsim.gmail import errors, quota
from mailsim.gmail.api import JSON, GmailApi, encode_json
from mailsim.gmail.errors import GmailErrorBody
from mailsim.gmail.ids import is_message_id
from mailsim.gmail.methods import METHODS
from mailsim.gmail.request_handlers import BatchHandler, SingleCallHandler, identify_target
from mailsim.gmail.saved_state import make_state
from mailsim.gmail.watches import GmailWatch
from mailsim.google import oauth
from mailsim.google.context import GoogleContext, to_account
from mailsim.google.control import GoogleControl
from mailsim.google.grants import ACCOUNT_PROBLEMS
from mailsim.google.pubsub import PubSub
from mailsim.google.workspace_control import WorkspaceControl
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange
from mailsim.provider_actions import ProviderNames, RevocationRequest
from mailsim.simulator import Provider, RawResponse, Simulator

# Google's other APIs and the discovery documents.
_OTHER_APIS = re.compile(
    r"/(?:calendar|discovery|drive|\$discovery|people|upload/drive)/|/v1/(?:contactGroups|people)"
)
_FAULT_CODES = {
    "token_error": ["", *oauth.FAULT_ERRORS],
    "push_token": ["aud", "email", "expired", "iss", "signature", "unverified"],
}


def routes(sim: Simulator) -> list[Route]:
    """Make the routes for mail, batch requests and sign-in, and register the provider."""
    google = GoogleContext(sim)
    gmail = GmailApi(google, PubSub(google))
    sim.registry.change_listeners.append(lambda mailbox, change: _handle_change(gmail, mailbox, change))
    sign_in = oauth.routes(google)
    other = [*DirectoryApi(gmail).routes(), *PubSubApi(gmail).routes()]
    names = {method.endpoint for method in METHODS} | {route.name for route in (*sign_in, *other)}
    sim.providers["gmail"] = _make_provider(gmail, names | {"batch", "push", "unknown"})
    single, batched = SingleCallHandler(gmail), BatchHandler(gmail)
    return [
        Route("/gmail/{rest:path}", single, name="gmail"),
        Route("/upload/gmail/{rest:path}", single, name="gmail.upload"),
        Route("/resumable/upload/gmail/{rest:path}", single, name="gmail.upload"),
        Route("/batch", batched, name="batch"),
        Route("/batch/gmail/v1", batched, name="batch"),
        *sign_in,
        *other,
    ]


def _handle_change(gmail: GmailApi, mailbox: Mailbox, change: MailboxChange) -> None:
    if mailbox.provider != "gmail":
        return
    if change.kind == "added":
        fault = gmail.google.sim.faults.take("not_readable", mailbox.address, "messages.get", "gmail")
        if fault is not None:
            until = gmail.google.sim.clock.milliseconds() + round((fault.seconds or 2.0) * 1000)
            gmail.hidden_until[mailbox.address, change.number] = until
    gmail.watches.publish_change(mailbox, change)


async def _revoke_access(gmail: GmailApi, mailbox: Mailbox, request: RevocationRequest) -> int:
    account = to_account(mailbox)
    if request.client_id:
        raise InvalidRequest("client_id is not supported at Gmail, where all clients lose access")
    match request.reason:
        case "password":
            return gmail.google.grants.change_password(account.sub)
        case "consent":
            return gmail.google.grants.end_grant(account.sub)
        case problem:
            gmail.google.grants.account_problems[account.sub] = problem
            return 1


def _make_provider(gmail: GmailApi, names: set[str]) -> Provider:
    async def expire_tokens(mailbox: Mailbox) -> int:
        return gmail.google.grants.expire_access_tokens(to_account(mailbox).sub)

    async def expire_cursors(mailbox: Mailbox) -> int:
        # Skip one more number, so that a cursor at the newest change expires too.
        mailbox.sequence += 1
        mailbox.forget_changes()
        return 1

    def number(mailbox: Mailbox, message_id: str) -> int | None:
        found = gmail.get_mailbox(mailbox).ids.to_number(message_id) if is_message_id(message_id) else -1
        return found if mailbox.state(found) is not None else None

    return Provider(
        name="gmail",
        message_id=lambda mailbox, number: gmail.get_mailbox(mailbox).ids.to_message_id(number),
        message_number=number,
        thread_id=lambda mailbox, root: gmail.get_mailbox(mailbox).ids.to_message_id(root),
        folder_id=lambda _mailbox, key: key,
        error_response=lambda status, seconds: _make_fault_response(gmail, status, seconds),
        identify_request=lambda scope, endpoint: identify_target(gmail, scope, endpoint),
        subscriptions=lambda mailbox: [
            _to_watch_json(watch) for watch in gmail.watches.list_for(mailbox.address)
        ],
        names=ProviderNames(sorted(names), _FAULT_CODES, ["consent", "password", *ACCOUNT_PROBLEMS]),
        prefixes=("/gmail/", "/o/oauth2/", "/oauth2/", "/batch/", "/admin/", "/v1/projects/"),
        unsimulated=_OTHER_APIS,
        revoke=partial(_revoke_access, gmail),
        expire_tokens=expire_tokens,
        expire_cursors=expire_cursors,
        controls=(
            *GoogleControl(gmail.google, gmail.pubsub).endpoints(),
            *WorkspaceControl(gmail.google).endpoints(),
        ),
        state=make_state(gmail),
    )


def _make_fault_response(gmail: GmailApi, status: int, seconds: int) -> RawResponse:
    """Make Google's response to a fault.

    Gmail puts the retry time into the message, not into a header.
    """
    now = gmail.google.sim.clock.milliseconds()
    match status:
        case 401:
            error_body = errors.bad_token().body
        case 404:
            error_body = errors.not_found().body
        case 403:
            error_body = GmailErrorBody(
                403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits"
            )
        case 429 if seconds:
            error_body = quota.user_limit_exceeded("429-retry-after", "", 0, now + seconds * 1000, 0).body
        case 429:
            text = "Resource has been exhausted (e.g. check quota)."
            error_body = GmailErrorBody(429, "rateLimitExceeded", text)
        case _ if status >= 500:
            error_body = GmailErrorBody(status, "backendError", "Backend Error")
        case _:
            error_body = GmailErrorBody(status, "badRequest", "Bad Request")
    headers = (*JSON, *error_body.list_challenges())
    return RawResponse(status, encode_json(error_body.to_json(), pretty=True), headers)


def _to_watch_json(watch: GmailWatch) -> dict[str, Any]:
    return {
        "kind": "watch",
        "project": watch.project,
        "topic": watch.topic,
        "labels": sorted(watch.labels),
        "behavior": "exclude" if watch.exclude else "include",
        "expires": quota.format_timestamp(watch.expires_ms),
    }
