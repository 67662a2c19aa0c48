"""Topics and subscriptions of Pub/Sub as JSON of its REST API, in both directions.

Properties without a counterpart in the simulator are rejected with 501, so that no setting is ignored. Only
the attributes of a push endpoint, which choose the version of its format, are accepted without effect.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from mailsim.gmail.errors import bad_field, bad_request, not_simulated
from mailsim.gmail.parameters import check_properties
from mailsim.google.pubsub_resources import PubSubSubscription, PubSubTopic

DELETED_TOPIC = "_deleted-topic_"
_DURATION = re.compile(r"(\d{1,9})(?:\.\d{1,9})?s")
_REJECTED = {
    "enableExactlyOnceDelivery", "enableMessageOrdering", "filter", "retainAckedMessages", "bigqueryConfig",
    "cloudStorageConfig", "bigtableConfig", "messageTransforms", "tags", "kmsKeyName", "schemaSettings",
    "messageStoragePolicy", "ingestionDataSourceSettings",
}  # fmt: skip
_OUTPUT = {"name", "state", "satisfiesPzs", "topicMessageRetentionDuration", "detached",
           "analyticsHubSubscriptionInfo"}  # fmt: skip
_TOPIC: dict[str, type] = {"labels": dict, "messageRetentionDuration": str}
_SUBSCRIPTION: dict[str, type] = _TOPIC | {
    "topic": str,
    "pushConfig": dict,
    "ackDeadlineSeconds": int,
    "expirationPolicy": dict,
    "deadLetterPolicy": dict,
    "retryPolicy": dict,
}


def read_properties(body: Mapping[str, Any], known: Mapping[str, type]) -> dict[str, Any]:
    """Check a resource: output-only properties are dropped, unsimulated ones rejected."""
    for name in _REJECTED & body.keys():
        if body[name]:
            raise not_simulated(f"the Pub/Sub property {name}")
    return check_properties({name: body[name] for name in body.keys() - _REJECTED - _OUTPUT}, known)


def read_topic(name: str, body: Mapping[str, Any]) -> PubSubTopic:
    """Read a new topic. Gmail may not publish to it until a policy allows it."""
    fields = read_properties(body, _TOPIC)
    return PubSubTopic(
        name,
        publisher=False,
        labels=_read_labels(fields),
        retention=fields.get("messageRetentionDuration", ""),
    )


def to_topic_json(topic: PubSubTopic) -> dict[str, Any]:
    response: dict[str, Any] = {"name": topic.name}
    if topic.labels:
        response["labels"] = topic.labels
    if topic.retention:
        response["messageRetentionDuration"] = topic.retention
    return response


def read_subscription(name: str, body: Mapping[str, Any]) -> PubSubSubscription:
    fields = read_properties(body, _SUBSCRIPTION)
    retry = _read_object(fields, "retryPolicy", {"minimumBackoff": str, "maximumBackoff": str})
    dead = _read_object(fields, "deadLetterPolicy", {"deadLetterTopic": str, "maxDeliveryAttempts": int})
    expiration = _read_object(fields, "expirationPolicy", {"ttl": str})
    has_expiration = "expirationPolicy" in fields
    return PubSubSubscription(
        name,
        fields.get("topic", ""),
        **read_push_config(fields.get("pushConfig", {})),
        ack_seconds=fields.get("ackDeadlineSeconds", 0) or 10,
        retry_min_seconds=_read_seconds(retry, "minimumBackoff", 10) if retry else None,
        retry_max_seconds=_read_seconds(retry, "maximumBackoff", 600) if retry else None,
        dead_letter_topic=dead.get("deadLetterTopic", ""),
        max_attempts=dead.get("maxDeliveryAttempts", 0) or 5,
        retention_seconds=_read_seconds(fields, "messageRetentionDuration", 7 * 86_400),
        labels=_read_labels(fields),
        expires_after=expiration.get("ttl", "") if has_expiration else "2678400s",
    )


def read_push_config(body: Mapping[str, Any]) -> dict[str, Any]:
    """Read where and how to push; empty for a pull subscription."""
    known: dict[str, type] = {
        "pushEndpoint": str,
        "attributes": dict,
        "oidcToken": dict,
        "noWrapper": dict,
        "pubsubWrapper": dict,
    }
    fields = check_properties(body, known)
    token = _read_object(fields, "oidcToken", {"serviceAccountEmail": str, "audience": str})
    unwrapped = _read_object(fields, "noWrapper", {"writeMetadata": bool})
    return {
        "push_endpoint": fields.get("pushEndpoint", ""),
        "service_account": token.get("serviceAccountEmail", ""),
        "audience": token.get("audience", ""),
        "no_wrapper": "noWrapper" in fields,
        "write_metadata": unwrapped.get("writeMetadata", False),
    }


def to_subscription_json(subscription: PubSubSubscription, *, topic_exists: bool) -> dict[str, Any]:
    response: dict[str, Any] = {
        "name": subscription.name,
        "topic": subscription.topic if topic_exists else DELETED_TOPIC,
        "pushConfig": _to_push_json(subscription),
        "ackDeadlineSeconds": subscription.ack_seconds,
        "messageRetentionDuration": f"{subscription.retention_seconds}s",
        "expirationPolicy": {"ttl": subscription.expires_after} if subscription.expires_after else {},
        "state": "ACTIVE",
    }
    if subscription.labels:
        response["labels"] = subscription.labels
    if subscription.retry_min_seconds is not None or subscription.retry_max_seconds is not None:
        response["retryPolicy"] = {
            "minimumBackoff": f"{subscription.retry_min_seconds or 10:g}s",
            "maximumBackoff": f"{subscription.retry_max_seconds or 600:g}s",
        }
    if subscription.dead_letter_topic:
        response["deadLetterPolicy"] = {
            "deadLetterTopic": subscription.dead_letter_topic,
            "maxDeliveryAttempts": subscription.max_attempts,
        }
    return response


def _to_push_json(subscription: PubSubSubscription) -> dict[str, Any]:
    if not subscription.push_endpoint:
        return {}
    response: dict[str, Any] = {"pushEndpoint": subscription.push_endpoint}
    if subscription.service_account:
        audience = subscription.audience or subscription.push_endpoint
        response["oidcToken"] = {"serviceAccountEmail": subscription.service_account, "audience": audience}
    if subscription.no_wrapper:
        response["noWrapper"] = {"writeMetadata": subscription.write_metadata}
    return response


def _read_object(fields: Mapping[str, Any], name: str, known: Mapping[str, type]) -> dict[str, Any]:
    return check_properties(fields.get(name, {}), known)


def _read_labels(fields: Mapping[str, Any]) -> dict[str, str]:
    labels = cast("dict[str, Any]", fields.get("labels", {}))
    if not all(isinstance(value, str) for value in labels.values()):
        raise bad_field("labels", "Invalid value at 'labels' (TYPE_STRING)")
    return labels


def _read_seconds(fields: Mapping[str, Any], name: str, default: int) -> int:
    text = fields.get(name, "")
    if not text:
        return default
    duration = _DURATION.fullmatch(text)
    if duration is None:
        raise bad_request(f"Invalid duration in {name}: it must end with 's'")
    return int(duration[1])
