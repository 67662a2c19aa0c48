"""Rendering of HTML pages: the Jinja environment, its filters, the navigation and the error pages.

Templates autoescape every value and fail on undefined names. No routes and no database.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from postroom import __version__
from postroom.model import Role
from postroom.store.sessions import SessionMember
from postroom.web.check_texts import describe_findings
from postroom.web.formats import DEFAULT, Formats, choose_formats
from postroom.web.health import work_name

HERE: Final = Path(__file__).parent
PAGES: Final = [
    ("/", "Overview"),
    ("/mailboxes", "Mailboxes"),
    ("/messages", "Messages"),
    ("/documents", "Documents"),
    ("/records", "Records"),
    ("/orders", "Orders"),
    ("/suppliers", "Suppliers"),
    ("/search", "Search"),
]
DEMO: Final = [("/demo", "Demo")]
MORE: Final = [
    ("/health", "Health"),
    ("/failures", "Failures"),
    ("/directories", "Directories"),
    ("/subscriptions", "Subscriptions"),
    ("/webhooks", "Webhooks"),
    ("/ledger", "Ledger"),
    ("/api", "API"),
]
ADMIN: Final = [
    ("/api-keys", "API keys"),
    ("/members", "Members"),
    ("/organization", "Organization"),
    ("/notices", "Notices"),
]
OPERATOR: Final = [("/settings", "Settings")]
# Title and advice by HTTP status.
_PROBLEMS: Final = {
    400: (
        "Invalid request",
        "The URL or the form contains a value that Postroom cannot read. Go back and correct it.",
    ),
    403: (
        "Request blocked",
        (
            "The form was submitted from another site."
            " Open Postroom at its public URL (POSTROOM_PUBLIC_URL) and try again."
        ),
    ),
    404: ("Page not found", "The URL may be mistyped, or the item may have been deleted."),
    421: (
        "Unknown host name",
        "Open Postroom at its public URL (POSTROOM_PUBLIC_URL) or by IP address.",
    ),
    500: ("Something went wrong", "The error was logged. It is safe to try again."),
    503: ("Postroom is temporarily unavailable", "It recovers on its own. Try again in a moment."),
}


def folder_label(name: str) -> str:
    """Format a folder name; Gmail writes its system labels in capitals (`CATEGORY_UPDATES`)."""
    return name.removeprefix("CATEGORY_").capitalize() if name.isupper() else name


# Bidirectional control characters make "fdp.exe" look like "exe.pdf", even inside their own element.
_BIDI_CONTROLS: Final = dict.fromkeys(
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\N{REPLACEMENT CHARACTER}"
)
_BIDI_MARKS: Final = dict.fromkeys([0x200E, 0x200F, 0x061C])


def neutralize_bidi(value: object) -> object:
    """Make bidirectional control characters visible, and drop the invisible direction marks."""
    if type(value) is not str or value.isascii():
        return value
    return value.translate(_BIDI_CONTROLS | _BIDI_MARKS)


@cache
def _get_environment(formats: Formats) -> Environment:
    """The templates with the filters of these formats: macros cannot see what a page was rendered with."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=neutralize_bidi,  # applied to every value that a template prints
    )
    environment.filters.update(
        ago=formats.ago,
        amount=formats.amount,
        count=formats.count,
        day=formats.day,
        duration=formats.duration,
        field_value=formats.field_value,
        moment=formats.moment,
        quantity=formats.quantity,
        size=formats.size,
        folder_label=folder_label,
        describe_findings=describe_findings,
        work_name=work_name,
    )
    return environment


def get_formats(request: Request) -> Formats:
    """The formats of numbers and dates that the visitor's browser asks for."""
    return choose_formats(request.headers.get("accept-language", ""))


def render_page(request: Request, template: str, status: int = 200, /, **values: object) -> Response:
    """Render an uncacheable page in the browser's formats, with the navigation of a signed-in visitor."""
    visitor: SessionMember | None = getattr(request.state, "visitor", None)
    navigation = _build_navigation(
        visitor,
        has_demo=getattr(request.state, "has_demo", False),
        is_operator=getattr(request.state, "is_operator", False),
    )
    body = _render(get_formats(request), template, visitor, navigation, **values)
    return HTMLResponse(body, status, {"cache-control": "no-store", "vary": "Accept-Language"})


def role_missing_page(needed: Role) -> Response:
    """Explain to a member that an action needs a higher role."""
    advice = f"You need the role {needed}. Ask an admin of your organization for it."
    return _forbidden_page("Your role does not allow this", advice)


def operator_only_page() -> Response:
    """Explain to an admin of another organization that a page concerns the whole server."""
    advice = "This page is about the whole server. Only admins of the operator's organization can open it."
    return _forbidden_page("Your organization does not allow this", advice)


def _forbidden_page(title: str, advice: str) -> Response:
    body = _render(DEFAULT, "problem.html", title=title, advice=advice)
    return HTMLResponse(body, 403, {"cache-control": "no-store"})


def problem_page(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Say that an error happened and what to do. The error's own message goes to the log only."""
    title, advice = _PROBLEMS.get(status, (HTTPStatus(status).phrase, "Go back and try again."))
    return HTMLResponse(_render(DEFAULT, "problem.html", title=title, advice=advice), status, headers)


def _render(
    formats: Formats,
    template: str,
    visitor: SessionMember | None = None,
    navigation: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    /,
    **values: object,
) -> str:
    return (
        _get_environment(formats)
        .get_template(template)
        .render(version=__version__, visitor=visitor, navigation=navigation or {}, **values)
    )


def _build_navigation(
    visitor: SessionMember | None, *, has_demo: bool, is_operator: bool
) -> dict[str, list[tuple[str, str]]]:
    """List the pages in the page header, and those behind "More"."""
    more = MORE
    if visitor is not None and visitor.role.allows(Role.ADMIN):
        more = MORE + ADMIN + (OPERATOR if is_operator else [])
    return {"first": PAGES + (DEMO if has_demo else []), "more": more}
