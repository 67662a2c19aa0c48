"""The function of users.history.list: the mailbox's change log in Gmail's format.

The log begins with the arrivals of the initial mail, so that the history ID of every message is a valid start
while it is retained: Google's guide asks clients to store the one of the newest message. A page takes
`maxResults` changes and then filters them, so an empty page can have a next page.
"""

from bisect import bisect_left
from typing import Any

from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox, sort_label_ids
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange, get_labels

MAX_PAGE = 500
DEFAULT_PAGE = 100
_DAY_MS = 86_400_000
TYPES = ("messageAdded", "messageDeleted", "labelAdded", "labelRemoved")


def list_history(context: GmailCallContext) -> dict[str, Any]:
    gmail_mailbox, args, faults = context.gmail_mailbox, context.args, context.google.sim.faults
    mailbox = gmail_mailbox.mailbox
    start = _find_start(context)
    if faults.take("cursor_expired", mailbox.address, "history.list", "gmail"):
        raise not_found()
    after = start
    token = args.get("pageToken")
    if token:
        position = gmail_mailbox.ids.from_page_token(token)
        if position is not None:
            position -= mailbox.initial_mail.count
        if position is None or not start <= position <= mailbox.sequence:
            raise bad_request("Invalid pageToken")
        repeat = faults.take("delta_repeat", mailbox.address, "history.list", "gmail") is not None
        after = max(start, position - 1) if repeat else position
    size = min(args.get("maxResults") or DEFAULT_PAGE, MAX_PAGE)
    changes = _list_changes(mailbox, after, size)
    response: dict[str, Any] = {}
    if not token and changes and faults.take("delta_empty_page", mailbox.address, "history.list", "gmail"):
        return {
            "nextPageToken": _make_page_token(gmail_mailbox, after),
            "historyId": gmail_mailbox.format_history_id(),
        }
    records = [
        record for change in changes if (record := _to_record(gmail_mailbox, change, args)) is not None
    ]
    if records:
        response["history"] = records
    if changes and changes[-1].sequence < mailbox.sequence:
        response["nextPageToken"] = _make_page_token(gmail_mailbox, changes[-1].sequence)
    return response | {"historyId": gmail_mailbox.format_history_id()}


def _list_changes(mailbox: Mailbox, after: int, size: int) -> list[MailboxChange]:
    """List at most `size` changes after this sequence number, arrivals of initial messages included."""
    first, count = mailbox.initial_mail.count + after, mailbox.initial_mail.count
    changes = [mailbox.initial_change(number) for number in range(first, min(first + size, count))]
    first = max(after, 0) - mailbox.oldest_sequence
    return changes + mailbox.changes[first : first + size - len(changes)]


def _make_page_token(gmail_mailbox: GmailMailbox, sequence: int) -> str:
    return gmail_mailbox.ids.to_page_token(gmail_mailbox.mailbox.initial_mail.count + sequence)


def _find_start(context: GmailCallContext) -> int:
    """Find the sequence number to start after.

    Raise 404 if the log does not reach back that far.
    """
    gmail_mailbox = context.gmail_mailbox
    start_id = context.args.get("startHistoryId")
    if not start_id:
        raise bad_request("Missing/invalid parameter: startHistoryId")
    wanted = context.args.get("labelId")
    if wanted is not None:
        gmail_mailbox.validate_label_ids([wanted])
    start = gmail_mailbox.ids.to_sequence(start_id)
    oldest = _find_last_expired(
        gmail_mailbox.mailbox, gmail_mailbox.now_ms() - round(gmail_mailbox.options.history_days * _DAY_MS)
    )
    if start < oldest or start_id > gmail_mailbox.ids.to_history_id(gmail_mailbox.mailbox.sequence):
        raise not_found()
    return start


def _find_last_expired(mailbox: Mailbox, before_ms: int) -> int:
    """Find the sequence number of the newest change that has expired from the history."""
    kept_from = bisect_left(mailbox.changes, before_ms, key=lambda change: change.milliseconds)
    if kept_from:
        return mailbox.changes[kept_from - 1].sequence
    if mailbox.oldest_sequence:
        return mailbox.oldest_sequence
    count = mailbox.initial_mail.count
    return min(mailbox.first_number_since(before_ms), count) - count


def _to_record(gmail_mailbox: GmailMailbox, change: MailboxChange, args: Any) -> dict[str, Any] | None:
    """Return the history record of a change, or None if the request's filters exclude it."""
    if change.number < 0 or not _has_label(gmail_mailbox, change, args.get("labelId")):
        return None
    wanted = frozenset(args.get("historyTypes") or TYPES)
    reference = gmail_mailbox.make_reference(change.number)
    parts: dict[str, Any] = {}
    if change.kind == "added" and change.after is not None and "messageAdded" in wanted:
        parts["messagesAdded"] = [{"message": _add_labels(reference, sort_label_ids(change.after))}]
    elif change.kind == "deleted" and "messageDeleted" in wanted:
        parts["messagesDeleted"] = [{"message": reference}]
    elif change.kind == "changed" and change.before is not None and change.after is not None:
        before, after = get_labels(change.before), get_labels(change.after)
        message = _add_labels(reference, sort_label_ids(change.after))
        if after - before and "labelAdded" in wanted:
            parts["labelsAdded"] = [{"message": message, "labelIds": sorted(after - before)}]
        if before - after and "labelRemoved" in wanted:
            parts["labelsRemoved"] = [{"message": message, "labelIds": sorted(before - after)}]
    if not parts:
        return None
    return {"id": str(gmail_mailbox.ids.to_history_id(change.sequence)), "messages": [reference]} | parts


def _add_labels(reference: dict[str, Any], labels: tuple[str, ...]) -> dict[str, Any]:
    return reference | {"labelIds": labels} if labels else reference


def _has_label(gmail_mailbox: GmailMailbox, change: MailboxChange, label: str | None) -> bool:
    if label is None:
        return True
    states = [change.after or change.before]
    if gmail_mailbox.options.history_label == "either":
        states.append(change.before)
    return any(state is not None and label in get_labels(state) for state in states)
