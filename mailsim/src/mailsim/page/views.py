"""The values that the web page's templates show, for the overview and for one mailbox. Read-only."""

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
    mailboxes = [
        (mailbox_info(mailbox), sim.meters.get(mailbox.address)) for mailbox in registry.mailboxes.values()
    ]
    return {
        "sim": sim,
        "now": sim.clock.now().strftime("%a %d %b %Y, %H:%M:%S UTC"),
        "mailboxes": mailboxes,
        "subscriptions": [
            (mailbox.address, subscription)
            for mailbox in registry.mailboxes.values()
            for subscription in _list_subscriptions(sim, mailbox)
        ],
        "faults": sim.faults.list_all(),
        "requests": [
            (_format_time(exchange.milliseconds), exchange)
            for exchange in islice(sim.request_log.newest(), REQUESTS)
        ],
        "pushes": [
            (_format_time(exchange.milliseconds), exchange)
            for exchange in islice(sim.push_log.newest(), PUSHES)
        ],
        "applications": list(registry.applications.values()),
        "kinds": samples.list_kinds(),
        "fault_kinds": KINDS,
    }


def mailbox(sim: Simulator, address: str, folder: str) -> dict[str, Any]:
    mailbox = sim.registry.get_mailbox(address)
    in_folder = mailbox.in_folder(mailbox.folder(folder).key) if folder else None
    return {
        "sim": sim,
        "mailbox": mailbox_info(mailbox),
        "meter": sim.meters.get(mailbox.address),
        "selected_folder": folder,
        "folders": [
            (folder_row, mailbox.states.count(mailbox.in_folder(folder_row.key)))
            for folder_row in mailbox.folders.values()
            if not folder_row.hidden
        ],
        "subscriptions": _list_subscriptions(sim, mailbox),
        "messages": [
            _describe_message(mailbox, number)
            for number in islice(mailbox.states.newest(in_folder), MESSAGES)
        ],
        "kinds": samples.list_kinds(),
    }


def _list_subscriptions(sim: Simulator, mailbox: Mailbox) -> list[dict[str, Any]]:
    return sim.providers[mailbox.provider].subscriptions(mailbox)


def _describe_message(mailbox: Mailbox, number: int) -> dict[str, Any]:
    state = mailbox.state(number)
    assert state is not None
    headers = {name.lower(): value for name, value in mime.parse_headers(mailbox.raw(number))}
    folder_keys = (
        get_labels(state) - {"UNREAD", "STARRED"} if mailbox.provider == "gmail" else state.folder_keys
    )
    return {
        "number": number,
        "from": mime.decode_words(headers.get("from", "")),
        "subject": mime.decode_words(headers.get("subject", "")) or "(no subject)",
        "received": _format_time(mailbox.received_ms(number)),
        "folders": [mailbox.folders[key].name for key in sorted(folder_keys)],
        "state": state,
    }


def _format_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
