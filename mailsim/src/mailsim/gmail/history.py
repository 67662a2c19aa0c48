"""users.history.list: the mailbox's change log as Gmail tells it.

A page takes `maxResults` changes first and filters them then, so a page can be empty and still have a
successor.
"""

from bisect import bisect_left
from typing import Any

from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox, label_list
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange, get_labels

MAX_PAGE = 500
DEFAULT_PAGE = 100
_DAY_MS = 86_400_000
TYPES = ("messageAdded", "messageDeleted", "labelAdded", "labelRemoved")


def list_history(context: GmailCallContext) -> dict[str, Any]:
    box, args, faults = context.box, context.args, context.realm.sim.faults
    mailbox = box.mailbox
    start = _start(context)
    if faults.take("cursor_expired", mailbox.address, "history.list", "gmail"):
        raise not_found()
    after = start
    token = args.get("pageToken")
    if token:
        place = box.ids.place(token)
        if place is None or not start <= place <= mailbox.sequence:
            raise bad_request("Invalid pageToken")
        repeat = faults.take("delta_repeat", mailbox.address, "history.list", "gmail") is not None
        after = max(start, place - 1) if repeat else place
    size = min(args.get("maxResults") or DEFAULT_PAGE, MAX_PAGE)
    first = after - mailbox.oldest_sequence
    taken = mailbox.changes[first : first + size]
    answer: dict[str, Any] = {}
    if not token and taken and faults.take("delta_empty_page", mailbox.address, "history.list", "gmail"):
        return {"nextPageToken": box.ids.page(after), "historyId": box.history_id()}
    records = [record for change in taken if (record := _record(box, change, args)) is not None]
    if records:
        answer["history"] = records
    if len(mailbox.changes) > first + size:
        answer["nextPageToken"] = box.ids.page(taken[-1].sequence)
    return answer | {"historyId": box.history_id()}


def _start(context: GmailCallContext) -> int:
    """The sequence to start after; 404 when the log does not reach back that far."""
    box = context.box
    start_id = context.args.get("startHistoryId")
    if not start_id:
        raise bad_request("Missing/invalid parameter: startHistoryId")
    wanted = context.args.get("labelId")
    if wanted is not None:
        box.label_ids([wanted])
    start = box.ids.sequence(start_id)
    oldest = _forgotten(box.mailbox, box.now_ms() - round(box.options.history_days * _DAY_MS))
    if start < oldest or start_id > box.ids.history(box.mailbox.sequence):
        raise not_found()
    return start


def _forgotten(mailbox: Mailbox, before_ms: int) -> int:
    """The sequence of the newest change that Gmail no longer tells of."""
    kept_from = bisect_left(mailbox.changes, before_ms, key=lambda change: change.milliseconds)
    return max(mailbox.oldest_sequence, mailbox.changes[kept_from - 1].sequence if kept_from else 0)


def _record(box: GmailMailbox, change: MailboxChange, args: Any) -> dict[str, Any] | None:
    """The history record of a change, or None when the request's filters leave nothing of it."""
    if change.number < 0 or not _bears(box, change, args.get("labelId")):
        return None
    wanted = frozenset(args.get("historyTypes") or TYPES)
    reference = box.reference(change.number)
    parts: dict[str, Any] = {}
    if change.kind == "added" and change.after is not None and "messageAdded" in wanted:
        parts["messagesAdded"] = [{"message": _labelled(reference, label_list(change.after))}]
    elif change.kind == "deleted" and "messageDeleted" in wanted:
        parts["messagesDeleted"] = [{"message": reference}]
    elif change.kind == "changed" and change.before is not None and change.after is not None:
        before, after = get_labels(change.before), get_labels(change.after)
        message = _labelled(reference, label_list(change.after))
        if after - before and "labelAdded" in wanted:
            parts["labelsAdded"] = [{"message": message, "labelIds": sorted(after - before)}]
        if before - after and "labelRemoved" in wanted:
            parts["labelsRemoved"] = [{"message": message, "labelIds": sorted(before - after)}]
    if not parts:
        return None
    return {"id": str(box.ids.history(change.sequence)), "messages": [reference]} | parts


def _labelled(reference: dict[str, Any], labels: tuple[str, ...]) -> dict[str, Any]:
    return reference | {"labelIds": labels} if labels else reference


def _bears(box: GmailMailbox, change: MailboxChange, label: str | None) -> bool:
    if label is None:
        return True
    states = [change.after or change.before]
    if box.options.history_label == "either":
        states.append(change.before)
    return any(state is not None and label in get_labels(state) for state in states)
