"""API operations on the destinations of notices: list, get, add, change, remove, test."""

from typing import Any
from uuid import UUID

import msgspec

from postroom.api_types import ResultPage
from postroom.api_types.notices import (
    NewNoticeDestination,
    NoticeDestinationChange,
    NoticeDestinationResource,
    NoticeTestResult,
)
from postroom.flow.outbound import notices as flow
from postroom.flow.outbound import send_notices
from postroom.flow.outbound.notices import DestinationInput
from postroom.model import Scope, Secret
from postroom.store import notices as stored
from postroom.store.notices import NoticeDestination, NoticeSelection
from postroom.web.api.operations import ApiCall, NoParameters, Operation, require_found


class NoticeDestinationPath(msgspec.Struct, frozen=True):
    destination: UUID


async def list_notice_destinations(
    call: ApiCall[NoParameters, NoParameters, None],
) -> ResultPage[NoticeDestinationResource]:
    """List the destinations of notices."""
    async with call.transaction() as connection:
        return ResultPage([_to_resource(each) for each in await stored.list_all(connection)], None)


async def get_notice_destination(
    call: ApiCall[NoticeDestinationPath, NoParameters, None],
) -> NoticeDestinationResource:
    """Get a destination with the result of its last notice."""
    return _to_resource(await _get_destination(call))


async def add_notice_destination(
    call: ApiCall[NoParameters, NoParameters, NewNoticeDestination],
) -> NoticeDestinationResource:
    """Add a destination. Its first notice announces all current problems, later ones the changes."""
    body = call.body
    given = DestinationInput(
        body.name,
        body.addresses,
        Secret(body.url) if body.url else None,
        NoticeSelection(body.kinds, body.review_hours, body.quiet_from, body.quiet_until, body.time_zone),
    )
    added = await flow.add(
        call.context.notices, call.caller.organization, body.medium, given, actor=call.caller.actor
    )
    return _to_resource(added)


async def change_notice_destination(
    call: ApiCall[NoticeDestinationPath, NoParameters, NoticeDestinationChange],
) -> NoticeDestinationResource:
    """Change a destination. Its medium cannot be changed."""
    body, old = call.body, await _get_destination(call)
    given = DestinationInput(
        old.name if body.name is None else body.name,
        old.addresses if body.addresses is None else body.addresses,
        Secret(body.url) if body.url else None,
        NoticeSelection(
            old.kinds if body.kinds is None else body.kinds,
            old.review_hours if body.review_hours is None else body.review_hours,
            old.quiet_from if body.quiet_from is None else body.quiet_from or None,
            old.quiet_until if body.quiet_until is None else body.quiet_until or None,
            old.time_zone if body.time_zone is None else body.time_zone,
        ),
    )
    caller = call.caller
    await flow.change(call.context.notices, caller.organization, old, given, actor=caller.actor)
    return _to_resource(await _get_destination(call))


async def remove_notice_destination(call: ApiCall[NoticeDestinationPath, NoParameters, None]) -> None:
    """Remove a destination."""
    caller, found = call.caller, await _get_destination(call)
    await flow.remove(call.context.notices, caller.organization, found, actor=caller.actor)


async def test_notice_destination(
    call: ApiCall[NoticeDestinationPath, NoParameters, None],
) -> NoticeTestResult:
    """Send a test notice now, even in quiet hours."""
    found = await _get_destination(call)
    caller = call.caller
    result = await send_notices.send_test(
        call.context.notices, caller.organization, found, actor=caller.actor
    )
    return NoticeTestResult(result.sent, result.error)


async def _get_destination(call: ApiCall[NoticeDestinationPath, Any, Any]) -> NoticeDestination:
    async with call.transaction() as connection:
        return require_found(await stored.get(connection, call.path.destination), "destination")


def _to_resource(destination: NoticeDestination) -> NoticeDestinationResource:
    names = NoticeDestinationResource.__struct_fields__
    return NoticeDestinationResource(**{name: getattr(destination, name) for name in names})


OPERATIONS = [
    Operation("GET", "/notices", list_notice_destinations, Scope.ORGANIZATION, "Notices"),
    Operation("POST", "/notices", add_notice_destination, Scope.ORGANIZATION, "Notices", 201),
    Operation("GET", "/notices/{destination}", get_notice_destination, Scope.ORGANIZATION, "Notices"),
    Operation("PATCH", "/notices/{destination}", change_notice_destination, Scope.ORGANIZATION, "Notices"),
    Operation("DELETE", "/notices/{destination}", remove_notice_destination, Scope.ORGANIZATION, "Notices"),
    Operation("POST", "/notices/{destination}/test", test_notice_destination, Scope.ORGANIZATION, "Notices"),
]
