"""The functions of the users.drafts methods: list, get, create, update, delete, send.

A draft keeps its ID; its message gets a new ID with every save.
"""

from typing import Any

from mailsim.gmail import messages
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.listing import list_page


def list_drafts(context: GmailCallContext) -> dict[str, Any]:
    gmail_mailbox = context.gmail_mailbox
    page = list_page(gmail_mailbox, context.args, drafts=True)
    response: dict[str, Any] = {}
    if page.numbers:
        response["drafts"] = [
            {"id": get_draft_id(gmail_mailbox, number), "message": gmail_mailbox.make_reference(number)}
            for number in page.numbers
        ]
    if page.next_token:
        response["nextPageToken"] = page.next_token
    response["resultSizeEstimate"] = page.estimate_total()
    return response


def get_draft(context: GmailCallContext) -> dict[str, Any]:
    number = _find_number(context.gmail_mailbox, context.args["id"])
    return {
        "id": context.args["id"],
        "message": context.gmail_mailbox.to_message_json(number, context.args.get("format", "full")),
    }


def create(context: GmailCallContext) -> dict[str, Any]:
    raw = _read_draft_bytes(context)
    root = messages.find_named_thread(context, raw, context.body.get("message", {}))
    number = context.gmail_mailbox.mailbox.save_draft(raw, root=root)
    return _to_draft_json(context.gmail_mailbox, number)


def update(context: GmailCallContext) -> dict[str, Any]:
    number = _find_number(context.gmail_mailbox, context.args["id"])
    return _to_draft_json(
        context.gmail_mailbox, context.gmail_mailbox.mailbox.edit_draft(number, _read_draft_bytes(context))
    )


def delete(context: GmailCallContext) -> None:
    context.gmail_mailbox.mailbox.delete(_find_number(context.gmail_mailbox, context.args["id"]))


def send(context: GmailCallContext) -> dict[str, Any]:
    """Send the draft, or the message that the request replaces it with.

    The draft is removed.
    """
    gmail_mailbox = context.gmail_mailbox
    named = context.body.get("id", "")
    if not named:
        raw = _read_draft_bytes(context)
        root = messages.find_named_thread(context, raw, context.body.get("message", {}))
        return messages.send_message(context, raw, root=root)
    number = _find_number(gmail_mailbox, named)
    if context.upload is not None or context.body.get("message"):
        number = gmail_mailbox.mailbox.edit_draft(number, _read_draft_bytes(context))
    return messages.send_message(context, gmail_mailbox.mailbox.raw(number), draft=number)


def get_draft_id(gmail_mailbox: GmailMailbox, number: int) -> str:
    return gmail_mailbox.ids.to_draft_id(gmail_mailbox.mailbox.draft_key(number))


def _find_number(gmail_mailbox: GmailMailbox, draft_id_text: str) -> int:
    """Find the current message of a draft.

    Most drafts were saved only once, so the original number is tried first.
    """
    key = gmail_mailbox.ids.to_draft_key(draft_id_text)
    if key is None:
        raise bad_request("Invalid draft id")
    candidates = [key] if key < len(gmail_mailbox.mailbox) else []
    for number in (*candidates, *gmail_mailbox.mailbox.states.newest(lambda state: state.draft)):
        state = gmail_mailbox.mailbox.state(number)
        if state is not None and state.draft and gmail_mailbox.mailbox.draft_key(number) == key:
            return number
    raise not_found()


def _read_draft_bytes(context: GmailCallContext) -> bytes:
    return messages.read_message_bytes(context, context.body.get("message", {}))


def _to_draft_json(gmail_mailbox: GmailMailbox, number: int) -> dict[str, Any]:
    return {
        "id": get_draft_id(gmail_mailbox, number),
        "message": messages.to_change_json(gmail_mailbox, number),
    }
