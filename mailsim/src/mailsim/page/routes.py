"""The routes of the web page: overview, mailbox, form posts, style sheet and script.

They render templates. The values come from `views`, the actions from `forms`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import jinja2
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mailsim.errors import SimulatorError
from mailsim.page import forms, views
from mailsim.simulator import Simulator

_HERE = Path(__file__).parent
_ASSETS = {"page.css": "text/css", "page.js": "text/javascript"}
Form = Callable[[Simulator, FormData], Awaitable[str]]
FORMS: dict[str, Form] = {
    "mailbox": forms.create_mailbox,
    "mail": forms.deliver_messages,
    "message": forms.change_message,
    "fault": forms.inject_fault,
    "cancel": forms.cancel_fault,
    "clock": forms.move_clock,
    "trouble": forms.run_provider_action,
}


def routes(sim: Simulator) -> list[Route]:
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    async def overview(request: Request) -> Response:
        return _render(pages, "overview.html", **views.overview(sim), notice=_read_notice(request))

    async def mailbox(request: Request) -> Response:
        try:
            values = views.mailbox(
                sim, request.path_params["address"], request.query_params.get("folder", "")
            )
        except SimulatorError as error:
            return RedirectResponse(f"/?error={quote(str(error))}", 303)
        return _render(pages, "mailbox.html", **values, notice=_read_notice(request))

    async def form(request: Request) -> Response:
        action = FORMS.get(request.path_params["form"])
        if action is None:
            return Response("form not found", 404, media_type="text/plain")
        fields = await request.form()
        back = str(fields.get("back") or "/")
        back = back if back.startswith("/") and not back.startswith("//") else "/"
        try:
            notice = f"notice={quote(await action(sim, fields))}"
        except SimulatorError as error:
            notice = f"error={quote(str(error))}"
        return RedirectResponse(f"{back}{'&' if '?' in back else '?'}{notice}", 303)

    return [
        Route("/favicon.ico", _icon, methods=["GET"]),
        Route("/", overview, methods=["GET"]),
        Route("/_sim/page/mailboxes/{address}", mailbox, methods=["GET"]),
        Route("/_sim/page/assets/{name}", _asset, methods=["GET"]),
        Route("/_sim/page/{form}", form, methods=["POST"]),
    ]


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        return Response("file not found", 404, media_type="text/plain")
    return Response((_HERE / "static" / name).read_bytes(), media_type=_ASSETS[name])


async def _icon(_request: Request) -> Response:
    """Answer browsers' requests for an icon; there is none."""
    return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})


def _read_notice(request: Request) -> tuple[str, str] | None:
    """Return the result of the last form: its kind (`notice` or `error`) and text."""
    for kind in ("notice", "error"):
        if text := request.query_params.get(kind):
            return kind, text
    return None


def _render(pages: jinja2.Environment, name: str, **values: object) -> HTMLResponse:
    return HTMLResponse(pages.get_template(name).render(**values), headers={"Cache-Control": "no-store"})
