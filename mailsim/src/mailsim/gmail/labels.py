"""The methods of users.labels, and users.getProfile, which counts as they do."""

from typing import Any

from mailsim.errors import AlreadyExists, InvalidRequest
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import GmailError, GmailErrorDetails, bad_request, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.message_state import Folder, MessageState, get_labels
from mailsim.state_index import StatePredicate

_COUNTED = 5_000  # threads of a label are counted up to here and estimated beyond
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
    mailbox = context.box.mailbox
    return {
        "emailAddress": mailbox.address,
        "messagesTotal": mailbox.total,
        "threadsTotal": mailbox.thread_total,
        "historyId": context.box.history_id(),
    }


def list_labels(context: GmailCallContext) -> dict[str, Any]:
    return {"labels": [_brief(folder) for folder in context.box.mailbox.folders.values()]}


def get_label(context: GmailCallContext) -> dict[str, Any]:
    folder = _found(context)
    box = context.box

    def bears(state: MessageState) -> bool:
        return folder.key in get_labels(state)

    total, threads = _count(box, bears)
    unread, unread_threads = _count(box, lambda state: bears(state) and not state.read)
    return _brief(folder) | {
        "messagesTotal": total,
        "messagesUnread": unread,
        "threadsTotal": threads,
        "threadsUnread": unread_threads,
    }


def create(context: GmailCallContext) -> dict[str, Any]:
    name = _checked_name(context)
    try:
        return _brief(context.box.mailbox.add_folder(name))
    except AlreadyExists as error:
        raise _taken() from error


def update(context: GmailCallContext) -> dict[str, Any]:
    """PUT and PATCH alike: only the name is kept."""
    folder = _found(context)
    if folder.kind == "system":
        raise bad_request("Invalid update request")
    if "name" not in context.body:
        return _brief(folder)
    try:
        return _brief(context.box.mailbox.change_folder(folder.key, name=_checked_name(context)))
    except AlreadyExists as error:
        raise _taken() from error


def delete(context: GmailCallContext) -> None:
    try:
        context.box.mailbox.delete_folder(_found(context).key)
    except InvalidRequest as error:
        raise bad_request("Invalid delete request") from error


def _brief(folder: Folder) -> dict[str, Any]:
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


def _found(context: GmailCallContext) -> Folder:
    folder = context.box.mailbox.folders.get(context.args["id"])
    if folder is None:
        raise not_found()
    return folder


def _checked_name(context: GmailCallContext) -> str:
    name = context.body.get("name", "")
    taken = {
        folder.name.lower() for folder in context.box.mailbox.folders.values() if folder.kind == "system"
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


def _taken() -> GmailError:
    return GmailError(GmailErrorDetails(409, "aborted", "Label name exists or conflicts", status="ABORTED"))


def _count(box: GmailMailbox, where: StatePredicate) -> tuple[int, int]:
    mailbox = box.mailbox
    total = mailbox.states.count(where)
    if total > _COUNTED:
        return total, round(total * mailbox.thread_total / max(1, mailbox.total))
    return total, len({mailbox.thread(number) for number in mailbox.states.newest(where)})
