"""The functions of the users.settings.filters methods, and the filters applied to an arriving message.

Gmail's guide "Manage Gmail filters": a message must meet all criteria; a filter adds at most one user label.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from mailsim import mime
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found, not_simulated, precondition
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.listing import MailboxMessage, compile_mailbox_search
from mailsim.gmail.parameters import check_properties
from mailsim.message_state import MessageState, get_labels, with_labels

MAX_FILTERS = 1000
_CRITERIA: dict[str, type] = {
    "from": str,
    "to": str,
    "subject": str,
    "query": str,
    "negatedQuery": str,
    "hasAttachment": bool,
    "excludeChats": bool,
    "size": int,
    "sizeComparison": str,
}
_ACTION: dict[str, type] = {"addLabelIds": list, "removeLabelIds": list, "forward": str}


@dataclass(frozen=True)
class ArrivingMessage(MailboxMessage):
    """A message that has no number yet."""

    raw: bytes = b""
    arrival_ms: int = 0

    @property
    def milliseconds(self) -> int:
        return self.arrival_ms

    @cached_property
    def _tree(self) -> mime.MimePart:
        return mime.parse(self.raw)

    def size(self) -> int:
        return len(self.raw)


def list_filters(context: GmailCallContext) -> dict[str, Any]:
    found = list(context.settings.filters.values())
    return {"filter": found} if found else {}


def get_filter(context: GmailCallContext) -> dict[str, Any]:
    entry = context.settings.filters.get(context.args["id"])
    if entry is None:
        raise not_found()
    return entry


def delete_filter(context: GmailCallContext) -> None:
    del context.settings.filters[get_filter(context)["id"]]


def create_filter(context: GmailCallContext) -> dict[str, Any]:
    criteria = check_properties(context.body.get("criteria", {}), _CRITERIA)
    action = check_properties(context.body.get("action", {}), _ACTION)
    _check_criteria(criteria)
    _check_action(context, action)
    filters = context.settings.filters
    if any((entry["criteria"], entry["action"]) == (criteria, action) for entry in filters.values()):
        raise precondition("Filter already exists")
    if len(filters) >= MAX_FILTERS:
        raise bad_request(f"Too many filters: at most {MAX_FILTERS}")
    mailbox = context.gmail_mailbox.mailbox
    unique = context.google.sim.registry.new_bytes(f"filter of {mailbox.address}", 30)
    identifier = f"ANe1Bm{urlsafe_b64encode(unique).decode()}"
    filters[identifier] = {"id": identifier, "criteria": criteria, "action": action}
    apply_to_arrivals(context.gmail_mailbox)
    return filters[identifier]


def apply_to_arrivals(gmail_mailbox: GmailMailbox) -> None:
    """Let the filters of a mailbox sort the mail that arrives."""
    if gmail_mailbox.settings.filters:
        gmail_mailbox.mailbox.sort_arrival = partial(sort_arrival, gmail_mailbox)


def _check_criteria(criteria: Mapping[str, Any]) -> None:
    if not any(criteria.values()):
        raise bad_request("Invalid filter: it needs at least one criterion")
    if criteria.get("sizeComparison", "larger") not in {"unspecified", "smaller", "larger"}:
        raise bad_request("Invalid sizeComparison")


def _check_action(context: GmailCallContext, action: Mapping[str, Any]) -> None:
    if not any(action.values()):
        raise bad_request("Invalid filter: it needs at least one action")
    added = context.gmail_mailbox.validate_label_ids(action.get("addLabelIds", ()), settable=True)
    context.gmail_mailbox.validate_label_ids(action.get("removeLabelIds", ()), settable=True)
    if sum(label.startswith("Label_") for label in added) > 1:
        raise bad_request("Invalid filter: it can add one user label only")
    if address := action.get("forward"):
        known = context.settings.forwarding.get(address.lower(), {})
        if known.get("verificationStatus") != "accepted":
            raise bad_request("Unrecognized forwarding address")
        raise not_simulated("forwarding by a filter")


def sort_arrival(
    gmail_mailbox: GmailMailbox, raw: bytes, state: MessageState
) -> tuple[MessageState, list[MessageState]]:
    """Return the state in which a message arrives: every filter that it passes changes its labels."""
    mailbox = gmail_mailbox.mailbox
    message = ArrivingMessage(mailbox, -1, state, raw, gmail_mailbox.now_ms())
    labels = get_labels(state)
    for entry in gmail_mailbox.settings.filters.values():
        if compile_mailbox_search(gmail_mailbox, _to_query(entry["criteria"])).accepts(message):
            action = entry["action"]
            # A filter outlives its labels.
            added = mailbox.folders.keys() & action.get("addLabelIds", ())
            removed = {*action.get("removeLabelIds", ()), *({"INBOX"} if "TRASH" in added else ())}
            labels = labels - removed | added
    return with_labels(state, labels), []


def _to_query(criteria: Mapping[str, Any]) -> str:
    """Return the criteria as a search."""
    terms = [f"{name}:({criteria[name]})" for name in ("from", "to") if criteria.get(name)]
    if subject := criteria.get("subject", "").replace('"', " ").strip():
        terms.append(f'subject:"{subject}"')
    if query := criteria.get("query"):
        terms.append(f"({query})")
    if negated := criteria.get("negatedQuery"):
        terms.append(f"-({negated})")
    if criteria.get("hasAttachment"):
        terms.append("has:attachment")
    if size := criteria.get("size"):
        terms.append(f"{'smaller' if criteria.get('sizeComparison') == 'smaller' else 'larger'}:{size}")
    return " ".join(terms)
