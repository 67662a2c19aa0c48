"""The functions of the users.messages methods, from list and get to modify, delete, insert and send.

Drafts and threads use its helpers for uploads, labels and delivery.
"""

import dataclasses
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from mailsim import mime, sending
from mailsim.gmail import message_json
from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_field, bad_request
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.ids import is_message_id
from mailsim.gmail.listing import list_page
from mailsim.gmail.parameters import check_type
from mailsim.initial_states import get_arrival_state
from mailsim.message_state import MessageState, with_labels

MAX_IDS = 1000
MAX_LABELS = 100
_BARE = MessageState(frozenset())
_STANDARD_ALPHABET = str.maketrans("-_", "+/")
_SHOWN_BASE64 = 40  # characters
_PREFIXES = re.compile(r"\A(?:(?:re|fwd?|aw|wg|tr)\s*:\s*)*", re.IGNORECASE)
_BAD_ATTACHMENT = "Invalid attachment token"


def list_messages(context: GmailCallContext) -> dict[str, Any]:
    gmail_mailbox = context.gmail_mailbox
    page = list_page(gmail_mailbox, context.args)
    response: dict[str, Any] = {}
    if page.numbers:
        response["messages"] = [gmail_mailbox.make_reference(number) for number in page.numbers]
    if page.next_token:
        response["nextPageToken"] = page.next_token
    response["resultSizeEstimate"] = page.estimate_total()
    return response


def get_message(context: GmailCallContext) -> dict[str, Any]:
    args = context.args
    number = context.gmail_mailbox.find_number(args["id"])
    header_names = frozenset(name.lower() for name in args.get("metadataHeaders", ()))
    return context.gmail_mailbox.to_message_json(number, args.get("format", "full"), header_names)


def get_attachment(context: GmailCallContext) -> dict[str, Any]:
    """Get an attachment. Every ID issued for the message works until it expires."""
    gmail_mailbox = context.gmail_mailbox
    number = gmail_mailbox.find_number(context.args["messageId"])
    opened = gmail_mailbox.ids.parse_attachment_id(context.args["id"])
    if opened is None or opened[0] != number:
        raise bad_request(_BAD_ATTACHMENT)
    _, position, minted_ms = opened
    part = message_json.find_part(gmail_mailbox.mailbox.tree(number), position)
    if part is None or gmail_mailbox.now_ms() >= minted_ms + gmail_mailbox.options.attachment_seconds * 1000:
        raise bad_request(_BAD_ATTACHMENT)
    content = part.content
    return {
        "size": len(content),
        "data": message_json.encode_base64url(content, padded=gmail_mailbox.is_padded(number)),
    }


def modify(context: GmailCallContext) -> dict[str, Any]:
    gmail_mailbox = context.gmail_mailbox
    number = gmail_mailbox.find_number(context.args["id"])
    change_labels(context, [number])
    return to_change_json(gmail_mailbox, number)


def batch_modify(context: GmailCallContext) -> None:
    change_labels(context, _list_existing_numbers(context))


def change_labels(context: GmailCallContext, numbers: list[int]) -> None:
    add, remove = context.body.get("addLabelIds", []), context.body.get("removeLabelIds", [])
    if not add and not remove:
        raise bad_request("No label add or removes specified")
    if max(len(add), len(remove)) > MAX_LABELS:
        raise bad_request("Too many labels")
    added = context.gmail_mailbox.validate_label_ids(add, settable=True)
    removed = context.gmail_mailbox.validate_label_ids(remove, settable=True)
    if added & removed:
        raise bad_request("Cannot both add and remove the same label")
    for number in numbers:
        context.gmail_mailbox.mailbox.relabel(number, add=added, remove=removed)


def trash(context: GmailCallContext) -> dict[str, Any]:
    number = context.gmail_mailbox.find_number(context.args["id"])
    context.gmail_mailbox.mailbox.relabel(number, add={"TRASH"}, remove={"INBOX"})
    return to_change_json(context.gmail_mailbox, number)


def untrash(context: GmailCallContext) -> dict[str, Any]:
    number = context.gmail_mailbox.find_number(context.args["id"])
    context.gmail_mailbox.mailbox.relabel(number, remove={"TRASH"})
    return to_change_json(context.gmail_mailbox, number)


def delete(context: GmailCallContext) -> None:
    context.gmail_mailbox.mailbox.delete(context.gmail_mailbox.find_number(context.args["id"]))


def batch_delete(context: GmailCallContext) -> None:
    for number in _list_existing_numbers(context):
        context.gmail_mailbox.mailbox.delete(number)


def insert(context: GmailCallContext) -> dict[str, Any]:
    """Insert a message like IMAP APPEND: with the requested labels only."""
    labels = context.gmail_mailbox.validate_label_ids(context.body.get("labelIds", ()))
    raw = read_message_bytes(context)
    root = find_named_thread(context, raw, context.body)
    number = context.gmail_mailbox.mailbox.deliver(raw, with_labels(_BARE, labels), root=root)
    return to_change_json(context.gmail_mailbox, number)


def import_message(context: GmailCallContext) -> dict[str, Any]:
    """Import a message like SMTP delivery: without labels, it arrives unread in the inbox."""
    labels = context.gmail_mailbox.validate_label_ids(context.body.get("labelIds", ()))
    state = with_labels(_BARE, labels) if labels else None
    raw = read_message_bytes(context)
    root = find_named_thread(context, raw, context.body)
    number = context.gmail_mailbox.mailbox.deliver(raw, state, root=root)
    return to_change_json(context.gmail_mailbox, number)


def send(context: GmailCallContext) -> dict[str, Any]:
    raw = read_message_bytes(context)
    return send_message(context, raw, root=find_named_thread(context, raw, context.body))


def send_message(
    context: GmailCallContext, raw: bytes, *, draft: int | None = None, root: int | None = None
) -> dict[str, Any]:
    """Send a message in the thread `root`. It replaces the draft with this number.

    A message to its own sender is one message, unread in the inbox and in the sent mail.
    """
    mailbox, sim = context.gmail_mailbox.mailbox, context.google.sim
    recipients = sending.list_recipients(raw)
    if not recipients:
        raise bad_request("Recipient address required")
    unique = urlsafe_b64encode(sim.registry.new_bytes(f"message of {mailbox.address}", 24)).decode()
    aliases = context.settings.aliases.items()
    verified = {address for address, alias in aliases if alias.get("verificationStatus") == "accepted"}
    raw = sending.remove_foreign_sender(raw, verified | {mailbox.address.lower()})
    name = context.settings.primary.get("displayName") or mailbox.account.name
    sender = dataclasses.replace(mailbox.account, name=name)
    raw = sending.complete_headers(raw, sender, f"<CA+{unique}@mail.gmail.com>", sim.clock.now())
    state = get_arrival_state("gmail", sent=True)
    if mailbox.address.lower() in recipients:
        state = with_labels(state, frozenset({"SENT", "INBOX", "UNREAD"}))
    if draft is None:
        number = mailbox.deliver(raw, state, root=root)
    else:
        number = mailbox.send_draft(draft, raw, state)
    sending.deliver(sim.registry, raw, except_address=mailbox.address)
    return to_change_json(context.gmail_mailbox, number)


def read_message_bytes(context: GmailCallContext, message: dict[str, Any] | None = None) -> bytes:
    """Read the message of a request: uploaded, or base64url in the property `raw`."""
    if context.upload is not None:
        return context.upload.read_message()
    text = (message if message is not None else context.body).get("raw", "")
    if not isinstance(text, str) or not text:
        raise bad_request(
            "'raw' RFC822 payload message string or uploading message via /upload/* URL required"
        )
    try:
        return _decode_base64(text)
    except ValueError as error:
        field = "message.raw" if message is None else "draft.message.raw"
        shown = text if len(text) <= _SHOWN_BASE64 else f"{text[:_SHOWN_BASE64]}..."
        description = f"Invalid value at '{field}' (TYPE_BYTES), Base64 decoding failed for \"{shown}\""
        raise bad_field(field, description) from error


def _decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding. Other characters raise ValueError."""
    encoded = "".join(text.split()).rstrip("=").translate(_STANDARD_ALPHABET)
    return b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)


def find_named_thread(context: GmailCallContext, raw: bytes, message: Mapping[str, Any]) -> int | None:
    """Find the thread that a request names, which its message joins if their subjects match.

    Otherwise the headers of the message decide.
    """
    thread_id: str | None = check_type("threadId", message.get("threadId"), str)
    if not thread_id:
        return None
    if not is_message_id(thread_id):
        raise bad_request("Invalid thread_id value")
    root, members = context.gmail_mailbox.find_thread(thread_id)
    first = context.gmail_mailbox.mailbox.raw(members[0])
    return root if _read_topic(raw) == _read_topic(first) else None


def _read_topic(raw: bytes) -> str:
    """Return the subject without the prefixes of replies and forwards."""
    subjects = [value for name, value in mime.parse_headers(raw) if name.lower() == "subject"]
    return _PREFIXES.sub("", " ".join(mime.decode_words(subjects[0] if subjects else "").split()))


def to_change_json(gmail_mailbox: GmailMailbox, number: int) -> dict[str, Any]:
    """Return the response of a change: the message's IDs and current labels."""
    shaped = gmail_mailbox.make_reference(number)
    labels = gmail_mailbox.list_label_ids(number)
    return shaped | {"labelIds": labels} if labels else shaped


def _list_existing_numbers(context: GmailCallContext) -> list[int]:
    """List the existing messages of a batch request; Gmail ignores unknown IDs."""
    ids = context.body.get("ids", [])
    if not ids:
        raise bad_request("No message ids specified")
    if len(ids) > MAX_IDS:
        raise bad_request(f"Too many message ids: at most {MAX_IDS}")
    numbers = [context.gmail_mailbox.ids.to_number(text) for text in ids if is_message_id(text)]
    return [
        number for number in dict.fromkeys(numbers) if context.gmail_mailbox.mailbox.state(number) is not None
    ]
