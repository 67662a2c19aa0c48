"""Add, change and remove the destinations of notices, and record each change in the ledger.

The ledger entry holds the medium, never an address or a URL. `send_notices` sends notices, tests included.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from postroom.errors import PermanentError
from postroom.flow.outbound.send_notices import NO_MAIL_SERVER, NoticeContext, url_context
from postroom.flow.outbound.webhook_urls import check_url
from postroom.model import OrganizationId, Secret, WorkKind
from postroom.notice_types import NoticeMedium
from postroom.ports import SealedSecret
from postroom.store import ledger, notices, organizations, work
from postroom.store.connection import Connection
from postroom.store.ledger import NewLedgerEntry
from postroom.store.notices import NoticeDestination, NoticeSelection
from postroom.store.work import WorkRequest

MAX_DESTINATIONS: Final = 20
MAX_ADDRESSES: Final = 20
MAX_NAME: Final = 100
MIN_REVIEW_HOURS: Final = 0.25
MAX_REVIEW_HOURS: Final = 8760.0
MEDIUM_NAMES: Final = {
    NoticeMedium.EMAIL: "Email",
    NoticeMedium.SLACK: "Slack",
    NoticeMedium.TEAMS: "Microsoft Teams",
}
# No quotes, spaces or control characters: what a header or an SMTP command could misread.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True)
class DestinationInput:
    """What a person or a program enters. Without `url`, a changed destination keeps its own."""

    name: str
    addresses: Sequence[str]
    url: Secret | None
    selection: NoticeSelection


async def add(
    context: NoticeContext,
    organization: OrganizationId,
    medium: NoticeMedium,
    given: DestinationInput,
    *,
    actor: str | None = None,
) -> NoticeDestination:
    """Add a destination. Its first notice announces all current conditions, later ones the changes."""
    destination = uuid4()
    _check_input(context, medium, given)
    if medium is not NoticeMedium.EMAIL and given.url is None:
        raise PermanentError(f"{MEDIUM_NAMES[medium]} needs the URL of an incoming webhook.")
    async with context.database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
        if await notices.count(connection) >= MAX_DESTINATIONS:
            raise PermanentError(f"An organization has at most {MAX_DESTINATIONS} destinations. Remove one.")
        await _check_time_zone(connection, given.selection)
        await notices.add(
            connection,
            destination,
            given.name.strip() or MEDIUM_NAMES[medium],
            medium,
            addresses=given.addresses,
            url=_seal_url(context, organization, destination, given.url),
            selection=given.selection,
        )
        await _schedule(connection, organization, destination)
        await _record_event(connection, organization, "NOTICE_DESTINATION_ADDED", destination, medium, actor)
        added = await notices.get(connection, destination)
    assert added is not None, "added in this transaction"
    return added


async def change(
    context: NoticeContext,
    organization: OrganizationId,
    destination: NoticeDestination,
    given: DestinationInput,
    *,
    actor: str | None = None,
) -> None:
    medium = destination.medium
    _check_input(context, medium, given)
    async with context.database.transaction(organization) as connection:
        await _check_time_zone(connection, given.selection)
        # First, as a worker locks the work before the destination: the other order deadlocks.
        await _schedule(connection, organization, destination.id)
        await notices.update(
            connection,
            destination.id,
            given.name.strip() or MEDIUM_NAMES[medium],
            addresses=given.addresses,
            url=_seal_url(context, organization, destination.id, given.url),
            selection=given.selection,
        )
        event = "NOTICE_DESTINATION_CHANGED"
        await _record_event(connection, organization, event, destination.id, medium, actor)


async def remove(
    context: NoticeContext,
    organization: OrganizationId,
    destination: NoticeDestination,
    *,
    actor: str | None = None,
) -> None:
    async with context.database.transaction(organization) as connection:
        await work.delete_by_subject(connection, str(destination.id))
        if await notices.remove(connection, destination.id):
            event = "NOTICE_DESTINATION_REMOVED"
            await _record_event(connection, organization, event, destination.id, destination.medium, actor)


def parse_addresses(text: str) -> list[str]:
    """Split addresses at commas, semicolons and white space."""
    return list(dict.fromkeys(address for address in re.split(r"[\s,;]+", text) if address))


def _check_input(context: NoticeContext, medium: NoticeMedium, given: DestinationInput) -> None:
    if len(given.name) > MAX_NAME or not given.name.isprintable():
        raise PermanentError(f"A name can have at most {MAX_NAME} printable characters.")
    if medium is NoticeMedium.EMAIL:
        _check_addresses(given)
        if context.send_mail is None:
            raise PermanentError(f"Email cannot be sent: {NO_MAIL_SERVER}.")
    elif given.addresses:
        raise PermanentError(f"{MEDIUM_NAMES[medium]} takes a URL, not email addresses.")
    elif given.url is not None:
        check_url(given.url.reveal(), allows_http=context.allows_http)
    _check_selection(given.selection)


def _check_addresses(given: DestinationInput) -> None:
    if given.url is not None:
        raise PermanentError("Email takes addresses, not a URL.")
    if not 1 <= len(given.addresses) <= MAX_ADDRESSES:
        raise PermanentError(f"Email needs 1 to {MAX_ADDRESSES} addresses.")
    if not all(_ADDRESS.fullmatch(address) for address in given.addresses):
        raise PermanentError("An email address is not valid. Enter addresses such as ap@example.com.")


def _check_selection(selection: NoticeSelection) -> None:
    if not MIN_REVIEW_HOURS <= selection.review_hours <= MAX_REVIEW_HOURS:
        raise PermanentError(
            f"The limit of the review queue must be {MIN_REVIEW_HOURS:g} to {MAX_REVIEW_HOURS:g} hours."
        )
    hours = selection.quiet_from, selection.quiet_until
    if hours == (None, None):
        return
    if not all(hour is not None and _TIME.fullmatch(hour) for hour in hours):
        raise PermanentError("Quiet hours need a start and an end such as 22:00 and 07:00.")
    if hours[0] == hours[1]:
        raise PermanentError("Quiet hours cannot start and end at the same time. Change one of them.")


async def _check_time_zone(connection: Connection, selection: NoticeSelection) -> None:
    if not await notices.is_time_zone(connection, selection.time_zone):
        raise PermanentError("The time zone is not known. Enter a name such as Europe/Berlin, or UTC.")


def _seal_url(
    context: NoticeContext, organization: OrganizationId, destination: UUID, url: Secret | None
) -> SealedSecret | None:
    return context.sealer.seal(url_context(organization, destination), url) if url else None


async def _schedule(connection: Connection, organization: OrganizationId, destination: UUID) -> None:
    await work.restart(connection, [WorkRequest(organization, WorkKind.SEND_NOTICES, str(destination))])


async def _record_event(
    connection: Connection,
    organization: OrganizationId,
    event: str,
    destination: UUID,
    medium: NoticeMedium,
    actor: str | None,
) -> None:
    entry = NewLedgerEntry(event, "notice_destination", str(destination), actor, {"medium": medium.value})
    await ledger.append_entries(connection, organization, [entry])
