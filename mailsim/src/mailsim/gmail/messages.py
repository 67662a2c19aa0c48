"""The methods of users.messages: list, read, label, delete, and bring in mail."""

import binascii
from base64 import urlsafe_b64decode
from email.utils import getaddresses
from typing import Any

from mailsim import mime
from mailsim.gmail import message_json
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.ids import is_message_id
from mailsim.gmail.listing import page_of
from mailsim.gmail.upload import media_of
from mailsim.initial_states import get_arrival_state
from mailsim.message_state import MessageState, with_labels

MAX_IDS = 1000
MAX_LABELS = 100
_BARE = MessageState(frozenset())
_BAD_ATTACHMENT = "Invalid attachment token"


def list_messages(context: GmailCallContext) -> dict[str, Any]:
    box = context.box
    page = page_of(box, context.args)
    answer: dict[str, Any] = {}
    if page.numbers:
        answer["messages"] = [box.reference(number) for number in page.numbers]
    if page.next_token:
        answer["nextPageToken"] = page.next_token
    answer["resultSizeEstimate"] = page.estimate()
    return answer


def get_message(context: GmailCallContext) -> dict[str, Any]:
    args = context.args
    number = context.box.number(args["id"])
    only = frozenset(name.lower() for name in args.get("metadataHeaders", ()))
    return context.box.message(number, args.get("format", "full"), only)


def get_attachment(context: GmailCallContext) -> dict[str, Any]:
    """Every id that was given for this message works until it is too old."""
    box = context.box
    number = box.number(context.args["messageId"])
    opened = box.ids.open_attachment(context.args["id"])
    if opened is None or opened[0] != number:
        raise bad_request(_BAD_ATTACHMENT)
    _, place, minted_ms = opened
    part = message_json.part_at(box.mailbox.tree(number), place)
    if part is None or box.now_ms() >= minted_ms + box.options.attachment_seconds * 1000:
        raise bad_request(_BAD_ATTACHMENT)
    content = part.content
    return {"size": len(content), "data": message_json.encode(content, padded=box.padded(number))}


def modify(context: GmailCallContext) -> dict[str, Any]:
    box = context.box
    number = box.number(context.args["id"])
    relabel(context, [number])
    return changed(box, number)


def batch_modify(context: GmailCallContext) -> None:
    relabel(context, _known(context))


def relabel(context: GmailCallContext, numbers: list[int]) -> None:
    add, remove = context.body.get("addLabelIds", []), context.body.get("removeLabelIds", [])
    if not add and not remove:
        raise bad_request("No label add or removes specified")
    if max(len(add), len(remove)) > MAX_LABELS:
        raise bad_request("Too many labels")
    added = context.box.label_ids(add, settable=True)
    removed = context.box.label_ids(remove, settable=True)
    if added & removed:
        raise bad_request("Cannot both add and remove the same label")
    for number in numbers:
        context.box.mailbox.relabel(number, add=added, remove=removed)


def trash(context: GmailCallContext) -> dict[str, Any]:
    number = context.box.number(context.args["id"])
    context.box.mailbox.relabel(number, add={"TRASH"}, remove={"INBOX"})
    return changed(context.box, number)


def untrash(context: GmailCallContext) -> dict[str, Any]:
    number = context.box.number(context.args["id"])
    context.box.mailbox.relabel(number, remove={"TRASH"})
    return changed(context.box, number)


def delete(context: GmailCallContext) -> None:
    context.box.mailbox.delete(context.box.number(context.args["id"]))


def batch_delete(context: GmailCallContext) -> None:
    for number in _known(context):
        context.box.mailbox.delete(number)


def insert(context: GmailCallContext) -> dict[str, Any]:
    """Like an IMAP append: no label is added that was not asked for."""
    labels = context.box.label_ids(context.body.get("labelIds", ()))
    return changed(
        context.box, context.box.mailbox.deliver(message_bytes(context), with_labels(_BARE, labels))
    )


def import_message(context: GmailCallContext) -> dict[str, Any]:
    """Like delivery by SMTP: without labels it goes to the inbox, unread."""
    labels = context.box.label_ids(context.body.get("labelIds", ()))
    state = with_labels(_BARE, labels) if labels else None
    return changed(context.box, context.box.mailbox.deliver(message_bytes(context), state))


def send(context: GmailCallContext) -> dict[str, Any]:
    raw = message_bytes(context)
    hand_over(context, raw)
    return changed(context.box, context.box.mailbox.deliver(raw, get_arrival_state("gmail", sent=True)))


def hand_over(context: GmailCallContext, raw: bytes) -> None:
    """Sent mail reaches the recipients that live in the simulation."""
    root = mime.read(raw)
    named = getaddresses([root.header(name) for name in ("to", "cc", "bcc")])
    addresses = dict.fromkeys(address.lower() for _, address in named if "@" in address)
    if not addresses:
        raise bad_request("Recipient address required")
    for address in addresses:
        mailbox = context.realm.sim.registry.find_mailbox(address)
        if mailbox is not None:
            mailbox.deliver(raw)


def message_bytes(context: GmailCallContext, message: dict[str, Any] | None = None) -> bytes:
    """The message of a request: uploaded as it is, or base64url in the property `raw`."""
    if context.upload:
        return media_of(context.content_type, context.raw)
    text = (message if message is not None else context.body).get("raw", "")
    if not isinstance(text, str) or not text:
        raise bad_request(
            "'raw' RFC822 payload message string or uploading message via /upload/* URL required"
        )
    try:
        return urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "===")
    except (binascii.Error, ValueError) as error:
        raise bad_request("Invalid value for ByteString: the message is not base64url") from error


def changed(box: GmailMailbox, number: int) -> dict[str, Any]:
    """What a change answers: the message's ids and its labels now."""
    shaped = box.reference(number)
    labels = box.labels(number)
    return shaped | {"labelIds": labels} if labels else shaped


def _known(context: GmailCallContext) -> list[int]:
    """The messages of a batch that exist; Gmail does not say which ones did not."""
    ids = context.body.get("ids", [])
    if not ids:
        raise bad_request("No message ids specified")
    if len(ids) > MAX_IDS:
        raise bad_request(f"Too many message ids: at most {MAX_IDS}")
    numbers = [context.box.ids.number(text) for text in ids if is_message_id(text)]
    return [number for number in dict.fromkeys(numbers) if context.box.mailbox.state(number) is not None]
