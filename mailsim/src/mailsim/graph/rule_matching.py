"""Applies the overrides and rules of an Inbox to an arriving message: where it goes, in which state."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mailsim import mime
from mailsim.graph.context import GraphContext
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.message_json import MessagePreferences, MessageView
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState

_CONTAINING: dict[str, Callable[[MessageView], list[str]]] = {
    "subjectContains": lambda view: [view("subject")],
    "bodyContains": lambda view: [view("body")["content"]],
    "bodyOrSubjectContains": lambda view: [view("subject"), view("body")["content"]],
    "senderContains": lambda view: _list_people([view("from"), view("sender")]),
    "recipientContains": lambda view: _list_people(_list_recipients(view)),
    "headerContains": lambda view: [f"{name}: {value}" for name, value in view.tree.headers],
}


def apply_to_arrivals(graph: GraphContext, mailbox: Mailbox) -> None:
    """Let the rules and overrides of a mailbox sort the mail that arrives."""
    profile = graph.profile(mailbox)
    if profile.rules or profile.overrides:
        mailbox.sort_arrival = partial(sort_arrival, graph, mailbox)


def sort_arrival(
    graph: GraphContext, mailbox: Mailbox, raw: bytes, state: MessageState
) -> tuple[MessageState, list[MessageState]]:
    """Return the state in which the message arrives, and those of the copies that rules make of it."""
    rules = sorted(graph.profile(mailbox).rules.values(), key=lambda rule: rule["sequence"])
    copies: list[MessageState] = []
    arrival = state
    view = MessageView(mailbox, -1, state, graph.ids(mailbox), MessagePreferences(text=True))
    view.__dict__["tree"] = mime.parse(raw)
    for override in graph.profile(mailbox).overrides.values():
        sender = view("from")
        address = override["senderEmailAddress"]["address"].lower()
        if sender is not None and sender["emailAddress"]["address"].lower() == address:
            arrival = replace(arrival, classification=override["classifyAs"])
    for rule in rules:
        if not rule["isEnabled"] or not _applies(rule, view):
            continue
        actions = rule["actions"]
        if key := _find_folder(graph, mailbox, actions.get("copyToFolder")):
            copies.append(replace(arrival, folder_keys=frozenset({key})))
        arrival = _change(graph, mailbox, arrival, actions)
        if actions.get("stopProcessingRules"):
            break
    return arrival, copies


def _change(
    graph: GraphContext, mailbox: Mailbox, state: MessageState, actions: Mapping[str, Any]
) -> MessageState:
    key = "deleteditems" if actions.get("delete") else None
    key = key or _find_folder(graph, mailbox, actions.get("moveToFolder"))
    categories = dict.fromkeys([*state.categories, *actions.get("assignCategories", ())])
    return replace(
        state,
        folder_keys=frozenset({key}) if key else state.folder_keys,
        read=state.read or bool(actions.get("markAsRead")),
        importance=actions.get("markImportance", state.importance),
        categories=tuple(categories),
    )


def _find_folder(graph: GraphContext, mailbox: Mailbox, name: str | None) -> str | None:
    """Return the key of a rule's folder, or None if it has none or the folder was deleted."""
    if name is None or name.lower() in mailbox.folders:
        return name.lower() if name else None
    try:
        return graph.ids(mailbox).parse_folder_id(name)
    except MalformedIdError:
        return None


def _applies(rule: Mapping[str, Any], view: MessageView) -> bool:
    """Return whether all conditions hold and no exception does. A rule without conditions always applies."""
    conditions, exceptions = rule.get("conditions", {}), rule.get("exceptions", {})
    return all(_holds(name, value, view) for name, value in conditions.items()) and not any(
        _holds(name, value, view) for name, value in exceptions.items()
    )


def _holds(name: str, value: Any, view: MessageView) -> bool:
    """Evaluate one condition. Of several texts or addresses, one must match; case does not matter."""
    if name in _CONTAINING:
        texts = [text.casefold() for text in _CONTAINING[name](view)]
        return any(wanted.casefold() in text for wanted in value for text in texts)
    if name in {"fromAddresses", "sentToAddresses"}:
        people = [view("from")] if name == "fromAddresses" else _list_recipients(view)
        wanted = {person["emailAddress"]["address"].lower() for person in value}
        return bool(wanted & _list_addresses(people))
    if name == "importance":
        return view("importance") == value
    return _get_fact(name, view) == value


def _get_fact(name: str, view: MessageView) -> bool:
    me = view.mailbox.address.lower()
    to, cc = _list_addresses(view("toRecipients")), _list_addresses(view("ccRecipients"))
    facts = {
        "hasAttachments": lambda: bool(view("hasAttachments")),
        "sentToMe": lambda: me in to,
        "sentCcMe": lambda: me in cc,
        "sentOnlyToMe": lambda: to == {me} and not cc,
        "sentToOrCcMe": lambda: me in to | cc,
        "notSentToMe": lambda: me not in to,
    }
    return facts[name]()


def _list_recipients(view: MessageView) -> list[Any]:
    return [*view("toRecipients"), *view("ccRecipients")]


def _list_addresses(people: list[Any]) -> set[str]:
    return {person["emailAddress"]["address"].lower() for person in people if person is not None}


def _list_people(people: list[Any]) -> list[str]:
    known = [person["emailAddress"] for person in people if person is not None]
    return [f"{person['name']} {person['address']}" for person in known]
