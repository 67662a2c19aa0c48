"""The methods of users.drafts. A draft keeps its id; the message behind it gets a new one with every save."""

from typing import Any

from mailsim.gmail import messages
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.listing import page_of
from mailsim.initial_states import get_arrival_state


def list_drafts(context: GmailCallContext) -> dict[str, Any]:
    box = context.box
    page = page_of(box, context.args, drafts=True)
    answer: dict[str, Any] = {}
    if page.numbers:
        answer["drafts"] = [
            {"id": draft_id(box, number), "message": box.reference(number)} for number in page.numbers
        ]
    if page.next_token:
        answer["nextPageToken"] = page.next_token
    answer["resultSizeEstimate"] = page.estimate()
    return answer


def get_draft(context: GmailCallContext) -> dict[str, Any]:
    number = _number(context.box, context.args["id"])
    return {
        "id": context.args["id"],
        "message": context.box.message(number, context.args.get("format", "full")),
    }


def create(context: GmailCallContext) -> dict[str, Any]:
    number = context.box.mailbox.draft(_draft_bytes(context))
    return _answer(context.box, number)


def update(context: GmailCallContext) -> dict[str, Any]:
    number = _number(context.box, context.args["id"])
    return _answer(context.box, context.box.mailbox.edit_draft(number, _draft_bytes(context)))


def delete(context: GmailCallContext) -> None:
    context.box.mailbox.delete(_number(context.box, context.args["id"]))


def send(context: GmailCallContext) -> dict[str, Any]:
    """Sends the draft, or what the request says instead of it. The draft is gone then."""
    box = context.box
    named = context.body.get("id", "")
    if not named:
        raw = _draft_bytes(context)
        messages.hand_over(context, raw)
        return messages.changed(box, box.mailbox.deliver(raw, get_arrival_state("gmail", sent=True)))
    number = _number(box, named)
    if context.body.get("message"):
        number = box.mailbox.edit_draft(number, _draft_bytes(context))
    messages.hand_over(context, box.mailbox.raw(number))
    return messages.changed(box, box.mailbox.send_draft(number))


def draft_id(box: GmailMailbox, number: int) -> str:
    return box.ids.draft(box.mailbox.draft_key(number))


def _number(box: GmailMailbox, draft_id_text: str) -> int:
    """The message that a draft is now. Most drafts were never saved again, so their own number is tried
    first.
    """
    key = box.ids.draft_key(draft_id_text)
    if key is None:
        raise bad_request("Invalid draft id")
    candidates = [key] if key < len(box.mailbox) else []
    for number in (*candidates, *box.mailbox.states.newest(lambda state: state.draft)):
        state = box.mailbox.state(number)
        if state is not None and state.draft and box.mailbox.draft_key(number) == key:
            return number
    raise not_found()


def _draft_bytes(context: GmailCallContext) -> bytes:
    return messages.message_bytes(context, context.body.get("message", {}))


def _answer(box: GmailMailbox, number: int) -> dict[str, Any]:
    return {"id": draft_id(box, number), "message": messages.changed(box, number)}
