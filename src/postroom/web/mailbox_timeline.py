"""The timeline of a mailbox: its ledger entries in plain words, newest first."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.api_types import LedgerEntryResource
from postroom.model import ContentPolicy
from postroom.store.views import actor_names, mail, mailbox_timeline
from postroom.web import forms, pages
from postroom.web.formats import Formats
from postroom.web.mailboxes import POLICY_NAMES
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 50
Payload = Mapping[str, Any]


class TimelineEntry(NamedTuple):
    """An entry as the page shows it. `actor` is empty if Postroom acted by itself."""

    title: str
    detail: str
    is_problem: bool
    actor: str | None
    occurred_at: datetime


def routes(site: SiteContext) -> list[Route]:
    return [member_route(site, "/mailboxes/{mailbox:uuid}/timeline", partial(timeline_page, site))]


async def timeline_page(site: SiteContext, request: Request) -> Response:
    formats = pages.get_formats(request)
    id_ = request.path_params["mailbox"]
    below = forms.parse_number(request.query_params.get("below"))
    async with site.database.transaction(get_visitor(request).organization) as connection:
        mailbox = await mail.get_mailbox(connection, id_)
        if mailbox is None:
            raise HTTPException(404)
        found = await mailbox_timeline.list_entries(connection, id_, below=below, limit=PAGE_SIZE + 1)
        names = await actor_names.find_names(connection, [entry.actor_id for entry in found])
    shown = found[:PAGE_SIZE]
    return pages.render_page(
        request,
        "mailbox_timeline.html",
        mailbox=mailbox,
        entries=[describe_entry(entry, names, formats) for entry in shown],
        older=shown[-1].id if len(found) > PAGE_SIZE else None,
        is_newest=below is None,
        now=datetime.now(UTC),
    )


def describe_entry(entry: LedgerEntryResource, names: Mapping[str, str], formats: Formats) -> TimelineEntry:
    """Describe an entry. An event that has no description here is shown by its name."""
    title, describe = _DESCRIPTIONS.get(
        entry.event_type, (entry.event_type.replace("_", " ").capitalize(), _no_detail)
    )
    return TimelineEntry(
        title,
        describe(entry.payload, formats),
        _is_problem(entry),
        names.get(entry.actor_id, entry.actor_id) if entry.actor_id else None,
        entry.occurred_at,
    )


def _is_problem(entry: LedgerEntryResource) -> bool:
    if entry.event_type == "AUDIT_COMPLETED":
        return _count_differences(entry.payload) > 0
    return entry.event_type in _PROBLEMS


def _no_detail(_payload: Payload, _formats: Formats) -> str:
    return ""


def _describe_error(payload: Payload, _formats: Formats) -> str:
    return str(payload.get("error") or "")


def _describe_policy(payload: Payload, _formats: Formats) -> str:
    policy = payload.get("policy")
    return f"Content policy: {POLICY_NAMES[ContentPolicy(policy)]}." if policy in set(ContentPolicy) else ""


def _describe_disconnect(payload: Payload, _formats: Formats) -> str:
    return "Stored mail was deleted." if payload.get("purged") else "Stored mail was kept."


def _describe_sync(payload: Payload, formats: Formats) -> str:
    errors, messages = payload.get("errors", 0), payload.get("messages_synced", 0)
    return f"{_count(formats, errors, 'item')} failed; {_count(formats, messages, 'message')} synced."


def _describe_sync_request(payload: Payload, _formats: Formats) -> str:
    return "Lists the whole mailbox again." if payload.get("full") else ""


def _count_differences(payload: Payload) -> int:
    return sum(payload.get(name, 0) for name in ("missing", "extra", "different"))


def _describe_audit(payload: Payload, formats: Formats) -> str:
    compared = f"{_count(formats, payload.get('listed', 0), 'message')} compared"
    return f"{compared}: {_describe_differences(payload, formats)}"


def _describe_differences(payload: Payload, formats: Formats) -> str:
    parts = [
        f"{formats.count(payload[name])} {name}"
        for name in ("missing", "extra", "different")
        if payload.get(name)
    ]
    return f"{', '.join(parts)}." if parts else "no differences."


def _describe_missed(payload: Payload, formats: Formats) -> str:
    start, end = (_moment(formats, payload.get(name)) for name in ("missed_from", "missed_until"))
    return f"From {start} until {end}."


def _describe_end(payload: Payload, _formats: Formats) -> str:
    return (
        "New mail arrived without pushes."
        if payload.get("silent")
        else "Postroom polls for new mail until it is replaced."
    )


def _describe_expiry(payload: Payload, formats: Formats) -> str:
    return f"Expires {_moment(formats, payload['expires_at'])}." if payload.get("expires_at") else ""


def _describe_rejection(payload: Payload, formats: Formats) -> str:
    return f"{_count(formats, payload.get('count', 0), 'notification')} with a wrong secret."


def _moment(formats: Formats, text: object) -> str:
    try:
        return formats.moment(datetime.fromisoformat(str(text)))
    except ValueError:
        return "an unknown time"


def _count(formats: Formats, number: int, noun: str) -> str:
    return f"{formats.count(number)} {noun if number == 1 else noun + 's'}"


# Title and detail by event. `docs/ledger.md` explains the payloads.
_DESCRIPTIONS: Final[Mapping[str, tuple[str, Callable[[Payload, Formats], str]]]] = {
    "MAILBOX_CONNECTED": ("Connected", _describe_policy),
    "MAILBOX_RECONNECTED": ("Reconnected", _describe_policy),
    "MAILBOX_PAUSED": ("Paused", _no_detail),
    "MAILBOX_RESUMED": ("Resumed", _no_detail),
    "MAILBOX_POLICY_CHANGED": ("Content policy changed", _describe_policy),
    "MAILBOX_DISCONNECTED": ("Disconnected", _describe_disconnect),
    "MAILBOX_REVOKED": ("Access revoked at the provider", _no_detail),
    "MAILBOX_REFUSED": ("Access denied by the provider", _describe_error),
    "TOKEN_REFRESH_FAILED": ("Consent lost: reconnect the mailbox", _describe_error),
    "SYNC_REQUESTED": ("Sync requested", _describe_sync_request),
    "SYNC_COMPLETED": ("Sync with errors", _describe_sync),
    "NOTIFICATIONS_MISSED": ("Notifications missed; a full sync followed", _describe_missed),
    "NOTIFICATION_REFUSED": ("Notifications rejected", _describe_rejection),
    "MESSAGE_PARKED": ("Message parked: workers crashed or stalled on it", _no_detail),
    "AUDIT_REQUESTED": ("Audit requested", _no_detail),
    "AUDIT_COMPLETED": ("Audit completed", _describe_audit),
    "AUDIT_REPAIR_STARTED": ("Repair started", _describe_differences),
    "SUBSCRIPTION_CREATED": ("Subscription created", _describe_expiry),
    "SUBSCRIPTION_ADOPTED": ("Subscription recovered", _describe_expiry),
    "SUBSCRIPTION_RECREATED": ("Subscription replaced", _describe_expiry),
    "SUBSCRIPTION_EXPIRED": ("Subscription ended", _describe_end),
    "SUBSCRIPTION_REMOVED": ("Subscription removed by the provider", _describe_end),
}
_PROBLEMS: Final = frozenset(
    {
        "MAILBOX_REFUSED",
        "TOKEN_REFRESH_FAILED",
        "SYNC_COMPLETED",
        "NOTIFICATION_REFUSED",
        "MESSAGE_PARKED",
        "SUBSCRIPTION_EXPIRED",
        "SUBSCRIPTION_REMOVED",
    }
)
