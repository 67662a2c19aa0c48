"""Entra's sign-in for devices without a browser: device codes, their exchange, and the page of the user.

It follows Microsoft's "OAuth 2.0 device authorization grant flow". Entra never asks a device to slow down.
"""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mailsim.device_codes import DeviceSignIn
from mailsim.entra import pages, scopes
from mailsim.entra.aadsts import EntraError
from mailsim.entra.authorize import read_form
from mailsim.entra.context import EntraContext, base_url
from mailsim.entra.directory import EntraUser
from mailsim.registry import OAuthApplication

DEVICE_GRANTS = frozenset({"urn:ietf:params:oauth:grant-type:device_code", "device_code"})
DEVICE_SECONDS = 900
INTERVAL = 5


def start_sign_in(entra: EntraContext, request: Request, form: dict[str, str]) -> dict[str, str | int]:
    """Return the response of the device endpoint. With `auto_consent`, the first user approves at once."""
    tenant = entra.directory.check_tenant(request.path_params["tenant"])
    if not form.get("client_id"):
        raise EntraError(900144, parameter="client_id")
    application = entra.directory.get_application(form["client_id"], tenant)
    permissions = scopes.expand_default(scopes.parse_scopes(form.get("scope", "")))
    sign_in = entra.sim.device_codes.start(
        "outlook",
        application.client_id,
        tuple(permissions),
        seconds=DEVICE_SECONDS,
        interval=INTERVAL,
        tenant=tenant,
    )
    if entra.options.auto_consent and (users := entra.directory.list_users(tenant)):
        sign_in.address = users[0].upn
    url = f"{base_url(request)}/devicelogin"
    return {
        "user_code": sign_in.user_code,
        "device_code": sign_in.device_code,
        "verification_uri": url,
        "expires_in": DEVICE_SECONDS,
        "interval": INTERVAL,
        "message": f"To sign in, use a web browser to open the page {url} and enter the code "
        f"{sign_in.user_code} to authenticate.",
    }


def redeem_device_code(
    entra: EntraContext, tenant: str, application: OAuthApplication, device_code: str
) -> tuple[EntraUser, list[str]]:
    """Return user and permissions of an approved sign-in, or raise what the device must do."""
    sign_in = entra.sim.device_codes.find_polled("outlook", device_code, application.client_id)
    if sign_in is None:
        raise EntraError(70018)
    if sign_in.expires <= entra.sim.clock.time():
        raise EntraError(70020)
    if sign_in.declined:
        raise EntraError(65004, shown_as="authorization_declined")
    user = entra.directory.find_user(sign_in.address)
    if user is None:
        raise EntraError(70016)
    entra.directory.raise_planned_refusal("token", application, user)
    if not entra.directory.admits(tenant, user):
        raise EntraError(50034, user=user.upn, tenant=tenant)
    if user.oid in entra.directory.disabled:
        raise EntraError(50057)
    entra.sim.device_codes.finish(sign_in)
    entra.directory.get_consent(user, application.client_id).update(sign_in.scopes)
    return user, list(sign_in.scopes)


async def show_device_page(entra: EntraContext, request: Request) -> Response:
    """Let the user enter the code, then choose an account and decide.

    A program posts `otc` (the code), `account` and `decision` (`allow` or `deny`) at once.
    """
    form = await read_form(request) if request.method == "POST" else dict(request.query_params)
    user_code = form.get("otc", "")
    sign_in = entra.sim.device_codes.find_open(user_code, "outlook") if user_code else None
    if sign_in is None:
        return _respond(pages.render_code_form(user_code), 400 if user_code else 200)
    if form.get("decision") == "deny":
        sign_in.declined = True
        return _respond(pages.render_notice("You declined to sign in on the device."))
    chosen = entra.directory.find_user(form.get("account", ""))
    if form.get("decision") == "allow" and chosen and entra.directory.admits(sign_in.tenant, chosen):
        sign_in.address = chosen.upn
        return _respond(pages.render_notice("You have signed in on your device. You may close this window."))
    return _respond(_render_decision(entra, sign_in))


def _render_decision(entra: EntraContext, sign_in: DeviceSignIn) -> str:
    application = entra.sim.registry.find_application(sign_in.client_id, "outlook")
    return pages.render_consent(
        application=application.name if application else sign_in.client_id,
        users=entra.directory.list_users(sign_in.tenant),
        chosen="",
        permissions=list(sign_in.scopes),
        hidden={"otc": sign_in.user_code},
    )


def _respond(page: str, status: int = 200) -> Response:
    return HTMLResponse(page, status, {"cache-control": "no-store"})
