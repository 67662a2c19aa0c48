"""Graph's notifications to subscribers: validation handshakes, change notifications, lifecycle events.

It builds, queues, sends and retries them. Delays use the simulator's clock, request timeouts real time.
"""

import asyncio
import time
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from mailsim.graph import filters, resource_data
from mailsim.graph.context import GraphContext
from mailsim.graph.errors import GraphError
from mailsim.graph.message_json import MessagePreferences
from mailsim.graph.push_queue import (
    WINDOW_SECONDS,
    EndpointHealth,
    LatePush,
    PushDelivery,
    PushQueue,
    QueuedNotification,
)
from mailsim.graph.subscription_model import ChangeType, GraphSubscription, classify_change, format_timestamp
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange
from mailsim.push_client import PushOrigin, SubscriberUnreachable

GIVE_UP_SECONDS = 4 * 3600
FIRST_WAIT_SECONDS = 10
LONGEST_WAIT_SECONDS = 1800
REMIND_SECONDS = 900

# Handshake


async def validate_endpoint(graph: GraphContext, subscription: GraphSubscription, url: str) -> None:
    """Require the endpoint to echo the decoded validation token as plain text in time."""
    request_id = graph.sim.registry.new_guid("handshake")
    token = (
        f"Validation: Testing client application reachability for subscription Request-Id: {request_id} +1"
    )
    graph.handshake_count += 1
    encoded = quote_plus(token) if graph.handshake_count % 2 else quote(token, safe="")
    target = f"{url}{'&' if urlsplit(url).query else '?'}validationToken={encoded}"
    headers = {"content-type": "text/plain; charset=utf-8"}
    origin = PushOrigin("outlook", "handshake", subscription.user.upn, subscription.id)
    try:
        response = await graph.sim.push_client.post(
            target, b"", headers, origin, graph.options.validation_timeout
        )
    except TimeoutError as error:
        raise _invalid("Subscription validation request timed out.") from error
    except SubscriberUnreachable as error:
        raise _invalid(
            "Subscription validation request failed. The endpoint could not be reached."
        ) from error
    if response.status != 200:
        reason = response.reason.replace(" ", "") or str(response.status)
        raise _invalid(
            f"Subscription validation request failed. HTTP status code is '{reason}'. Notification endpoint "
            "must respond with 200 OK to validation request."
        )
    if response.text != token or response.content_type != "text/plain":
        raise _invalid(
            "Subscription validation request failed. Must respond with the validation token as text/plain."
        )


def _invalid(message: str) -> GraphError:
    return GraphError(400, "ValidationError", message)


# Change notifications


def handle_change(graph: GraphContext, mailbox: Mailbox, change: MailboxChange) -> None:
    """Notify every subscription that watches the changed mailbox."""
    if mailbox.provider != "outlook" or change.number < 0:
        return
    graph.ids(mailbox)
    if change.kind == "added":
        _delay_readability(graph, mailbox, change.number)
    watchers = graph.subscriptions.list_for_user(graph.entra.directory.get_user(mailbox).oid)
    for subscription in watchers:
        if subscription.is_active(graph.sim.clock.time()):
            for kind, identifier in _list_events(graph, subscription, mailbox, change):
                if kind in subscription.change_types:
                    _notify(graph, subscription, kind, identifier, change)


def _delay_readability(graph: GraphContext, mailbox: Mailbox, number: int) -> None:
    """Hide the message for a while if the fault `not_readable` is scheduled."""
    fault = graph.sim.faults.take("not_readable", mailbox.address, "messages.get", "outlook")
    if fault is not None:
        graph.unreadable_until[mailbox.address, number] = graph.sim.clock.time() + (fault.seconds or 2.0)


def _list_events(
    graph: GraphContext, subscription: GraphSubscription, mailbox: Mailbox, change: MailboxChange
) -> list[tuple[ChangeType, str]]:
    """Return change type and message ID of each notification.

    A move within a watched mailbox is one update, or a deletion and a creation if the ID changes.
    """
    ids = graph.ids(mailbox)
    kind = classify_change(
        subscription,
        change,
        before=_passes_filter(graph, subscription, mailbox, change, at_end=False),
        after=_passes_filter(graph, subscription, mailbox, change, at_end=True),
    )
    if kind is None:
        return []
    if kind == "deleted":
        return [(kind, ids.former_message_id(change, immutable=subscription.immutable))]
    assert change.after is not None
    now = ids.message_id(change.number, change.after.folder, immutable=subscription.immutable)
    moved = change.before is not None and change.before.folder_keys != change.after.folder_keys
    if kind == "updated" and moved and not subscription.immutable:
        return [("deleted", ids.former_message_id(change, immutable=False)), ("created", now)]
    return [(kind, now)]


def _passes_filter(
    graph: GraphContext,
    subscription: GraphSubscription,
    mailbox: Mailbox,
    change: MailboxChange,
    *,
    at_end: bool,
) -> bool:
    state = change.after if at_end else change.before
    if subscription.filter is None or state is None or change.kind == "deleted":
        return True  # the bytes of a deleted message are gone: notify rather than stay silent
    view = graph.make_view(mailbox, change.number, MessagePreferences(immutable=subscription.immutable))
    if view is None:
        return True
    view.state = state
    return filters.matches(subscription.filter, view)


def _notify(
    graph: GraphContext,
    subscription: GraphSubscription,
    kind: ChangeType,
    identifier: str,
    change: MailboxChange,
) -> None:
    item = QueuedNotification(
        subscription,
        _build_notification(graph, subscription, kind, identifier, change),
        graph.sim.clock.time(),
    )
    if graph.options.reauthorization and graph.sim.clock.time() >= subscription.token_expires:
        subscription.paused.append(item)
        return
    enqueue_push(graph, subscription.url, item)
    if kind == "created" and graph.options.echo_updates and "updated" in subscription.change_types:
        enqueue_push(
            graph,
            subscription.url,
            QueuedNotification(subscription, {**item.json, "changeType": "updated"}, item.since),
        )


def _build_notification(
    graph: GraphContext,
    subscription: GraphSubscription,
    kind: ChangeType,
    identifier: str,
    change: MailboxChange,
) -> dict[str, Any]:
    graph.notification_count += 1
    path = f"Users/{subscription.user.oid}/Messages/{identifier}"
    if graph.notification_count % 3 == 0:
        path = f"Users('{subscription.user.oid}')/messages('{identifier}')"
    data: dict[str, Any] = {"@odata.type": "#Microsoft.Graph.Message", "@odata.id": path}
    mailbox = subscription.user.mailbox
    view = graph.make_view(mailbox, change.number, MessagePreferences(immutable=subscription.immutable))
    if view is not None:
        data["@odata.etag"] = f'W/"{view.change_key}"'
    data["id"] = identifier
    expires = format_timestamp(subscription.expires)
    notification: dict[str, Any] = {
        "subscriptionId": subscription.id,
        "subscriptionExpirationDateTime": expires
        if graph.notification_count % 2
        else f"{expires[:-1]}+00:00",
        "changeType": kind,
        "resource": path,
        "resourceData": data,
        "clientState": subscription.client_state,
        "tenantId": subscription.access.tid,
    }
    if graph.notification_count % 2:
        notification["id"] = f"lsgTZMr9K{graph.notification_count:08d}"
    if subscription.includes_resource_data and view is not None and subscription.certificate is not None:
        notification["encryptedContent"] = resource_data.encrypt_content(
            view, subscription.select, subscription.certificate, subscription.certificate_id or ""
        )
    return notification


# Delivery


def enqueue_push(graph: GraphContext, url: str, item: QueuedNotification) -> None:
    """Queue a notification, unless a fault loses, delays, duplicates or reorders it."""
    faults, address = graph.sim.faults, item.subscription.user.upn
    endpoint = "lifecycle" if item.lifecycle else "push"
    if faults.take("push_lost", address, endpoint, "outlook"):
        graph.sim.meters.get(address).pushes_dropped += 1
        return
    late = faults.take("push_late", address, endpoint, "outlook")
    queue = graph.push_queues.setdefault(url, PushQueue(url))
    copies = 2 if faults.take("push_doubled", address, endpoint, "outlook") else 1
    if late is not None:
        due = graph.sim.clock.time() + (late.seconds or 60.0)
        _start_late_push(graph, LatePush(url, [item] * copies, due))
    elif faults.take("push_reordered", address, endpoint, "outlook"):
        queue.held += [item] * copies
        graph.sim.background.start(_release_held(graph, queue), "reordered push")
    else:
        queue.items += [*[item] * copies, *queue.held]
        queue.held.clear()
        _drain(graph, queue)


def _start_late_push(graph: GraphContext, late: LatePush) -> None:
    graph.late_pushes.append(late)
    graph.sim.background.start(_push_late(graph, late), "late push")


async def _push_late(graph: GraphContext, late: LatePush) -> None:
    await graph.sim.clock.sleep_until(late.due)
    graph.late_pushes.remove(late)
    queue = graph.push_queues.setdefault(late.url, PushQueue(late.url))
    queue.items += late.items
    _drain(graph, queue)


async def _release_held(graph: GraphContext, queue: PushQueue) -> None:
    """Send held notifications even if no other notification overtakes them."""
    await graph.sim.clock.sleep(5)
    queue.items += queue.held
    queue.held.clear()
    _drain(graph, queue)


def _drain(graph: GraphContext, queue: PushQueue) -> None:
    if queue.items and not queue.draining:
        queue.draining = True
        graph.sim.background.start(_send_queue(graph, queue), "push")


async def _send_queue(graph: GraphContext, queue: PushQueue) -> None:
    """Send everything that was queued at about the same time in common batches."""
    try:
        if graph.options.push_seconds:
            await graph.sim.clock.sleep(graph.options.push_seconds)
        else:
            await asyncio.sleep(0.001)
    finally:
        queue.draining = False
    waiting, queue.items = queue.items, []
    health = get_health(graph, queue.url)
    for start in range(0, len(waiting), graph.options.push_batch):
        batch = waiting[start : start + graph.options.push_batch]
        decision = "send" if all(item.lifecycle for item in batch) else health.decide(graph.sim.clock.time())
        if decision == "drop":
            _drop(graph, batch, health.drop_until)
        else:
            due = graph.sim.clock.time() + (WINDOW_SECONDS if decision == "delay" else 0)
            _start_delivery(graph, PushDelivery(queue.url, batch, due, due, FIRST_WAIT_SECONDS))


def get_health(graph: GraphContext, url: str) -> EndpointHealth:
    """Return the health of an endpoint, which is identified by its URL without the query."""
    return graph.endpoint_health.setdefault(url.partition("?")[0], EndpointHealth())


def _start_delivery(graph: GraphContext, delivery: PushDelivery) -> None:
    graph.deliveries.append(delivery)
    graph.sim.background.start(_deliver(graph, delivery), "push")


async def _deliver(graph: GraphContext, delivery: PushDelivery) -> None:
    """Attempt a delivery until it succeeds or is given up."""
    clock = graph.sim.clock
    if delivery.due > clock.time():
        await clock.sleep_until(delivery.due)
    while batch := [item for item in delivery.batch if _is_deliverable(item, clock.time())]:
        delivery.attempts += 1
        if await _attempt(graph, delivery.url, batch, first=delivery.attempts == 1):
            break
        if clock.time() + delivery.pause > delivery.began + GIVE_UP_SECONDS:
            _drop(graph, batch, clock.time())
            break
        delivery.due = clock.time() + delivery.pause
        delivery.pause = min(delivery.pause * 2, LONGEST_WAIT_SECONDS)
        await clock.sleep_until(delivery.due)
    graph.deliveries.remove(delivery)


def _is_deliverable(item: QueuedNotification, now: float) -> bool:
    return item.lifecycle or item.subscription.is_active(now)


async def _attempt(graph: GraphContext, url: str, batch: list[QueuedNotification], *, first: bool) -> bool:
    options = graph.options
    limit = options.first_timeout if first else options.retry_timeout
    body: dict[str, Any] = {"value": [item.json for item in batch]}
    subscriptions = [item.subscription for item in batch if item.subscription.includes_resource_data]
    if subscriptions:
        body["validationTokens"] = resource_data.make_validation_tokens(graph, subscriptions)
    started = time.monotonic()
    headers = {"content-type": "application/json; charset=utf-8"}
    try:
        response = await graph.sim.push_client.post(
            url, msgspec.json.encode(body), headers, _origin(batch), limit
        )
        acknowledged, took = 200 <= response.status < 300, time.monotonic() - started
    except TimeoutError:
        acknowledged, took = False, limit
    except SubscriberUnreachable:
        acknowledged, took = False, time.monotonic() - started
    if not all(item.lifecycle for item in batch):
        now = graph.sim.clock.time()
        slow, very_slow = took >= options.first_timeout, took >= options.retry_timeout
        get_health(graph, url).record(now, slow=slow, very_slow=very_slow)
    for address in {item.subscription.user.upn for item in batch}:
        meter = graph.sim.meters.get(address)
        meter.pushes_sent += 1
        meter.pushes_acknowledged += acknowledged
        meter.pushes_failed += not acknowledged
    return acknowledged


def _origin(batch: list[QueuedNotification]) -> PushOrigin:
    endpoint = "lifecycle" if all(item.lifecycle for item in batch) else "push"
    mailboxes = dict.fromkeys(item.subscription.user.upn for item in batch)
    subscriptions = dict.fromkeys(item.subscription.id for item in batch)
    return PushOrigin("outlook", endpoint, ", ".join(mailboxes), ", ".join(subscriptions))


def _drop(graph: GraphContext, batch: list[QueuedNotification], until: float) -> None:
    """Give up on notifications and schedule a `missed` event for their subscriptions."""
    subscriptions = {item.subscription.id: item.subscription for item in batch if not item.lifecycle}
    for subscription in subscriptions.values():
        graph.sim.meters.get(subscription.user.upn).pushes_dropped += 1
        if subscription.id not in graph.pending_missed:
            graph.pending_missed[subscription.id] = until
            graph.sim.background.start(_send_missed_event(graph, subscription, until), "missed")


async def _send_missed_event(graph: GraphContext, subscription: GraphSubscription, until: float) -> None:
    await graph.sim.clock.sleep_until(until)
    graph.pending_missed.pop(subscription.id, None)
    if subscription.is_active(graph.sim.clock.time()):
        send_lifecycle_event(graph, subscription, "missed")


def resume(graph: GraphContext) -> None:
    """Start the pending work of a loaded simulation: deliveries, delayed pushes, reminders."""
    background = graph.sim.background
    for delivery in graph.deliveries:
        background.start(_deliver(graph, delivery), "push")
    for late in graph.late_pushes:
        background.start(_push_late(graph, late), "late push")
    for queue in graph.push_queues.values():
        queue.draining = False
        _drain(graph, queue)
        if queue.held:
            background.start(_release_held(graph, queue), "reordered push")
    for subscription in graph.subscriptions.list_all():
        schedule_reminders(graph, subscription)
        if subscription.id in graph.pending_missed:
            until = graph.pending_missed[subscription.id]
            background.start(_send_missed_event(graph, subscription, until), "missed")


# Lifecycle


def send_lifecycle_event(
    graph: GraphContext, subscription: GraphSubscription, event: str, shape: str = ""
) -> bool:
    """Send a lifecycle event if the subscription has a lifecycle URL; whether it was sent.

    `subscriptionRemoved` also removes the subscription.

    Microsoft sends two shapes, with tenantId or with organizationId; both occur here.
    """
    if event == "subscriptionRemoved":
        graph.subscriptions.remove(subscription)
    if subscription.lifecycle_url is None:
        return False
    graph.notification_count += 1
    chosen = shape or graph.options.lifecycle_shape
    if chosen == "both":
        chosen = "organization" if graph.notification_count % 2 else "tenant"
    notification: dict[str, Any] = {
        "subscriptionId": subscription.id,
        "subscriptionExpirationDateTime": format_timestamp(subscription.expires),
        "clientState": subscription.client_state,
        "lifecycleEvent": event,
    }
    if chosen == "tenant":
        notification["tenantId"] = subscription.access.tid
    else:
        notification |= {
            "organizationId": subscription.access.tid,
            "resource": "",
            "sequence": None,
            "encryptedContent": None,
        }
        notification["resourceData"] = {"@odata.type": "", "@odata.id": "", "id": ""}
    enqueue_push(
        graph,
        subscription.lifecycle_url,
        QueuedNotification(subscription, notification, graph.sim.clock.time(), lifecycle=True),
    )
    return True


def schedule_reminders(graph: GraphContext, subscription: GraphSubscription) -> None:
    """Schedule the reminders and the end of a subscription, replacing those of earlier expiry times."""
    if subscription.reminders is not None:
        subscription.reminders.cancel()
    subscription.reminders = graph.sim.background.start(_run_reminders(graph, subscription), "subscription")


async def _run_reminders(graph: GraphContext, subscription: GraphSubscription) -> None:
    """Send reauthorizationRequired from 30 minutes before token or subscription expiry, every 15 minutes."""
    clock = graph.sim.clock
    token_reminders = [(subscription.token_expires + step * REMIND_SECONDS, True) for step in range(-2, 17)]
    expiry_reminders = [(subscription.expires - step * REMIND_SECONDS, False) for step in (2, 1)]
    for due, token in sorted([*token_reminders, *expiry_reminders]):
        if clock.time() <= due < subscription.expires:
            await clock.sleep_until(due)
            if graph.options.reauthorization or not token:
                send_lifecycle_event(graph, subscription, "reauthorizationRequired")
    await clock.sleep_until(subscription.expires)
    graph.subscriptions.remove(subscription)


def reauthorize(graph: GraphContext, subscription: GraphSubscription, token_expires: float) -> None:
    """Record a fresh access token and send paused notifications, except those that waited too long."""
    subscription.token_expires = token_expires
    schedule_reminders(graph, subscription)
    waiting, subscription.paused = subscription.paused, []
    now = graph.sim.clock.time()
    lost = [item for item in waiting if item.since < now - GIVE_UP_SECONDS]
    for item in waiting:
        if item.since >= now - GIVE_UP_SECONDS:
            enqueue_push(graph, subscription.url, item)
    if lost:
        _drop(graph, lost, now)
