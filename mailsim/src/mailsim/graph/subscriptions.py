"""/subscriptions: created after two handshakes, renewed, reauthorised, listed, deleted."""

import base64
import binascii
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from mailsim import notify
from mailsim.entra.directory import User
from mailsim.graph import filters, folders, kinds, odata, subscribed
from mailsim.graph.access import owner, permit
from mailsim.graph.context import Answer, Call, moment_of, text_of
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.subscribed import CHANGE_TYPES, Resource, Subscription

SHORTEST = 45 * 60
LONGEST = 10_080 * 60
LONGEST_RICH = 1_440 * 60
ROUNDING = 1  # second: clients ask for the longest life in whole seconds, rounded up
MOST_STATE = 128
PAGE = 100
_TLS = ("v1_0", "v1_1", "v1_2", "v1_3")
_KNOWN = frozenset(
    {
        "changeType",
        "notificationUrl",
        "lifecycleNotificationUrl",
        "resource",
        "expirationDateTime",
        "clientState",
        "latestSupportedTlsVersion",
        "includeResourceData",
        "encryptionCertificate",
        "encryptionCertificateId",
        "notificationUrlAppId",
        "notificationQueryOptions",
        "notificationContentType",
    }
)
_PATCHED = frozenset(
    {"expirationDateTime", "notificationUrl", "encryptionCertificate", "encryptionCertificateId"}
)


def _invalid(message: str) -> GraphError:
    return bad_request(message, "InvalidRequest")


async def create(call: Call) -> Answer:
    wanted = _checked(call.json(), _KNOWN)
    one = _read(call, wanted)
    _check_unused(call, one)
    await notify.validate(call.graph, one, one.url)
    if one.lifecycle_url is not None:
        await notify.validate(call.graph, one, one.lifecycle_url)
    _check_unused(call, one)
    call.graph.subscriptions.add(one)
    notify.watch(call.graph, one)
    context = call.context("subscriptions/$entity")
    return Answer(201, subscribed.shape(one, context, secret=True))


def _checked(wanted: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    for name in wanted:
        if name not in known and not name.startswith("@odata."):
            raise _invalid(f"The property '{name[:80]}' cannot be set.")
    return wanted


def _read(call: Call, wanted: dict[str, Any]) -> Subscription:
    for name in ("changeType", "notificationUrl", "resource", "expirationDateTime"):
        if not text_of(wanted, name):
            raise _invalid(f"{name[0].upper()}{name[1:]} is a required property for subscription creation.")
    user, resource = _target(call, text_of(wanted, "resource"))
    folder = folders.find(replace(call, user=user), resource.folder).key if resource.folder else None
    where, select = _restrictions(resource)
    rich = wanted.get("includeResourceData") is True
    text, certificate = _certificate(wanted) if rich else (None, None)
    if rich and not select:
        raise _invalid("A subscription with resource data needs $select in its resource.")
    state = wanted.get("clientState")
    if state is not None and len(text_of(wanted, "clientState")) > MOST_STATE:
        raise _invalid(f"ClientState cannot be longer than {MOST_STATE} characters.")
    access = call.access
    creator = access.user.oid if access.user else call.graph.entra.directory.service_principal(
        access.application.client_id, access.tid
    )  # fmt: skip
    return Subscription(
        id=call.graph.sim.world.new_guid("subscription"),
        access=access,
        creator=creator,
        user=user,
        resource=text_of(wanted, "resource"),
        folder=folder,
        change_types=_change_types(text_of(wanted, "changeType")),
        change_type=text_of(wanted, "changeType"),
        url=_url(text_of(wanted, "notificationUrl")),
        lifecycle_url=_url(text_of(wanted, "lifecycleNotificationUrl"))
        if wanted.get("lifecycleNotificationUrl")
        else None,
        client_state=state,
        expires=_expiry(call, wanted, rich=rich),
        token_expires=access.expires,
        immutable=call.prefer.immutable,
        tls=_tls(text_of(wanted, "latestSupportedTlsVersion")),
        where=where,
        select=select,
        rich=rich,
        certificate=certificate,
        certificate_text=text,
        certificate_id=text_of(wanted, "encryptionCertificateId") or None,
        url_app_id=text_of(wanted, "notificationUrlAppId") or None,
        created=call.graph.sim.clock.time(),
    )


def _target(call: Call, text: str) -> tuple[User, Resource]:
    """The mailbox to watch: with a user's token the user's own, else any that the application may read."""
    resource = subscribed.read_resource(text)
    if resource is None:
        raise _invalid(f"Resource '{text[:100]}' is not supported for subscriptions.")
    user = owner(call.graph, call.access, resource.user or "me", mail=True)
    try:
        permit(call.graph, call.access, user, "read")
    except GraphError as error:
        raise GraphError(
            403,
            "ExtensionError",
            "Operation: Create; Exception: [Status Code: Forbidden; Reason: Access is denied. Check "
            "credentials and try again.]",
        ) from error
    return user, resource


def _restrictions(resource: Resource) -> tuple[filters.Node | None, tuple[str, ...]]:
    try:
        options = odata.pairs(resource.query)
    except GraphError as error:
        raise _invalid(error.message) from error
    if set(options) - {"$filter", "$select"}:
        raise _invalid("The resource of a subscription takes $filter and $select only.")
    query = odata.parse(options, kinds.MESSAGE)
    select = query.select or ()
    if {"body", "uniqueBody"} & set(select):
        raise _invalid("Body and uniqueBody cannot be part of a notification.")
    return query.where, select


def _certificate(wanted: dict[str, Any]) -> tuple[str, x509.Certificate]:
    text = text_of(wanted, "encryptionCertificate")
    if not text or not text_of(wanted, "encryptionCertificateId"):
        raise _invalid("Resource data needs encryptionCertificate and encryptionCertificateId.")
    try:
        data = base64.b64decode(text, validate=True)
        pem = data.startswith(b"-----BEGIN")
        certificate = x509.load_pem_x509_certificate(data) if pem else x509.load_der_x509_certificate(data)
        key = certificate.public_key()
    except (binascii.Error, ValueError) as error:
        raise _invalid("The encryption certificate cannot be read.") from error
    if not isinstance(key, rsa.RSAPublicKey) or not 2048 <= key.key_size <= 4096:
        raise _invalid("The encryption certificate needs an RSA key of 2048 to 4096 bits.")
    return text, certificate


def _change_types(text: str) -> frozenset[str]:
    parts = [part.strip().lower() for part in text.split(",")]
    if not parts or any(part not in CHANGE_TYPES for part in parts):
        raise _invalid(f"The value '{text[:80]}' is not a valid changeType.")
    return frozenset(parts)


def _tls(text: str) -> str:
    if text and text not in _TLS:
        raise _invalid(f"The value '{text[:20]}' is not a valid TLS version.")
    return text or "v1_2"


def _url(text: str) -> str:
    """https, or plain http to this machine, for development."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _invalid(f"Notification URL '{text[:200]}' is not valid.") from error
    loopback = host in {"localhost", "127.0.0.1", "::1"}
    if not host or (parts.scheme != "https" and not (parts.scheme == "http" and loopback)) or parts.fragment:
        raise GraphError(
            400, "ValidationError", f"Notification URL must be a valid HTTPS URL: '{text[:200]}'."
        )
    return text


def _expiry(call: Call, wanted: dict[str, Any], *, rich: bool) -> float:
    """Under 45 minutes is raised to 45; beyond the longest life it is refused, as a time that is over."""
    now = call.graph.sim.clock.time()
    asked = moment_of(wanted, "expirationDateTime")
    longest = LONGEST_RICH if rich else LONGEST
    if asked <= now:
        raise _invalid("Subscription expiration can only be set to a time in the future.")
    if asked > now + longest + ROUNDING:
        raise _invalid(f"Subscription expiration can only be {longest // 60} minutes in the future.")
    return max(asked, now + SHORTEST)


def _check_unused(call: Call, new: Subscription) -> None:
    now = call.graph.sim.clock.time()
    around = [one for one in call.graph.subscriptions.of(new.user.oid) if one.active(now)]
    for one in around:
        same = (one.application_id, one.access.tid, one.folder, one.where, one.change_types)
        if same == (new.application_id, new.access.tid, new.folder, new.where, new.change_types):
            message = f"Subscription Id {one.id} already exists for the requested combination"
            raise GraphError(409, "Conflict", message)
    most = call.graph.options.subscriptions_per_mailbox
    if len(around) >= most:
        raise GraphError(
            403, "ExtensionError", f"The mailbox has reached its limit of {most} active subscriptions."
        )


def _mine(call: Call, one: Subscription) -> bool:
    """The same application in the same tenant; with a user's token, that user's only."""
    access = call.access
    if one.application_id != access.application.client_id or one.access.tid != access.tid:
        return False
    creator = access.user.oid if access.user else None
    return one.creator == creator if creator else one.access.user is None


def _find(call: Call) -> Subscription:
    one = call.graph.subscriptions.get(call.names[0].lower())
    if one is None or not one.active(call.graph.sim.clock.time()) or not _mine(call, one):
        raise GraphError(404, "ResourceNotFound", "The object was not found.")
    return one


async def page(call: Call) -> Answer:
    if set(call.raw) - {"$skiptoken"}:
        raise bad_request("Query options are not supported for subscriptions.")
    start = call.raw.get("$skiptoken", "0")
    if not (start.isascii() and start.isdecimal() and len(start) < 9):
        raise bad_request("The query parameter '$skiptoken' is not valid.")
    now = call.graph.sim.clock.time()
    mine = [one for one in call.graph.subscriptions.all() if one.active(now) and _mine(call, one)]
    first, end = int(start), int(start) + PAGE
    answer: dict[str, Any] = {"@odata.context": call.context("subscriptions")}
    answer["value"] = [subscribed.shape(one) for one in mine[first:end]]
    if end < len(mine):
        answer["@odata.nextLink"] = f"{call.url}?$skiptoken={end}"
    return Answer(200, answer)


async def get(call: Call) -> Answer:
    one = _find(call)
    return Answer(200, subscribed.shape(one, call.context("subscriptions/$entity")))


async def update(call: Call) -> Answer:
    """Renews, and by the token it brings reauthorises. Only expiration, URL and certificate can change."""
    one = _find(call)
    wanted = _checked(call.json(), _PATCHED)
    if not wanted.keys() & {"expirationDateTime", "notificationUrl"}:
        raise _invalid("ExpirationDateTime or notificationUrl is required.")
    expires = _expiry(call, wanted, rich=one.rich) if "expirationDateTime" in wanted else one.expires
    url = _url(text_of(wanted, "notificationUrl")) if "notificationUrl" in wanted else one.url
    if wanted.get("encryptionCertificate"):
        one.certificate_text, one.certificate = _certificate(wanted)
        one.certificate_id = text_of(wanted, "encryptionCertificateId")
    if url != one.url or call.graph.options.revalidate:
        await notify.validate(call.graph, one, url)
    one.expires, one.url = expires, url
    notify.reauthorized(call.graph, one, call.access.expires)
    return Answer(200, subscribed.shape(one, call.context("subscriptions/$entity")))


async def renew(call: Call) -> Answer:
    """Reauthorise: vouched for again, not extended."""
    one = _find(call)
    notify.reauthorized(call.graph, one, call.access.expires)
    return Answer(204)


async def delete(call: Call) -> Answer:
    one = _find(call)
    call.graph.subscriptions.remove(one)
    return Answer(204)
