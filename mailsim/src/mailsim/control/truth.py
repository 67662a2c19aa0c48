"""The control handler that lists the ground truth of a mailbox, for comparison with a mirror of it.

Per message: IDs, folders, flags, and SHA-256 of the message and of each attachment. It compares nothing.
"""

import asyncio
import hashlib
from itertools import islice

import msgspec

from mailsim import mime
from mailsim.control.endpoint import ControlCall
from mailsim.control.mailboxes import get_mailbox, get_provider
from mailsim.control.schemas import AttachmentTruth, MessageTruth, TruthPage, TruthQuery
from mailsim.errors import InvalidRequest
from mailsim.mailbox import Mailbox
from mailsim.message_state import get_importance, get_labels
from mailsim.simulator import Provider

MAX_PER_PAGE = 20_000
_YIELD_EVERY = 20  # messages, then let other requests run


async def truth(call: ControlCall) -> TruthPage:
    mailbox, provider = get_mailbox(call), get_provider(call)
    page: TruthQuery = call.query
    if not 1 <= page.limit <= MAX_PER_PAGE or page.start < 0:
        raise InvalidRequest(f"limit must be between 1 and {MAX_PER_PAGE}, and start must not be negative")
    total = mailbox.total
    numbers = list(islice(mailbox.states.oldest(start=page.start), page.limit + 1))
    listed: list[MessageTruth] = []
    for position, number in enumerate(numbers[: page.limit]):
        if mailbox.state(number) is not None:  # another request may delete it meanwhile
            listed.append(_message_truth(mailbox, provider, number, digests=page.digests))
        if page.digests and position % _YIELD_EVERY == _YIELD_EVERY - 1:
            await asyncio.sleep(0)
    return TruthPage(total, listed, numbers[page.limit] if len(numbers) > page.limit else None)


def _message_truth(mailbox: Mailbox, provider: Provider, number: int, *, digests: bool) -> MessageTruth:
    state = mailbox.state(number)
    assert state is not None
    keys = sorted(get_labels(state) if mailbox.provider == "gmail" else state.folder_keys)
    basic = MessageTruth(
        number=number,
        id=provider.message_id(mailbox, number),
        thread=provider.thread_id(mailbox, mailbox.thread_root(number)),
        folders=[provider.folder_id(mailbox, key) for key in keys],
        folder_names=[mailbox.folder(key).name for key in keys],
        keys=keys,
        read=state.read,
        flag=state.flag,
        importance=state.importance,
        categories=list(state.categories),
        draft=state.draft,
        received=mailbox.received_ms(number),
    )
    return _with_digests(basic, mailbox, number) if digests else basic


def _with_digests(basic: MessageTruth, mailbox: Mailbox, number: int) -> MessageTruth:
    raw, tree, state = mailbox.raw(number), mailbox.tree(number), mailbox.state(number)
    assert state is not None
    return msgspec.structs.replace(
        basic,
        importance=basic.importance if mailbox.provider == "gmail" else get_importance(state, tree.named),
        message_id=tree.header("message-id").strip(),
        subject=mime.decode_words(tree.header("subject")),
        size=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
        attachments=[_attachment_truth(part, name, nested) for name, part, nested in list_attachments(tree)],
    )


def list_attachments(tree: mime.MimePart) -> list[tuple[str, mime.MimePart, bool]]:
    """Return part number ("" for the whole message), part, and whether it is inside an attached message."""
    embedded = [f"{name}." for name, part in tree.walk() if part.content_type == "message/rfc822" and name]
    return [
        (name, part, name.startswith(tuple(embedded))) for name, part in tree.walk() if part.is_attachment
    ]


def _attachment_truth(part: mime.MimePart, name: str, nested: bool) -> AttachmentTruth:  # noqa: FBT001 - one of two basic facts
    content = part.content
    return AttachmentTruth(
        part=name,
        name=part.filename,
        content_type=part.content_type,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        inline=part.disposition == "inline",
        content_id=part.content_id,
        nested=nested,
    )
