"""The logout endpoint of Entra: end the session of a browser, and return it to the application.

Tokens stay valid, as at Entra.
"""

from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailsim.entra import pages
from mailsim.entra.aadsts import EntraError
from mailsim.entra.authorize import COOKIE, parse_form, read_form, render_error_page
from mailsim.entra.context import EntraContext


async def sign_out(entra: EntraContext, request: Request) -> Response:
    """Handle GET and POST. The browser returns only to a registered redirect URI."""
    form = parse_form(request.url.query) | await read_form(request)
    try:
        entra.directory.check_tenant(request.path_params["tenant"])
    except EntraError as error:
        return render_error_page(entra, request, error)
    user = entra.directory.sessions.pop(request.cookies.get(COOKIE, ""), "")
    response = _return_to_application(entra, form, user) or HTMLResponse(
        pages.render_notice("You signed out of your account."), headers={"cache-control": "no-store"}
    )
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return response


def _return_to_application(entra: EntraContext, form: dict[str, str], user: str) -> Response | None:
    """Redirect to the URI if an application accepts it: one with redirect URIs, or one that the user used."""
    uri = form.get("post_logout_redirect_uri", "")
    used = {client_id for oid, client_id in entra.directory.consents if oid == user}
    if not any(
        entra.directory.redirect_kind(application, uri)
        for application in entra.sim.registry.applications.values()
        if application.provider == "outlook" and (application.redirect_uris or application.client_id in used)
    ):
        return None
    if "state" not in form:
        return RedirectResponse(uri, 302)
    separator = "&" if urlsplit(uri).query else "?"
    return RedirectResponse(f"{uri}{separator}{urlencode({'state': form['state']})}", 302)
