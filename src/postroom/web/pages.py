"""Pages for people, rendered on the server. Templates see typed values only, and escape them."""

import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from postroom import __version__
from postroom.model import Role
from postroom.store.sessions import Visitor
from postroom.web.health import HealthMonitor

HERE: Final = Path(__file__).parent
_STARTED: Final = time.monotonic()
PAGES: Final = [
    ("/", "Overview"),
    ("/mailboxes", "Mailboxes"),
    ("/documents", "Documents"),
    ("/search", "Search"),
]
GUIDED: Final = [("/demo", "Demo")]
MORE: Final = [
    ("/health", "Health"),
    ("/failures", "Failures"),
    ("/subscriptions", "Subscriptions"),
    ("/deliveries", "Webhooks"),
    ("/ledger", "Ledger"),
    ("/api", "API"),
]
ADMIN: Final = [("/keys", "API keys"), ("/members", "Members"), ("/settings", "Settings")]
# Whether a demonstration runs: its page stands among the others then.
guided = False
# Who looks, while a guarded route answers: the frame of every page shows it.
visiting: ContextVar[Visitor | None] = ContextVar("visiting", default=None)
_PROBLEMS: Final = {
    400: (
        "That cannot be read",
        "Something in the address or in the form is not a value of its kind. Go back and correct it.",
    ),
    403: (
        "This cannot be done from here",
        "Open the page under the address that POSTROOM_PUBLIC_URL names, and try there.",
    ),
    404: ("There is no such page", "The address may be mistyped, or what it showed is gone."),
    421: (
        "This Postroom does not answer to that name",
        "Open it under the address that POSTROOM_PUBLIC_URL names, or by its address in figures.",
    ),
    500: ("Something went wrong", "It is in the log. Trying again does no harm."),
    503: ("Postroom cannot answer right now", "It goes on by itself once the cause is gone. Try again soon."),
}


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    for limit, length, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def ago(seconds: float) -> str:
    return "just now" if seconds < 60 else f"{duration(seconds)} ago"


def folder_label(name: str) -> str:
    """Gmail names its own labels in capitals, for programs."""
    return name.removeprefix("CATEGORY_").capitalize() if name.isupper() else name


def humanize_names(words: str) -> str:
    """Names of fields as people say them: issued_on is "issued on"."""
    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda name: name[0].replace("_", " "), words)


# What turns the direction of text around makes "exe.pdf" of "fdp.exe", even inside its own element.
_TURNING: Final = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\N{REPLACEMENT CHARACTER}")
_UNSEEN: Final = dict.fromkeys([0x200E, 0x200F, 0x061C])


def neutralize_bidi(value: object) -> object:
    """Words in the order in which they are written: marks that turn it are shown, or left out."""
    if type(value) is not str or value.isascii():
        return value
    return value.translate(_TURNING | _UNSEEN)


_templates: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=neutralize_bidi,  # whatever a template shows goes through it
)
_templates.filters.update(size=size, duration=duration, ago=ago, label=folder_label, spoken=humanize_names)


async def health_page(request: Request) -> Response:
    return HTMLResponse(await _render_health(request, "health.html"))


async def health_fragments(request: Request) -> Response:
    """The parts of the health page that change; a small script puts them in place."""
    return HTMLResponse(await _render_health(request, "health_parts.html"))


def render_page(template: str, status: int = 200, /, **values: object) -> Response:
    """A page that shows what is now, and is kept by no cache."""
    return HTMLResponse(_render(template, **values), status, {"cache-control": "no-store"})


def _render(template: str, **values: object) -> str:
    return _templates.get_template(template).render(
        version=__version__, visitor=visiting.get(), navigation=_navigation(), **values
    )


def _navigation() -> dict[str, list[tuple[str, str]]]:
    """The pages that stand in the head of every page for who looks, and those behind "More"."""
    visitor = visiting.get()
    more = MORE + (ADMIN if visitor is not None and visitor.role.allows(Role.ADMIN) else [])
    return {"first": PAGES + (GUIDED if guided else []), "more": more}


def role_missing_page(needed: Role) -> Response:
    """For who is signed in and lacks the role."""
    return render_page(
        "problem.html",
        403,
        title="Your role does not allow this",
        advice=f"It needs the role {needed}. An admin of your organization can give it to you.",
    )


def problem_page(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """What a visitor learns of an error: that it happened and what to do, never its words."""
    title, advice = _PROBLEMS.get(status, (HTTPStatus(status).phrase, "Go back and try something else."))
    return HTMLResponse(_render("problem.html", title=title, advice=advice), status, headers)


async def _render_health(request: Request, template: str) -> str:
    watch: HealthMonitor = request.app.state.watch
    return _render(
        template,
        seen=await watch.seen_by(request.state.visitor),
        running_seconds=time.monotonic() - _STARTED,
        now=datetime.now(UTC),
    )
