"""Microsoft's webhooks: handshakes, change notifications with their retries, lifecycle events.

Waiting happens on the simulator's clock; how long an endpoint may take is real time.
"""

import asyncio
import time
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from mailsim.graph import filters, rich
from mailsim.graph.context import Graph
from mailsim.graph.errors import GraphError
from mailsim.graph.outbox import WINDOW_SECONDS, Health, Item, Outbox
from mailsim.graph.subscribed import ChangeType, Subscription, meaning, moment
from mailsim.graph.wire import Preferences
from mailsim.mailbox import Mailbox
from mailsim.outgoing import Origin, Unreachable
from mailsim.state import Change

GIVE_UP_SECONDS = 4 * 3600
FIRST_WAIT_SECONDS = 10
LONGEST_WAIT_SECONDS = 1800
REMIND_SECONDS = 900

# Handshake


async def validate(graph: Graph, one: Subscription, url: str) -> None:
    """The endpoint must echo a token, decoded, as plain text, in time."""
    named = graph.sim.world.new_guid("handshake")
    token = f"Validation: Testing client application reachability for subscription Request-Id: {named} +1"
    graph.handshakes += 1
    encoded = quote_plus(token) if graph.handshakes % 2 else quote(token, safe="")
    target = f"{url}{'&' if urlsplit(url).query else '?'}validationToken={encoded}"
    headers = {"content-type": "text/plain; charset=utf-8"}
    origin = Origin("outlook", "handshake", one.user.upn, one.id)
    try:
        answer = await graph.sim.outgoing.post(target, b"", headers, origin, graph.options.validation_timeout)
    except TimeoutError as error:
        raise _invalid("Subscription validation request timed out.") from error
    except Unreachable as error:
        raise _invalid(
            "Subscription validation request failed. The endpoint could not be reached."
        ) from error
    if answer.status != 200:
        words = answer.reason.replace(" ", "") or str(answer.status)
        raise _invalid(
            f"Subscription validation request failed. HTTP status code is '{words}'. Notification endpoint "
            "must respond with 200 OK to validation request."
        )
    if answer.text != token or answer.content_type != "text/plain":
        raise _invalid(
            "Subscription validation request failed. Must respond with the validation token as text/plain."
        )


def _invalid(message: str) -> GraphError:
    return GraphError(400, "ValidationError", message)


# Changes


def heard(graph: Graph, mailbox: Mailbox, change: Change) -> None:
    """A mailbox changed: tell everybody who watches it."""
    if mailbox.provider != "outlook" or change.number < 0:
        return
    graph.ids(mailbox)
    watchers = graph.subscriptions.of(graph.entra.directory.user(mailbox).oid)
    told = False
    for one in watchers:
        if one.active(graph.sim.clock.time()):
            for kind, identifier in _events(graph, one, mailbox, change):
                if kind in one.change_types:
                    _tell(graph, one, kind, identifier, change)
                    told = True
    if told and change.kind == "added":
        _hide(graph, mailbox, change.number)


def _hide(graph: Graph, mailbox: Mailbox, number: int) -> None:
    """The push may be faster than the message."""
    fault = graph.sim.faults.take("not_readable", mailbox.address, "messages.get", "outlook")
    if fault is not None:
        graph.hidden[mailbox.address, number] = graph.sim.clock.time() + (fault.seconds or 2.0)


def _events(
    graph: Graph, one: Subscription, mailbox: Mailbox, change: Change
) -> list[tuple[ChangeType, str]]:
    """A move in a watched mailbox is one update, or, where ids change with it, a deletion and a creation."""
    ids = graph.ids(mailbox)
    kind = meaning(
        one,
        change,
        before=_passes(graph, one, mailbox, change, then=True),
        after=_passes(graph, one, mailbox, change, then=False),
    )
    if kind is None:
        return []
    if kind == "deleted":
        return [(kind, ids.left(change, immutable=one.immutable))]
    assert change.after is not None
    now = ids.message(change.number, change.after.folder, immutable=one.immutable)
    moved = change.before is not None and change.before.places != change.after.places
    if kind == "updated" and moved and not one.immutable:
        return [("deleted", ids.left(change, immutable=False)), ("created", now)]
    return [(kind, now)]


def _passes(graph: Graph, one: Subscription, mailbox: Mailbox, change: Change, *, then: bool) -> bool:
    state = change.before if then else change.after
    if one.where is None or state is None or change.kind == "deleted":
        return True  # the bytes of a deleted message are gone: told rather than kept back
    view = graph.view(mailbox, change.number, Preferences(immutable=one.immutable))
    if view is None:
        return True
    view.state = state
    return filters.holds(one.where, view)


def _tell(graph: Graph, one: Subscription, kind: ChangeType, identifier: str, change: Change) -> None:
    item = Item(one, _notification(graph, one, kind, identifier, change), graph.sim.clock.time())
    if graph.options.reauthorization and graph.sim.clock.time() >= one.token_expires:
        one.paused.append(item)
        return
    push(graph, one.url, item)
    if kind == "created" and graph.options.echo_updates and "updated" in one.change_types:
        push(graph, one.url, Item(one, {**item.json, "changeType": "updated"}, item.since))


def _notification(
    graph: Graph, one: Subscription, kind: ChangeType, identifier: str, change: Change
) -> dict[str, Any]:
    graph.told += 1
    path = f"Users/{one.user.oid}/Messages/{identifier}"
    if graph.told % 3 == 0:
        path = f"Users('{one.user.oid}')/messages('{identifier}')"
    data: dict[str, Any] = {"@odata.type": "#Microsoft.Graph.Message", "@odata.id": path}
    mailbox = one.user.mailbox
    view = graph.view(mailbox, change.number, Preferences(immutable=one.immutable))
    if view is not None:
        data["@odata.etag"] = f'W/"{view.change_key}"'
    data["id"] = identifier
    expires = moment(one.expires)
    told: dict[str, Any] = {
        "subscriptionId": one.id,
        "subscriptionExpirationDateTime": expires if graph.told % 2 else f"{expires[:-1]}+00:00",
        "changeType": kind,
        "resource": path,
        "resourceData": data,
        "clientState": one.client_state,
        "tenantId": one.access.tid,
    }
    if graph.told % 2:
        told["id"] = f"lsgTZMr9K{graph.told:08d}"
    if one.rich and view is not None and one.certificate is not None:
        told["encryptedContent"] = rich.seal(view, one.select, one.certificate, one.certificate_id or "")
    return told


# Delivery


def push(graph: Graph, url: str, item: Item) -> None:
    """Put a notification on its way, unless a fault loses, delays, doubles or reorders it."""
    faults, address = graph.sim.faults, item.subscription.user.upn
    endpoint = "lifecycle" if item.lifecycle else "push"
    if faults.take("push_lost", address, endpoint, "outlook"):
        graph.sim.meters.of(address).pushes_dropped += 1
        return
    late = faults.take("push_late", address, endpoint, "outlook")
    outbox = graph.outboxes.setdefault(url, Outbox(url))
    copies = 2 if faults.take("push_doubled", address, endpoint, "outlook") else 1
    if late is not None:
        graph.sim.background.start(_later(graph, outbox, [item] * copies, late.seconds or 60.0), "late push")
    elif faults.take("push_reordered", address, endpoint, "outlook"):
        outbox.held += [item] * copies
        graph.sim.background.start(_release(graph, outbox), "reordered push")
    else:
        outbox.items += [*[item] * copies, *outbox.held]
        outbox.held.clear()
        _drain(graph, outbox)


async def _later(graph: Graph, outbox: Outbox, items: list[Item], seconds: float) -> None:
    await graph.sim.clock.sleep(seconds)
    outbox.items += items
    _drain(graph, outbox)


async def _release(graph: Graph, outbox: Outbox) -> None:
    """What waits to be overtaken goes out at last when nothing overtakes it."""
    await graph.sim.clock.sleep(5)
    outbox.items += outbox.held
    outbox.held.clear()
    _drain(graph, outbox)


def _drain(graph: Graph, outbox: Outbox) -> None:
    if outbox.items and not outbox.draining:
        outbox.draining = True
        graph.sim.background.start(_send_off(graph, outbox), "push")


async def _send_off(graph: Graph, outbox: Outbox) -> None:
    """Everything that comes in the same moment goes out together."""
    try:
        if graph.options.push_seconds:
            await graph.sim.clock.sleep(graph.options.push_seconds)
        else:
            await asyncio.sleep(0.001)
    finally:
        outbox.draining = False
    waiting, outbox.items = outbox.items, []
    health = health_of(graph, outbox.url)
    for start in range(0, len(waiting), graph.options.push_batch):
        batch = waiting[start : start + graph.options.push_batch]
        verdict = "send" if all(item.lifecycle for item in batch) else health.verdict(graph.sim.clock.time())
        if verdict == "drop":
            _dropped(graph, batch, health.drop_until)
        else:
            wait = WINDOW_SECONDS if verdict == "delay" else 0
            graph.sim.background.start(_deliver(graph, outbox.url, batch, wait), "push")


def health_of(graph: Graph, url: str) -> Health:
    """An endpoint is known by its URL without the query."""
    return graph.health.setdefault(url.partition("?")[0], Health())


async def _deliver(graph: Graph, url: str, batch: list[Item], wait: float) -> None:
    clock = graph.sim.clock
    if wait:
        await clock.sleep(wait)
    began, pause, attempt = clock.time(), FIRST_WAIT_SECONDS, 0
    while batch := [item for item in batch if _still_wanted(item, clock.time())]:
        attempt += 1
        if await _attempt(graph, url, batch, first=attempt == 1):
            return
        if clock.time() + pause > began + GIVE_UP_SECONDS:
            _dropped(graph, batch, clock.time())
            return
        await clock.sleep(pause)
        pause = min(pause * 2, LONGEST_WAIT_SECONDS)


def _still_wanted(item: Item, now: float) -> bool:
    return item.lifecycle or item.subscription.active(now)


async def _attempt(graph: Graph, url: str, batch: list[Item], *, first: bool) -> bool:
    options = graph.options
    limit = options.first_timeout if first else options.retry_timeout
    body: dict[str, Any] = {"value": [item.json for item in batch]}
    subscriptions = [item.subscription for item in batch if item.subscription.rich]
    if subscriptions:
        body["validationTokens"] = rich.tokens(graph, subscriptions)
    started = time.monotonic()
    headers = {"content-type": "application/json; charset=utf-8"}
    try:
        answer = await graph.sim.outgoing.post(url, msgspec.json.encode(body), headers, _origin(batch), limit)
        good, took = 200 <= answer.status < 300, time.monotonic() - started
    except TimeoutError:
        good, took = False, limit
    except Unreachable:
        good, took = False, time.monotonic() - started
    if not all(item.lifecycle for item in batch):
        now = graph.sim.clock.time()
        slow, very = took >= options.first_timeout, took >= options.retry_timeout
        health_of(graph, url).note(now, slow=slow, very_slow=very)
    for address in {item.subscription.user.upn for item in batch}:
        meter = graph.sim.meters.of(address)
        meter.pushes_sent += 1
        meter.pushes_acknowledged += good
        meter.pushes_failed += not good
    return good


def _origin(batch: list[Item]) -> Origin:
    endpoint = "lifecycle" if all(item.lifecycle for item in batch) else "push"
    mailboxes = dict.fromkeys(item.subscription.user.upn for item in batch)
    subscriptions = dict.fromkeys(item.subscription.id for item in batch)
    return Origin("outlook", endpoint, ", ".join(mailboxes), ", ".join(subscriptions))


def _dropped(graph: Graph, batch: list[Item], until: float) -> None:
    """Given up for good; those concerned are told that they missed something."""
    concerned = {item.subscription.id: item.subscription for item in batch if not item.lifecycle}
    for one in concerned.values():
        graph.sim.meters.of(one.user.upn).pushes_dropped += 1
        if one.id not in graph.missing:
            graph.missing.add(one.id)
            graph.sim.background.start(_missed(graph, one, until), "missed")


async def _missed(graph: Graph, one: Subscription, until: float) -> None:
    await graph.sim.clock.sleep_until(until)
    graph.missing.discard(one.id)
    if one.active(graph.sim.clock.time()):
        lifecycle(graph, one, "missed")


# Lifecycle


def lifecycle(graph: Graph, one: Subscription, event: str, shape: str = "") -> bool:
    """Tell of an event, if the subscription has a place to be told. Both shapes seen in the wild occur."""
    if event == "subscriptionRemoved":
        graph.subscriptions.remove(one)
    if one.lifecycle_url is None:
        return False
    graph.told += 1
    chosen = shape or graph.options.lifecycle_shape
    if chosen == "both":
        chosen = "organization" if graph.told % 2 else "tenant"
    told: dict[str, Any] = {
        "subscriptionId": one.id,
        "subscriptionExpirationDateTime": moment(one.expires),
        "clientState": one.client_state,
        "lifecycleEvent": event,
    }
    if chosen == "tenant":
        told["tenantId"] = one.access.tid
    else:
        told |= {"organizationId": one.access.tid, "resource": "", "sequence": None, "encryptedContent": None}
        told["resourceData"] = {"@odata.type": "", "@odata.id": "", "id": ""}
    push(graph, one.lifecycle_url, Item(one, told, graph.sim.clock.time(), lifecycle=True))
    return True


def watch(graph: Graph, one: Subscription) -> None:
    """Look after it from now on; what was planned by older times is off."""
    if one.keeper is not None:
        one.keeper.cancel()
    one.keeper = graph.sim.background.start(_look_after(graph, one), "subscription")


async def _look_after(graph: Graph, one: Subscription) -> None:
    """Remind half an hour before token or subscription end, and every quarter of an hour from then on."""
    clock = graph.sim.clock
    of_token = [(one.token_expires + step * REMIND_SECONDS, True) for step in range(-2, 17)]
    of_end = [(one.expires - step * REMIND_SECONDS, False) for step in (2, 1)]
    for due, token in sorted([*of_token, *of_end]):
        if clock.time() <= due < one.expires:
            await clock.sleep_until(due)
            if graph.options.reauthorization or not token:
                lifecycle(graph, one, "reauthorizationRequired")
    await clock.sleep_until(one.expires)
    graph.subscriptions.remove(one)


def reauthorized(graph: Graph, one: Subscription, token_expires: float) -> None:
    """A fresh token vouches for the subscription: what waited for it goes out, unless it waited too long."""
    one.token_expires = token_expires
    watch(graph, one)
    waiting, one.paused = one.paused, []
    now = graph.sim.clock.time()
    lost = [item for item in waiting if item.since < now - GIVE_UP_SECONDS]
    for item in waiting:
        if item.since >= now - GIVE_UP_SECONDS:
            push(graph, one.url, item)
    if lost:
        _dropped(graph, lost, now)
