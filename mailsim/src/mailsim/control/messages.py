"""Control handlers of messages: deliver, show, move, mark, label, trash, delete, and drafts.

A message is identified by its number or by the provider's ID.
"""

import asyncio
from dataclasses import replace
from email.utils import formataddr

from mailsim import mime, samples
from mailsim.address_lists import read_addresses
from mailsim.control.endpoint import ControlCall
from mailsim.control.mailboxes import get_mailbox
from mailsim.control.schemas import AffectedCount, MessageRef, MessageRefs, NewMessages
from mailsim.errors import InvalidRequest, NotFound
from mailsim.hashing import stable_hash
from mailsim.initial_states import get_arrival_state
from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange, MessageState

MAX_PER_REQUEST = 10_000
_MAX_NUMBER_DIGITS = 11  # the IDs of both providers are longer


def get_number(call: ControlCall, mailbox: Mailbox, name: str) -> int:
    """Return the number of the message that `name` identifies, by number or by ID."""
    if name.isascii() and name.isdecimal() and len(name) <= _MAX_NUMBER_DIGITS:
        number: int | None = int(name)
    else:
        number = call.sim.providers[mailbox.provider].message_number(mailbox, name)
    if number is None or mailbox.state(number) is None:
        raise NotFound(f"{mailbox.address} has no message {name}")
    return number


def message_ref(call: ControlCall, mailbox: Mailbox, number: int) -> MessageRef:
    provider = call.sim.providers[mailbox.provider]
    thread = provider.thread_id(mailbox, mailbox.thread_root(number))
    return MessageRef(number, provider.message_id(mailbox, number), thread)


async def deliver(call: ControlCall) -> MessageRefs:
    mailbox = get_mailbox(call)
    if call.raw:
        state = _initial_state(mailbox, call.query.folder, read=call.query.read)
        numbers = [mailbox.receive(call.raw, state)]
    else:
        numbers = await _deliver_generated(call, mailbox, call.body)
    return MessageRefs([message_ref(call, mailbox, number) for number in numbers])


async def _deliver_generated(call: ControlCall, mailbox: Mailbox, body: NewMessages) -> list[int]:
    if not 1 <= body.count <= MAX_PER_REQUEST:
        raise InvalidRequest(f"count must be between 1 and {MAX_PER_REQUEST}")
    state = _initial_state(mailbox, body.folder, read=body.read)
    replied_to = get_number(call, mailbox, body.reply_to) if body.reply_to else None
    numbers: list[int] = []
    for position in range(body.count):
        numbers.append(mailbox.receive(_make_spec(call, mailbox, body, state, position, replied_to), state))
        await asyncio.sleep(0)  # let other requests run
    return numbers


def _initial_state(mailbox: Mailbox, folder: str, *, read: bool) -> MessageState:
    state = replace(get_arrival_state(mailbox.provider), read=read)
    return replace(state, folder_keys=frozenset({mailbox.folder(folder).key})) if folder else state


def _make_spec(
    call: ControlCall,
    mailbox: Mailbox,
    body: NewMessages,
    state: MessageState,
    position: int,
    replied_to: int | None,
) -> samples.MessageSpec:
    seed = (
        body.seed + position
        if body.seed is not None
        else stable_hash(call.sim.options.seed, mailbox.address, len(mailbox))
    )
    owner = (mailbox.account.name, mailbox.address)
    sent = bool(state.folder_keys & {"SENT", "sentitems"})
    try:
        spec = samples.MessageSpec(
            seed=seed,
            kind=body.kind or ("reply" if replied_to is not None else "plain"),
            variant=body.variant,
            language=body.language,
            sender=_parse_person(body.sender) if body.sender else owner if sent else ("", ""),
            to=tuple(_parse_person(text) for text in body.to) or (() if sent else (owner,)),
            cc=tuple(_parse_person(text) for text in body.cc),
            date=call.sim.clock.now().replace(microsecond=0),
            subject=body.subject,
            size=body.size,
            delivered_to="" if sent else mailbox.delivered_to,
        )
    except (ValueError, KeyError) as error:
        raise InvalidRequest(f"cannot generate this message: {error}") from error
    return spec if replied_to is None else _make_reply(spec, mailbox, replied_to, body.subject)


def _make_reply(
    spec: samples.MessageSpec, mailbox: Mailbox, replied_to: int, subject: str | None
) -> samples.MessageSpec:
    headers = {name.lower(): value for name, value in mime.parse_headers(mailbox.raw(replied_to))}
    message_id = headers.get("message-id", "").strip()
    title = mime.decode_words(headers.get("subject", ""))
    return replace(
        spec,
        in_reply_to=message_id or None,
        references=(*headers.get("references", "").split(), *filter(None, (message_id,))),
        subject=subject if subject is not None else title if title.startswith("Re: ") else f"Re: {title}",
    )


def _parse_person(text: str) -> samples.Person:
    name, address = next(iter(read_addresses([text])), ("", ""))
    if not address or "@" not in address or not formataddr((name, address)):
        raise InvalidRequest(f"{text!r} is neither an address nor `Name <address>`")
    return name, address


async def show_raw(call: ControlCall) -> bytes:
    mailbox = get_mailbox(call)
    return mailbox.raw(get_number(call, mailbox, call.path["message"]))


async def move(call: ControlCall) -> AffectedCount:
    mailbox = get_mailbox(call)
    return _count_change(mailbox.move(get_number(call, mailbox, call.path["message"]), call.body.folder))


async def mark(call: ControlCall) -> AffectedCount:
    mailbox, body = get_mailbox(call), call.body
    return _count_change(
        mailbox.mark(
            get_number(call, mailbox, call.path["message"]),
            read=body.read,
            flag=body.flag,
            importance=body.importance,
            categories=body.categories,
        )
    )


async def label(call: ControlCall) -> AffectedCount:
    mailbox, body = get_mailbox(call), call.body
    return _count_change(
        mailbox.relabel(get_number(call, mailbox, call.path["message"]), body.add, body.remove)
    )


async def trash(call: ControlCall) -> AffectedCount:
    mailbox = get_mailbox(call)
    return _count_change(mailbox.trash(get_number(call, mailbox, call.path["message"])))


async def delete(call: ControlCall) -> None:
    mailbox = get_mailbox(call)
    mailbox.delete(get_number(call, mailbox, call.path["message"]))


async def save_draft(call: ControlCall) -> MessageRefs:
    mailbox = get_mailbox(call)
    return MessageRefs([message_ref(call, mailbox, mailbox.save_draft(call.raw))])


async def edit_draft(call: ControlCall) -> MessageRefs:
    mailbox = get_mailbox(call)
    number = mailbox.edit_draft(get_number(call, mailbox, call.path["message"]), call.raw)
    return MessageRefs([message_ref(call, mailbox, number)])


async def send_draft(call: ControlCall) -> MessageRefs:
    mailbox = get_mailbox(call)
    number = mailbox.send_draft(get_number(call, mailbox, call.path["message"]))
    return MessageRefs([message_ref(call, mailbox, number)])


def _count_change(change: MailboxChange | None) -> AffectedCount:
    return AffectedCount(0 if change is None else 1)
