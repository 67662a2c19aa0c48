"""The /subscriptions routes of Graph: create after two handshakes, renew, reauthorize, list, delete.

`notifications` does the handshakes; `subscription_model` stores the subscriptions.
"""

import base64
import binascii
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from mailsim.entra.directory import EntraUser
from mailsim.graph import entity_types, filters, folders, notifications, odata, subscription_model
from mailsim.graph.authorization import check_permission, resolve_user
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.request import GraphCall, GraphResponse, get_text, get_timestamp
from mailsim.graph.subscription_model import CHANGE_TYPES, GraphSubscription, SubscriptionResource

MIN_LIFETIME = 45 * 60
MAX_LIFETIME = 10_080 * 60
MAX_LIFETIME_WITH_RESOURCE_DATA = 1_440 * 60
ROUNDING = 1  # second: clients request the longest lifetime in whole seconds, rounded up
MAX_CLIENT_STATE = 128
PAGE = 100
_TLS = ("v1_0", "v1_1", "v1_2", "v1_3")
_CREATABLE = frozenset(
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
_UPDATABLE = frozenset(
    {"expirationDateTime", "notificationUrl", "encryptionCertificate", "encryptionCertificateId"}
)


def _invalid(message: str) -> GraphError:
    return bad_request(message, "InvalidRequest")


async def create(call: GraphCall) -> GraphResponse:
    body = _check_properties(call.json(), _CREATABLE)
    subscription = _parse_subscription(call, body)
    _check_unused(call, subscription)
    await notifications.validate_endpoint(call.graph, subscription, subscription.url)
    if subscription.lifecycle_url is not None:
        await notifications.validate_endpoint(call.graph, subscription, subscription.lifecycle_url)
    _check_unused(call, subscription)
    call.graph.subscriptions.add(subscription)
    notifications.schedule_reminders(call.graph, subscription)
    context = call.context("subscriptions/$entity")
    return GraphResponse(201, subscription_model.to_json(subscription, context, secret=True))


def _check_properties(body: dict[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    for name in body:
        if name not in allowed and not name.startswith("@odata."):
            raise _invalid(f"The property '{name[:80]}' cannot be set.")
    return body


def _parse_subscription(call: GraphCall, body: dict[str, Any]) -> GraphSubscription:
    for name in ("changeType", "notificationUrl", "resource", "expirationDateTime"):
        if not get_text(body, name):
            raise _invalid(f"{name[0].upper()}{name[1:]} is a required property for subscription creation.")
    user, resource = _resolve_target(call, get_text(body, "resource"))
    folder = folders.find(replace(call, user=user), resource.folder).key if resource.folder else None
    where, select = _parse_restrictions(resource)
    resource_data = body.get("includeResourceData") is True
    text, certificate = _parse_certificate(body) if resource_data else (None, None)
    if resource_data and not select:
        raise _invalid("A subscription with resource data needs $select in its resource.")
    state = body.get("clientState")
    if state is not None and len(get_text(body, "clientState")) > MAX_CLIENT_STATE:
        raise _invalid(f"ClientState cannot be longer than {MAX_CLIENT_STATE} characters.")
    access = call.access
    creator = access.user.oid if access.user else call.graph.entra.directory.service_principal(
        access.application.client_id, access.tid
    )  # fmt: skip
    return GraphSubscription(
        id=call.graph.sim.registry.new_guid("subscription"),
        access=access,
        creator=creator,
        user=user,
        resource=get_text(body, "resource"),
        folder=folder,
        change_types=_parse_change_types(get_text(body, "changeType")),
        change_type=get_text(body, "changeType"),
        url=_parse_url(get_text(body, "notificationUrl")),
        lifecycle_url=_parse_url(get_text(body, "lifecycleNotificationUrl"))
        if body.get("lifecycleNotificationUrl")
        else None,
        client_state=state,
        expires=_parse_expiry(call, body, resource_data=resource_data),
        token_expires=access.expires,
        immutable=call.prefer.immutable,
        tls=_parse_tls_version(get_text(body, "latestSupportedTlsVersion")),
        filter=where,
        select=select,
        includes_resource_data=resource_data,
        certificate=certificate,
        certificate_text=text,
        certificate_id=get_text(body, "encryptionCertificateId") or None,
        url_app_id=get_text(body, "notificationUrlAppId") or None,
        created=call.graph.sim.clock.time(),
    )


def _resolve_target(call: GraphCall, text: str) -> tuple[EntraUser, SubscriptionResource]:
    """Return the user to watch: with a user's token that user, else any user the application may read."""
    resource = subscription_model.parse_resource(text)
    if resource is None:
        raise _invalid(f"Resource '{text[:100]}' is not supported for subscriptions.")
    user = resolve_user(call.graph, call.access, resource.user or "me", mail=True)
    try:
        check_permission(call.graph, call.access, user, "read")
    except GraphError as error:
        raise GraphError(
            403,
            "ExtensionError",
            "Operation: Create; Exception: [Status Code: Forbidden; Reason: Access is denied. Check "
            "credentials and try again.]",
        ) from error
    return user, resource


def _parse_restrictions(resource: SubscriptionResource) -> tuple[filters.FilterNode | None, tuple[str, ...]]:
    try:
        options = odata.parse_options(resource.query)
    except GraphError as error:
        raise _invalid(error.message) from error
    if set(options) - {"$filter", "$select"}:
        raise _invalid("The resource of a subscription takes $filter and $select only.")
    query = odata.parse_query(options, entity_types.MESSAGE)
    select = query.select or ()
    if {"body", "uniqueBody"} & set(select):
        raise _invalid("Body and uniqueBody cannot be part of a notification.")
    return query.where, select


def _parse_certificate(body: dict[str, Any]) -> tuple[str, x509.Certificate]:
    text = get_text(body, "encryptionCertificate")
    if not text or not get_text(body, "encryptionCertificateId"):
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


def _parse_change_types(text: str) -> frozenset[str]:
    parts = [part.strip().lower() for part in text.split(",")]
    if not parts or any(part not in CHANGE_TYPES for part in parts):
        raise _invalid(f"The value '{text[:80]}' is not a valid changeType.")
    return frozenset(parts)


def _parse_tls_version(text: str) -> str:
    if text and text not in _TLS:
        raise _invalid(f"The value '{text[:20]}' is not a valid TLS version.")
    return text or "v1_2"


def _parse_url(text: str) -> str:
    """Validate a URL: https, or http to loopback for development."""
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


def _parse_expiry(call: GraphCall, body: dict[str, Any], *, resource_data: bool) -> float:
    """Return the expiry. Less than 45 minutes is raised to 45; too late or past times are refused."""
    now = call.graph.sim.clock.time()
    requested = get_timestamp(body, "expirationDateTime")
    longest = MAX_LIFETIME_WITH_RESOURCE_DATA if resource_data else MAX_LIFETIME
    if requested <= now:
        raise _invalid("Subscription expiration can only be set to a time in the future.")
    if requested > now + longest + ROUNDING:
        raise _invalid(f"Subscription expiration can only be {longest // 60} minutes in the future.")
    return max(requested, now + MIN_LIFETIME)


def _check_unused(call: GraphCall, new: GraphSubscription) -> None:
    now = call.graph.sim.clock.time()
    active = [
        subscription
        for subscription in call.graph.subscriptions.list_for_user(new.user.oid)
        if subscription.is_active(now)
    ]
    for subscription in active:
        same = (
            subscription.application_id,
            subscription.access.tid,
            subscription.folder,
            subscription.filter,
            subscription.change_types,
        )
        if same == (new.application_id, new.access.tid, new.folder, new.filter, new.change_types):
            message = f"Subscription Id {subscription.id} already exists for the requested combination"
            raise GraphError(409, "Conflict", message)
    limit = call.graph.options.subscriptions_per_mailbox
    if len(active) >= limit:
        raise GraphError(
            403, "ExtensionError", f"The mailbox has reached its limit of {limit} active subscriptions."
        )


def _is_owned_by_caller(call: GraphCall, subscription: GraphSubscription) -> bool:
    """Return whether the same application and tenant created it; with a user's token, the same user."""
    access = call.access
    if subscription.application_id != access.application.client_id or subscription.access.tid != access.tid:
        return False
    creator = access.user.oid if access.user else None
    return subscription.creator == creator if creator else subscription.access.user is None


def _find(call: GraphCall) -> GraphSubscription:
    subscription = call.graph.subscriptions.get(call.names[0].lower())
    if (
        subscription is None
        or not subscription.is_active(call.graph.sim.clock.time())
        or not _is_owned_by_caller(call, subscription)
    ):
        raise GraphError(404, "ResourceNotFound", "The object was not found.")
    return subscription


async def list_page(call: GraphCall) -> GraphResponse:
    if set(call.raw) - {"$skiptoken"}:
        raise bad_request("Query options are not supported for subscriptions.")
    start = call.raw.get("$skiptoken", "0")
    if not (start.isascii() and start.isdecimal() and len(start) < 9):
        raise bad_request("The query parameter '$skiptoken' is not valid.")
    now = call.graph.sim.clock.time()
    owned = [
        subscription
        for subscription in call.graph.subscriptions.list_all()
        if subscription.is_active(now) and _is_owned_by_caller(call, subscription)
    ]
    first, end = int(start), int(start) + PAGE
    response: dict[str, Any] = {"@odata.context": call.context("subscriptions")}
    response["value"] = [subscription_model.to_json(subscription) for subscription in owned[first:end]]
    if end < len(owned):
        response["@odata.nextLink"] = f"{call.url}?$skiptoken={end}"
    return GraphResponse(200, response)


async def get(call: GraphCall) -> GraphResponse:
    subscription = _find(call)
    return GraphResponse(200, subscription_model.to_json(subscription, call.context("subscriptions/$entity")))


async def update(call: GraphCall) -> GraphResponse:
    """Renew a subscription, and reauthorize it with the request's token.

    Only expiration, URL and certificate can change.
    """
    subscription = _find(call)
    body = _check_properties(call.json(), _UPDATABLE)
    if not body.keys() & {"expirationDateTime", "notificationUrl"}:
        raise _invalid("ExpirationDateTime or notificationUrl is required.")
    expires = (
        _parse_expiry(call, body, resource_data=subscription.includes_resource_data)
        if "expirationDateTime" in body
        else subscription.expires
    )
    url = _parse_url(get_text(body, "notificationUrl")) if "notificationUrl" in body else subscription.url
    if body.get("encryptionCertificate"):
        subscription.certificate_text, subscription.certificate = _parse_certificate(body)
        subscription.certificate_id = get_text(body, "encryptionCertificateId")
    if url != subscription.url or call.graph.options.revalidate:
        await notifications.validate_endpoint(call.graph, subscription, url)
    subscription.expires, subscription.url = expires, url
    notifications.reauthorize(call.graph, subscription, call.access.expires)
    return GraphResponse(200, subscription_model.to_json(subscription, call.context("subscriptions/$entity")))


async def reauthorize(call: GraphCall) -> GraphResponse:
    """Reauthorize a subscription without extending it."""
    subscription = _find(call)
    notifications.reauthorize(call.graph, subscription, call.access.expires)
    return GraphResponse(204)


async def delete(call: GraphCall) -> GraphResponse:
    subscription = _find(call)
    call.graph.subscriptions.remove(subscription)
    return GraphResponse(204)
