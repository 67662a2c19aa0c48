"""PubSubApi: the REST API of Cloud Pub/Sub: topics, subscriptions, publish, pull and IAM policies.

Follows the discovery document `pubsub:v1`. `google.pubsub` stores and delivers; Gmail's watches publish to
the same topics.
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim.cloud_pubsub import resources
from mailsim.errors import NotFound, SimulatorError
from mailsim.gmail import errors, parameters
from mailsim.gmail.api import GmailApi, encode_json
from mailsim.gmail.errors import GmailError, GmailErrorBody
from mailsim.google.pubsub import PubSub
from mailsim.google.pubsub_resources import PubSubSubscription
from mailsim.hashing import stable_hash
from mailsim.middleware import get_exchange

SCOPES = frozenset(
    {"https://www.googleapis.com/auth/pubsub", "https://www.googleapis.com/auth/cloud-platform"}
)
GMAIL_PUBLISHER = "serviceAccount:gmail-api-push@system.gserviceaccount.com"
MAX_BODY = 10 << 20
DEFAULT_PAGE = 100
_PUBLISHING = frozenset({"roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin"})
_PULL_CHECKS = 20  # how often a pull without messages looks again
_PULL_PAUSE = 0.05
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class PubSubCall:
    """A request: the resource in its path, the custom verb after the colon, its query and body."""

    pubsub: PubSub
    name: str
    query: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def subscription(self) -> PubSubSubscription:
        found = self.pubsub.subscriptions.get(self.name)
        if found is None:
            raise _missing(self.name)
        return found

    def read_ids(self) -> list[str]:
        value = self.body.get("ackIds")
        ids = cast("list[object]", value) if isinstance(value, list) else []
        if not ids or not all(isinstance(text, str) for text in ids):
            raise errors.bad_request("You have not specified any ack IDs in the request.")
        return cast("list[str]", ids)


PubSubMethod = Callable[[PubSubCall], "Awaitable[dict[str, Any]]"]


class PubSubApi:
    def __init__(self, gmail: GmailApi) -> None:
        self.gmail = gmail

    def routes(self) -> list[Route]:
        return [Route("/v1/projects/{rest:path}", self.respond, name="pubsub", methods=_METHODS)]

    async def respond(self, request: Request) -> Response:
        try:
            pairs = dict(parameters.parse_query(request.url.query))
            token = self.gmail.find_token(request.headers, pairs)
            get_exchange(request).mailbox = token.account.email
            self.gmail.find_client(token)
            if not SCOPES & token.scopes:
                raise errors.missing_scope("google.pubsub.v1", SCOPES)
            method, name = _find_method(request)
            content = await request.body()
            if len(content) > MAX_BODY:
                raise errors.bad_request("The value for the request is too large.")
            body = _decode_json(content)
            value = await method(PubSubCall(self.gmail.pubsub, name, pairs, body))
        except GmailError as error:
            response = _make_response(error.body.code, error.body.to_json())
            response.headers.update(dict(error.body.list_challenges()))
            return response
        except SimulatorError as error:
            code = 404 if isinstance(error, NotFound) else 400
            reason = "notFound" if code == 404 else "badRequest"
            return _make_response(code, GmailErrorBody(code, reason, str(error)).to_json())
        return _make_response(200, value)


def _find_method(request: Request) -> tuple[PubSubMethod, str]:
    """Find the method of a path. The last segment of a resource may end with a custom verb."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    path = unquote(raw.partition(b"?")[0].decode("latin-1"))
    parts = path.removeprefix("/v1/").split("/")
    kind = parts[2] if len(parts) > 2 else ""
    name, verb = "/".join(parts), ""
    is_unsimulated = kind in {"schemas", "snapshots"} or parts[-1] == "snapshots"
    if kind in {"topics", "subscriptions"}:
        if len(parts) == 4:
            if ":" in parts[3]:
                parts[3], _, verb = parts[3].rpartition(":")
            name = "/".join(parts)
            method = _METHODS_BY_PATH.get((request.method, kind, verb or "one"))
            is_unsimulated = verb in {"seek", "detach"} if verb else request.method == "PATCH"
        elif len(parts) == 5:
            name = "/".join(parts[:4])
            method = _METHODS_BY_PATH.get((request.method, kind, parts[4]))
        else:
            method = _METHODS_BY_PATH.get((request.method, kind, "all")) if len(parts) == 3 else None
        if method is not None:
            return method, name
    if is_unsimulated:
        raise errors.not_simulated(f"{request.method} Pub/Sub {kind} {verb}".strip())
    raise errors.not_found("Method not found.")


async def create_topic(call: PubSubCall) -> dict[str, Any]:
    if call.name in call.pubsub.topics:
        raise _exists(call.name)
    return resources.to_topic_json(call.pubsub.add_topic(resources.read_topic(call.name, call.body)))


async def get_topic(call: PubSubCall) -> dict[str, Any]:
    topic = call.pubsub.topics.get(call.name)
    if topic is None:
        raise _missing(call.name)
    return resources.to_topic_json(topic)


async def list_topics(call: PubSubCall) -> dict[str, Any]:
    found = [topic for name, topic in call.pubsub.topics.items() if name.startswith(f"{call.name}/")]
    return _list_page(call, "topics", [resources.to_topic_json(topic) for topic in found])


async def delete_topic(call: PubSubCall) -> dict[str, Any]:
    await get_topic(call)
    call.pubsub.remove_topic(call.name)
    call.pubsub.policies.pop(call.name, None)
    return {}


async def list_topic_subscriptions(call: PubSubCall) -> dict[str, Any]:
    await get_topic(call)
    found = [name for name, one in call.pubsub.subscriptions.items() if one.topic == call.name]
    return _list_page(call, "subscriptions", found)


async def publish(call: PubSubCall) -> dict[str, Any]:
    await get_topic(call)
    given = call.body.get("messages")
    if not isinstance(given, list) or not given:
        raise errors.bad_request("The value for message_count is too small. You passed 0 in the request.")
    messages = [_read_message(item) for item in cast("list[object]", given)]
    ids = [
        call.pubsub.publish(call.name, data, attributes=attributes, ordering_key=key)
        for data, attributes, key in messages
    ]
    return {"messageIds": ids}


def _read_message(value: object) -> tuple[bytes, dict[str, str], str]:
    known = {"data": str, "attributes": dict, "orderingKey": str, "messageId": str, "publishTime": str}
    if not isinstance(value, dict):
        raise errors.bad_field("messages", "Invalid value at 'messages' (TYPE_MESSAGE)")
    message = parameters.check_properties(cast("dict[str, Any]", value), known)
    attributes = {str(name): str(text) for name, text in message.get("attributes", {}).items()}
    try:
        text = message.get("data", "").replace("-", "+").replace("_", "/").rstrip("=")
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise errors.bad_field("messages.data", "Invalid value at 'messages.data' (TYPE_BYTES)") from error
    if not data and not attributes:
        raise errors.bad_request("One or more messages in the publish request is empty.")
    return data, attributes, message.get("orderingKey", "")


async def create_subscription(call: PubSubCall) -> dict[str, Any]:
    if call.name in call.pubsub.subscriptions:
        raise _exists(call.name)
    subscription = resources.read_subscription(call.name, call.body)
    if subscription.topic not in call.pubsub.topics:
        raise _missing(subscription.topic)
    call.pubsub.add_subscription(subscription)
    return _to_json(call, subscription)


async def get_subscription(call: PubSubCall) -> dict[str, Any]:
    return _to_json(call, call.subscription)


async def list_subscriptions(call: PubSubCall) -> dict[str, Any]:
    found = [one for name, one in call.pubsub.subscriptions.items() if name.startswith(f"{call.name}/")]
    return _list_page(call, "subscriptions", [_to_json(call, one) for one in found])


async def delete_subscription(call: PubSubCall) -> dict[str, Any]:
    call.pubsub.remove_subscription(call.subscription.name)
    call.pubsub.policies.pop(call.name, None)
    return {}


async def modify_push_config(call: PubSubCall) -> dict[str, Any]:
    """Change the push endpoint; an empty configuration turns push into pull."""
    given = call.body.get("pushConfig")
    config = resources.read_push_config(cast("dict[str, Any]", given) if isinstance(given, dict) else {})
    changed = msgspec.structs.replace(call.subscription, **config)
    changed.validate()
    call.pubsub.subscriptions[call.name] = changed
    return {}


async def pull(call: PubSubCall) -> dict[str, Any]:
    """Pull messages. Without any, wait a moment, as Pub/Sub does unless `returnImmediately` is set."""
    count = call.body.get("maxMessages")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise errors.bad_request("The value for max_messages must be greater than 0.")
    if call.subscription.push_endpoint:
        raise errors.precondition("The subscription is a push subscription.")
    for _ in range(_PULL_CHECKS):
        leased = call.pubsub.pull(call.subscription, count)
        if leased or call.body.get("returnImmediately") is True:
            break
        await asyncio.sleep(_PULL_PAUSE)
    else:
        leased = []
    dead_letter = call.subscription.dead_letter_topic
    received = [
        {"ackId": pending.ack_id, "message": pending.message.to_json()}
        | ({"deliveryAttempt": pending.attempts} if dead_letter else {})
        for pending in leased
    ]
    return {"receivedMessages": received} if received else {}


async def acknowledge(call: PubSubCall) -> dict[str, Any]:
    call.pubsub.acknowledge(call.subscription.name, frozenset(call.read_ids()))
    return {}


async def modify_ack_deadline(call: PubSubCall) -> dict[str, Any]:
    seconds = call.body.get("ackDeadlineSeconds", 0)
    if not isinstance(seconds, int) or not 0 <= seconds <= 600:
        raise errors.bad_request("The ack deadline must be between 0 and 600 seconds.")
    call.pubsub.extend_leases(call.subscription.name, frozenset(call.read_ids()), seconds)
    return {}


async def get_iam_policy(call: PubSubCall) -> dict[str, Any]:
    _check_exists(call)
    topic = call.pubsub.topics.get(call.name)
    policy = call.pubsub.policies.get(call.name)
    if policy is None and topic is not None and topic.publisher:
        policy = {"bindings": [{"role": "roles/pubsub.publisher", "members": [GMAIL_PUBLISHER]}]}
    return _with_etag(policy or {})


async def set_iam_policy(call: PubSubCall) -> dict[str, Any]:
    """Replace the policy. Gmail may publish to a topic if a role of its service account allows it."""
    _check_exists(call)
    given = call.body.get("policy")
    policy = parameters.check_properties(
        cast("dict[str, Any]", given) if isinstance(given, dict) else {},
        {"bindings": object, "etag": str, "version": int},
    )
    listed: object = policy.get("bindings") or []
    if not isinstance(listed, list):
        raise errors.bad_request("The bindings of a policy must be a list.")
    bindings = [_read_binding(one) for one in cast("list[object]", listed)]
    stored = {"bindings": bindings, "version": policy.get("version", 1)} if bindings else {}
    current = (await get_iam_policy(call))["etag"]
    if policy.get("etag", current) != current:
        raise GmailError(GmailErrorBody(409, "aborted", "The etag does not match.", status="ABORTED"))
    call.pubsub.policies[call.name] = stored
    topic = call.pubsub.topics.get(call.name)
    if topic is not None:
        members = {m for one in bindings if one["role"] in _PUBLISHING for m in one["members"]}
        allowed = bool(members & {GMAIL_PUBLISHER, "allUsers", "allAuthenticatedUsers"})
        call.pubsub.topics[call.name] = msgspec.structs.replace(topic, publisher=allowed)
    return _with_etag(stored)


def _read_binding(value: object) -> dict[str, Any]:
    known = {"role": str, "members": list, "condition": dict}
    binding = (
        parameters.check_properties(cast("dict[str, Any]", value), known) if isinstance(value, dict) else {}
    )
    if not binding.get("role") or "condition" in binding:
        raise errors.bad_request("A binding needs a role; conditions are not supported by Pub/Sub.")
    members = cast("list[object]", binding.get("members", []))
    if not all(isinstance(member, str) for member in members):
        raise errors.bad_request("The members of a binding must be strings.")
    return {"role": binding["role"], "members": members}


async def check_iam_permissions(call: PubSubCall) -> dict[str, Any]:
    """Return the permissions of the caller: every one, because the simulator has no roles of its own."""
    given = call.body.get("permissions")
    permissions = (
        [text for text in cast("list[object]", given) if isinstance(text, str)]
        if isinstance(given, list)
        else []
    )
    known = [text for text in permissions if text.startswith("pubsub.")]
    return {"permissions": known} if known else {}


def _check_exists(call: PubSubCall) -> None:
    if call.name not in call.pubsub.topics and call.name not in call.pubsub.subscriptions:
        raise _missing(call.name)


def _with_etag(policy: Mapping[str, Any]) -> dict[str, Any]:
    digest = stable_hash("policy", msgspec.json.encode(policy)).to_bytes(8, "big")
    return {**policy, "etag": base64.b64encode(digest).decode()}


def _to_json(call: PubSubCall, subscription: PubSubSubscription) -> dict[str, Any]:
    exists = subscription.topic in call.pubsub.topics
    return resources.to_subscription_json(subscription, topic_exists=exists)


def _list_page(call: PubSubCall, name: str, entries: list[Any]) -> dict[str, Any]:
    size, start = call.query.get("pageSize", ""), call.query.get("pageToken", "") or "0"
    numbers = (size or "0", start)
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in numbers):
        raise errors.bad_request("Invalid pageSize or pageToken")
    first, count = int(start), int(size or 0) or DEFAULT_PAGE
    response: dict[str, Any] = {name: entries[first : first + count]} if entries[first:] else {}
    if first + count < len(entries):
        response["nextPageToken"] = str(first + count)
    return response


def _missing(name: str) -> GmailError:
    return errors.not_found(f"Resource not found (resource={name.rpartition('/')[2][:200]}).")


def _exists(name: str) -> GmailError:
    shown = name.rpartition("/")[2][:200]
    return GmailError(
        GmailErrorBody(409, "alreadyExists", f"Resource already exists in the project (resource={shown}).")
    )


def _decode_json(content: bytes) -> dict[str, Any]:
    if not content.strip():
        return {}
    try:
        value: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.bad_request("Invalid JSON payload received.", "badRequest") from error
    if not isinstance(value, dict):
        raise errors.bad_request("Invalid JSON payload received.", "badRequest")
    return cast("dict[str, Any]", value)


def _make_response(status: int, value: Mapping[str, Any]) -> Response:
    return Response(encode_json(value, pretty=True), status, media_type="application/json; charset=UTF-8")


_METHODS_BY_PATH: dict[tuple[str, str, str], PubSubMethod] = {
    ("PUT", "topics", "one"): create_topic,
    ("GET", "topics", "one"): get_topic,
    ("GET", "topics", "all"): list_topics,
    ("DELETE", "topics", "one"): delete_topic,
    ("GET", "topics", "subscriptions"): list_topic_subscriptions,
    ("POST", "topics", "publish"): publish,
    ("PUT", "subscriptions", "one"): create_subscription,
    ("GET", "subscriptions", "one"): get_subscription,
    ("GET", "subscriptions", "all"): list_subscriptions,
    ("DELETE", "subscriptions", "one"): delete_subscription,
    ("POST", "subscriptions", "modifyPushConfig"): modify_push_config,
    ("POST", "subscriptions", "pull"): pull,
    ("POST", "subscriptions", "acknowledge"): acknowledge,
    ("POST", "subscriptions", "modifyAckDeadline"): modify_ack_deadline,
    **{
        key: method
        for kind in ("topics", "subscriptions")
        for key, method in {
            ("GET", kind, "getIamPolicy"): get_iam_policy,
            ("POST", kind, "setIamPolicy"): set_iam_policy,
            ("POST", kind, "testIamPermissions"): check_iam_permissions,
        }.items()
    },
}
