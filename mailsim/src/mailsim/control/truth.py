"""What a mailbox really holds, to compare a copy with: ids, places, flags, and the SHA-256 of all bytes."""

import asyncio
import hashlib
from itertools import islice

import msgspec

from mailsim import mime
from mailsim.control.endpoint import Call
from mailsim.control.mailboxes import mailbox_of, provider_of
from mailsim.control.shapes import AttachmentTruth, MessageTruth, Page, Truth
from mailsim.errors import Invalid
from mailsim.mailbox import Mailbox
from mailsim.simulator import Provider
from mailsim.state import importance_of, labels_of

MOST_AT_ONCE = 20_000
_BREATH = 20  # messages between two chances for other requests


async def truth(call: Call) -> Truth:
    mailbox, provider = mailbox_of(call), provider_of(call)
    page: Page = call.query
    if not 1 <= page.limit <= MOST_AT_ONCE or page.start < 0:
        raise Invalid(f"limit must be between 1 and {MOST_AT_ONCE}, and start not negative")
    total = mailbox.total
    numbers = list(islice(mailbox.states.oldest(start=page.start), page.limit + 1))
    shown: list[MessageTruth] = []
    for place, number in enumerate(numbers[: page.limit]):
        if mailbox.state(number) is not None:  # it may vanish while others have their turn
            shown.append(_message(mailbox, provider, number, digests=page.digests))
        if page.digests and place % _BREATH == _BREATH - 1:
            await asyncio.sleep(0)
    return Truth(total, shown, numbers[page.limit] if len(numbers) > page.limit else None)


def _message(mailbox: Mailbox, provider: Provider, number: int, *, digests: bool) -> MessageTruth:
    state = mailbox.state(number)
    assert state is not None
    keys = sorted(labels_of(state) if mailbox.provider == "gmail" else state.places)
    plain = MessageTruth(
        number=number,
        id=provider.message_id(mailbox, number),
        thread=provider.thread_id(mailbox, mailbox.thread(number)),
        folders=[provider.folder_id(mailbox, key) for key in keys],
        keys=keys,
        read=state.read,
        flag=state.flag,
        importance=state.importance,
        categories=list(state.categories),
        draft=state.draft,
        received=mailbox.received_ms(number),
    )
    return _with_digests(plain, mailbox, number) if digests else plain


def _with_digests(plain: MessageTruth, mailbox: Mailbox, number: int) -> MessageTruth:
    raw, tree, state = mailbox.raw(number), mailbox.tree(number), mailbox.state(number)
    assert state is not None
    return msgspec.structs.replace(
        plain,
        importance=plain.importance if mailbox.provider == "gmail" else importance_of(state, tree.named),
        message_id=tree.header("message-id").strip(),
        subject=mime.decode_words(tree.header("subject")),
        size=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
        attachments=[_attachment(part, name, nested) for name, part, nested in attachments_of(tree)],
    )


def attachments_of(tree: mime.Part) -> list[tuple[str, mime.Part, bool]]:
    """Part number ("" for the whole message), part, and whether it lies inside an attached message."""
    embedded = [f"{name}." for name, part in tree.walk() if part.content_type == "message/rfc822" and name]
    return [
        (name, part, name.startswith(tuple(embedded))) for name, part in tree.walk() if part.is_attachment
    ]


def _attachment(part: mime.Part, name: str, nested: bool) -> AttachmentTruth:  # noqa: FBT001 - one of two plain facts
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
