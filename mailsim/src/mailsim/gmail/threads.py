"""The functions of the users.threads methods: list, get, modify, trash, untrash, delete.

A thread has the ID of its first message.
"""

from typing import Any

from mailsim.gmail import message_json, messages
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.listing import MessageSelection, list_page


def list_threads(context: GmailCallContext) -> dict[str, Any]:
    """List threads by their newest matching message.

    Each entry describes its newest message of all.
    """
    gmail_mailbox = context.gmail_mailbox
    page = list_page(gmail_mailbox, context.args, accept=_is_newest_match)
    entries: list[dict[str, Any]] = []
    for number in page.numbers:
        root = gmail_mailbox.mailbox.thread_root(number)
        members = gmail_mailbox.mailbox.thread_members(root)
        entries.append(
            {
                "id": gmail_mailbox.ids.to_message_id(root),
                "snippet": message_json.make_snippet(gmail_mailbox.mailbox.tree(members[-1])),
                "historyId": str(max(gmail_mailbox.get_message_history_id(member) for member in members)),
            }
        )
    response: dict[str, Any] = {"threads": entries} if entries else {}
    if page.next_token:
        response["nextPageToken"] = page.next_token
    response["resultSizeEstimate"] = page.estimate_total()
    return response


def _is_newest_match(selection: MessageSelection, number: int) -> bool:
    mailbox = selection.gmail_mailbox.mailbox
    members = mailbox.thread_members(mailbox.thread_root(number))
    return not any(member > number and selection.matches(member) for member in members)


def get_thread(context: GmailCallContext) -> dict[str, Any]:
    gmail_mailbox, args = context.gmail_mailbox, context.args
    root, members = gmail_mailbox.find_thread(args["id"])
    header_names = frozenset(name.lower() for name in args.get("metadataHeaders", ()))
    return {
        "id": gmail_mailbox.ids.to_message_id(root),
        "historyId": str(max(gmail_mailbox.get_message_history_id(member) for member in members)),
        "messages": [
            gmail_mailbox.to_message_json(member, args.get("format", "full"), header_names)
            for member in members
        ],
    }


def modify(context: GmailCallContext) -> dict[str, Any]:
    root, members = context.gmail_mailbox.find_thread(context.args["id"])
    messages.change_labels(context, members)
    return _to_thread_json(context, root, members)


def trash(context: GmailCallContext) -> dict[str, Any]:
    root, members = context.gmail_mailbox.find_thread(context.args["id"])
    for member in members:
        context.gmail_mailbox.mailbox.relabel(member, add={"TRASH"}, remove={"INBOX"})
    return _to_thread_json(context, root, members)


def untrash(context: GmailCallContext) -> dict[str, Any]:
    root, members = context.gmail_mailbox.find_thread(context.args["id"])
    for member in members:
        context.gmail_mailbox.mailbox.relabel(member, remove={"TRASH"})
    return _to_thread_json(context, root, members)


def delete(context: GmailCallContext) -> None:
    for member in context.gmail_mailbox.find_thread(context.args["id"])[1]:
        context.gmail_mailbox.mailbox.delete(member)


def _to_thread_json(context: GmailCallContext, root: int, members: list[int]) -> dict[str, Any]:
    gmail_mailbox = context.gmail_mailbox
    return {
        "id": gmail_mailbox.ids.to_message_id(root),
        "messages": [messages.to_change_json(gmail_mailbox, member) for member in members],
    }
