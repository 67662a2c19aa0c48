"""The notices page: where notices are sent, the last result of each destination, the forms. For admins."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from uuid import UUID
from zoneinfo import available_timezones

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.outbound import notices as flow
from postroom.flow.outbound import send_notices
from postroom.flow.outbound.notice_bodies import KIND_NAMES
from postroom.flow.outbound.notices import MEDIUM_NAMES, DestinationInput
from postroom.flow.outbound.send_notices import NoticeContext
from postroom.model import Role, Secret
from postroom.notice_types import NoticeMedium
from postroom.store import notices
from postroom.store.notices import NoticeDestination, NoticeSelection
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route

PATH = "/notices/{destination:uuid}"


@dataclass(frozen=True)
class NoticePagesContext:
    """Collaborators of the notices page."""

    site: SiteContext
    notices: NoticeContext


@dataclass(frozen=True, slots=True)
class NoticeActionResult:
    """The outcome of an action. After an error, what was entered; `destination` is the one it is about."""

    message: str
    succeeded: bool = True
    form: Mapping[str, str] | None = None
    destination: UUID | None = None


def routes(context: NoticePagesContext) -> list[Route]:
    site, admin = context.site, Role.ADMIN
    return [
        member_route(site, "/notices", partial(page, context), admin),
        member_route(site, "/notices/add", partial(add, context), admin, methods=["POST"]),
        member_route(site, f"{PATH}/change", partial(change, context), admin, methods=["POST"]),
        member_route(site, f"{PATH}/test", partial(send_test, context), admin, methods=["POST"]),
        member_route(site, f"{PATH}/remove", partial(remove, context), admin, methods=["POST"]),
    ]


async def page(
    context: NoticePagesContext, request: Request, result: NoticeActionResult | None = None
) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        destinations = await notices.list_all(connection)
    return pages.render_page(
        request,
        "notices.html",
        400 if result and not result.succeeded else 200,
        destinations=[(each, _fill_form(each, result)) for each in destinations],
        new_form=(result.form if result and result.destination is None else None) or {},
        result=result,
        kind_names={kind.value: name for kind, name in KIND_NAMES.items()},
        medium_names={medium.value: name for medium, name in MEDIUM_NAMES.items()},
        time_zones=_list_time_zones(),
        has_mail_server=context.notices.send_mail is not None,
        now=datetime.now(UTC),
    )


@cache
def _list_time_zones() -> list[str]:
    """The zones that are suggested. Other names of the tz database are accepted too."""
    legacy = ("Etc/", "US/", "Canada/", "Brazil/", "Chile/", "Mexico/")
    return [
        "UTC",
        *sorted(each for each in available_timezones() if "/" in each and not each.startswith(legacy)),
    ]


async def add(context: NoticePagesContext, request: Request) -> Response:
    form, visitor = await forms.read(request), get_visitor(request)
    try:
        medium = NoticeMedium(form.get("medium", ""))
    except ValueError:
        raise HTTPException(400) from None
    try:
        given = _read_input(form, medium)
        await flow.add(context.notices, visitor.organization, medium, given, actor=visitor.actor)
    except PermanentError as error:
        shown = {name: value for name, value in form.items() if name != "url"}
        result = NoticeActionResult(str(error), succeeded=False, form=shown)
        return await page(context, request, result)
    return RedirectResponse("/notices", 303)


async def change(context: NoticePagesContext, request: Request) -> Response:
    form, visitor = await forms.read(request), get_visitor(request)
    found = await _get_destination(context, request)
    try:
        given = _read_input(form, found.medium)
        await flow.change(context.notices, visitor.organization, found, given, actor=visitor.actor)
    except PermanentError as error:
        shown = {name: value for name, value in form.items() if name != "url"}
        result = NoticeActionResult(str(error), succeeded=False, form=shown, destination=found.id)
        return await page(context, request, result)
    return RedirectResponse("/notices", 303)


async def send_test(context: NoticePagesContext, request: Request) -> Response:
    found = await _get_destination(context, request)
    visitor = get_visitor(request)
    sent = await send_notices.send_test(context.notices, visitor.organization, found, actor=visitor.actor)
    message = f"Test notice to {found.name}: " + (
        f"not sent, {sent.error}." if not sent.sent else f"sent, but {sent.error}." if sent.error else "sent."
    )
    result = NoticeActionResult(message, succeeded=sent.sent, destination=found.id)
    return await page(context, request, result)


async def remove(context: NoticePagesContext, request: Request) -> Response:
    visitor, found = get_visitor(request), await _get_destination(context, request)
    await flow.remove(context.notices, visitor.organization, found, actor=visitor.actor)
    return RedirectResponse("/notices", 303)


async def _get_destination(context: NoticePagesContext, request: Request) -> NoticeDestination:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await notices.get(connection, request.path_params["destination"])
    if found is None:
        raise HTTPException(404)
    return found


def _read_input(form: Mapping[str, str], medium: NoticeMedium) -> DestinationInput:
    is_email = medium is NoticeMedium.EMAIL
    url = form.get("url", "").strip()
    try:
        review_hours = float(form.get("review_hours", ""))
    except ValueError:
        raise PermanentError("The limit of the review queue must be a number of hours.") from None
    selection = NoticeSelection(
        [kind for kind in KIND_NAMES if f"kind-{kind}" in form],
        review_hours,
        form.get("quiet_from", "").strip() or None,
        form.get("quiet_until", "").strip() or None,
        form.get("time_zone", "").strip() or "UTC",
    )
    return DestinationInput(
        form.get("name", "").strip(),
        flow.parse_addresses(form.get("addresses", "")) if is_email else (),
        Secret(url) if url and not is_email else None,
        selection,
    )


def _fill_form(destination: NoticeDestination, result: NoticeActionResult | None) -> Mapping[str, str]:
    """The fields of a destination, or after an error what was entered for it."""
    if result and result.destination == destination.id and result.form is not None:
        return result.form
    return {
        "name": destination.name,
        "addresses": ", ".join(destination.addresses),
        "review_hours": f"{destination.review_hours:g}",
        "quiet_from": destination.quiet_from or "",
        "quiet_until": destination.quiet_until or "",
        "time_zone": destination.time_zone,
        **{f"kind-{kind}": "on" for kind in destination.kinds},
    }
