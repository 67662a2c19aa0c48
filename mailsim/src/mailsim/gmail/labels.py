"""The functions of the users.labels methods and of users.getProfile, which reports the same counts."""

from typing import Any

from mailsim.errors import AlreadyExists, InvalidRequest
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import GmailError, GmailErrorBody, bad_request, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.message_state import Folder, MessageState, get_labels
from mailsim.state_index import StatePredicate

_COUNTED = 5_000  # above this many messages, the number of threads is estimated
_HIDDEN = frozenset(
    {
        "CHAT",
        "CATEGORY_PERSONAL",
        "CATEGORY_SOCIAL",
        "CATEGORY_UPDATES",
        "CATEGORY_FORUMS",
        "CATEGORY_PROMOTIONS",
    }
)
_VISIBILITY = {
    "messageListVisibility": ("show", "hide"),
    "labelListVisibility": ("labelShow", "labelShowIfUnread", "labelHide"),
}


def get_profile(context: GmailCallContext) -> dict[str, Any]:
    mailbox = context.gmail_mailbox.mailbox
    return {
        "emailAddress": mailbox.address,
        "messagesTotal": mailbox.total,
        "threadsTotal": mailbox.thread_total,
        "historyId": context.gmail_mailbox.format_history_id(),
    }


def list_labels(context: GmailCallContext) -> dict[str, Any]:
    return {"labels": [_to_label_json(folder) for folder in context.gmail_mailbox.mailbox.folders.values()]}


def get_label(context: GmailCallContext) -> dict[str, Any]:
    folder = _find_label(context)
    gmail_mailbox = context.gmail_mailbox

    def has_label(state: MessageState) -> bool:
        return folder.key in get_labels(state)

    total, threads = _count_messages(gmail_mailbox, has_label)
    unread, unread_threads = _count_messages(gmail_mailbox, lambda state: has_label(state) and not state.read)
    return _to_label_json(folder) | {
        "messagesTotal": total,
        "messagesUnread": unread,
        "threadsTotal": threads,
        "threadsUnread": unread_threads,
    }


def create(context: GmailCallContext) -> dict[str, Any]:
    name = _validate_name(context)
    try:
        return _to_label_json(context.gmail_mailbox.mailbox.add_folder(name))
    except AlreadyExists as error:
        raise _name_taken_error() from error


def update(context: GmailCallContext) -> dict[str, Any]:
    """Update or patch a label. Only the name is stored."""
    folder = _find_label(context)
    if folder.kind == "system":
        raise bad_request("Invalid update request")
    if "name" not in context.body:
        return _to_label_json(folder)
    try:
        return _to_label_json(
            context.gmail_mailbox.mailbox.change_folder(folder.key, name=_validate_name(context))
        )
    except AlreadyExists as error:
        raise _name_taken_error() from error


def delete(context: GmailCallContext) -> None:
    try:
        context.gmail_mailbox.mailbox.delete_folder(_find_label(context).key)
    except InvalidRequest as error:
        raise bad_request("Invalid delete request") from error


def _to_label_json(folder: Folder) -> dict[str, Any]:
    if folder.kind == "system":
        hidden = folder.key in _HIDDEN
        return {
            "id": folder.key,
            "name": folder.name,
            "messageListVisibility": "hide",
            "labelListVisibility": "labelHide" if hidden else "labelShow",
            "type": "system",
        }
    return {
        "id": folder.key,
        "name": folder.name,
        "messageListVisibility": "show",
        "labelListVisibility": "labelShow",
        "type": "user",
    }


def _find_label(context: GmailCallContext) -> Folder:
    folder = context.gmail_mailbox.mailbox.folders.get(context.args["id"])
    if folder is None:
        raise not_found()
    return folder


def _validate_name(context: GmailCallContext) -> str:
    name = context.body.get("name", "")
    taken = {
        folder.name.lower()
        for folder in context.gmail_mailbox.mailbox.folders.values()
        if folder.kind == "system"
    }
    if (
        not name.strip()
        or name.strip().lower() in taken
        or any(ord(char) < 32 for char in name)
        or len(name) > 225
    ):
        raise bad_request("Invalid label name")
    for key, words in _VISIBILITY.items():
        if key in context.body and context.body[key] not in words:
            raise bad_request(f"Invalid value for {key}")
    return name.strip()


def _name_taken_error() -> GmailError:
    return GmailError(GmailErrorBody(409, "aborted", "Label name exists or conflicts", status="ABORTED"))


def _count_messages(gmail_mailbox: GmailMailbox, where: StatePredicate) -> tuple[int, int]:
    mailbox = gmail_mailbox.mailbox
    total = mailbox.states.count(where)
    if total > _COUNTED:
        return total, round(total * mailbox.thread_total / max(1, mailbox.total))
    return total, len({mailbox.thread_root(number) for number in mailbox.states.newest(where)})
