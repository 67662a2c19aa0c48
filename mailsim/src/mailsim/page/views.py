"""Template values of the two views."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any

from mailsim import mime, samples
from mailsim.control.mailboxes import mailbox_info
from mailsim.faults import KINDS
from mailsim.mailbox import Mailbox
from mailsim.message_state import get_labels
from mailsim.simulator import Simulator

REQUESTS = 40
PUSHES = 15
MESSAGES = 50


def overview(sim: Simulator) -> dict[str, Any]:
    registry = sim.registry
    boxes = [
        (mailbox_info(mailbox), sim.meters.get(mailbox.address)) for mailbox in registry.mailboxes.values()
    ]
    return {
        "sim": sim,
        "now": sim.clock.now().strftime("%a %d %b %Y, %H:%M:%S UTC"),
        "boxes": boxes,
        "subscriptions": [
            (mailbox.address, subscription)
            for mailbox in registry.mailboxes.values()
            for subscription in _subscriptions(sim, mailbox)
        ],
        "plans": sim.faults.list_all(),
        "requests": [
            (_time(exchange.milliseconds), exchange)
            for exchange in islice(sim.request_log.newest(), REQUESTS)
        ],
        "pushes": [
            (_time(exchange.milliseconds), exchange) for exchange in islice(sim.push_log.newest(), PUSHES)
        ],
        "applications": list(registry.applications.values()),
        "kinds": samples.list_kinds(),
        "fault_kinds": KINDS,
    }


def mailbox(sim: Simulator, address: str, folder: str) -> dict[str, Any]:
    found = sim.registry.get_mailbox(address)
    inside = found.in_folder(found.folder(folder).key) if folder else None
    return {
        "sim": sim,
        "box": mailbox_info(found),
        "meter": sim.meters.get(found.address),
        "chosen": folder,
        "folders": [
            (item, found.states.count(found.in_folder(item.key)))
            for item in found.folders.values()
            if not item.hidden
        ],
        "subscriptions": _subscriptions(sim, found),
        "messages": [_message(found, number) for number in islice(found.states.newest(inside), MESSAGES)],
        "kinds": samples.list_kinds(),
    }


def _subscriptions(sim: Simulator, found: Mailbox) -> list[dict[str, Any]]:
    return sim.providers[found.provider].subscriptions(found)


def _message(found: Mailbox, number: int) -> dict[str, Any]:
    state = found.state(number)
    assert state is not None
    headers = {name.lower(): value for name, value in mime.read_headers(found.raw(number))}
    places = get_labels(state) - {"UNREAD", "STARRED"} if found.provider == "gmail" else state.folder_keys
    return {
        "number": number,
        "from": mime.decode_words(headers.get("from", "")),
        "subject": mime.decode_words(headers.get("subject", "")) or "(no subject)",
        "received": _time(found.received_ms(number)),
        "places": [found.folders[key].name for key in sorted(places)],
        "state": state,
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
