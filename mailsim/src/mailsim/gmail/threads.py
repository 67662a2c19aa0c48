"""The methods of users.threads. A thread bears the id of the message that began it."""

from typing import Any

from mailsim.gmail import message_json, messages
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.listing import MessageSelection, page_of


def list_threads(context: GmailCallContext) -> dict[str, Any]:
    """Threads by their newest message that fits; the entry itself tells of the newest of all."""
    box = context.box
    page = page_of(box, context.args, accept=_newest_of_its_thread)
    entries: list[dict[str, Any]] = []
    for number in page.numbers:
        root = box.mailbox.thread(number)
        members = box.mailbox.thread_members(root)
        entries.append(
            {
                "id": box.ids.message(root),
                "snippet": message_json.snippet(box.mailbox.tree(members[-1])),
                "historyId": str(max(box.message_history(member) for member in members)),
            }
        )
    answer: dict[str, Any] = {"threads": entries} if entries else {}
    if page.next_token:
        answer["nextPageToken"] = page.next_token
    answer["resultSizeEstimate"] = page.estimate()
    return answer


def _newest_of_its_thread(selection: MessageSelection, number: int) -> bool:
    mailbox = selection.box.mailbox
    members = mailbox.thread_members(mailbox.thread(number))
    return not any(member > number and selection.takes(member) for member in members)


def get_thread(context: GmailCallContext) -> dict[str, Any]:
    box, args = context.box, context.args
    root, members = box.thread(args["id"])
    only = frozenset(name.lower() for name in args.get("metadataHeaders", ()))
    return {
        "id": box.ids.message(root),
        "historyId": str(max(box.message_history(member) for member in members)),
        "messages": [box.message(member, args.get("format", "full"), only) for member in members],
    }


def modify(context: GmailCallContext) -> dict[str, Any]:
    root, members = context.box.thread(context.args["id"])
    messages.relabel(context, members)
    return _changed(context, root, members)


def trash(context: GmailCallContext) -> dict[str, Any]:
    root, members = context.box.thread(context.args["id"])
    for member in members:
        context.box.mailbox.relabel(member, add={"TRASH"}, remove={"INBOX"})
    return _changed(context, root, members)


def untrash(context: GmailCallContext) -> dict[str, Any]:
    root, members = context.box.thread(context.args["id"])
    for member in members:
        context.box.mailbox.relabel(member, remove={"TRASH"})
    return _changed(context, root, members)


def delete(context: GmailCallContext) -> None:
    for member in context.box.thread(context.args["id"])[1]:
        context.box.mailbox.delete(member)


def _changed(context: GmailCallContext, root: int, members: list[int]) -> dict[str, Any]:
    box = context.box
    return {"id": box.ids.message(root), "messages": [messages.changed(box, member) for member in members]}
