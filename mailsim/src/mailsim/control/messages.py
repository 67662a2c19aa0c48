"""Control of messages: deliver, move, mark, label, trash, delete, drafts. A message is named by number or
by id.
"""

import asyncio
from dataclasses import replace
from email.utils import formataddr, parseaddr

from mailsim import letters, mime
from mailsim.control.endpoint import Call
from mailsim.control.mailboxes import mailbox_of
from mailsim.control.shapes import Done, MessageName, MessageNames, NewMail
from mailsim.errors import Invalid, Unknown
from mailsim.generated import arrival, stable
from mailsim.mailbox import Mailbox
from mailsim.state import Change, State

MOST_AT_ONCE = 10_000
_LONGEST_NUMBER = 11  # every provider's ids are longer


def number_of(call: Call, mailbox: Mailbox, name: str) -> int:
    """The message that the caller means."""
    if name.isascii() and name.isdecimal() and len(name) <= _LONGEST_NUMBER:
        number: int | None = int(name)
    else:
        number = call.sim.providers[mailbox.provider].message_number(mailbox, name)
    if number is None or mailbox.state(number) is None:
        raise Unknown(f"no message {name} in {mailbox.address}")
    return number


def name_of(call: Call, mailbox: Mailbox, number: int) -> MessageName:
    provider = call.sim.providers[mailbox.provider]
    thread = provider.thread_id(mailbox, mailbox.thread(number))
    return MessageName(number, provider.message_id(mailbox, number), thread)


async def deliver(call: Call) -> MessageNames:
    mailbox = mailbox_of(call)
    if call.raw:
        state = _state(mailbox, call.query.folder, read=call.query.read)
        numbers = [mailbox.deliver(call.raw, state)]
    else:
        numbers = await _deliver_orders(call, mailbox, call.body)
    return MessageNames([name_of(call, mailbox, number) for number in numbers])


async def _deliver_orders(call: Call, mailbox: Mailbox, given: NewMail) -> list[int]:
    if not 1 <= given.count <= MOST_AT_ONCE:
        raise Invalid(f"count must be between 1 and {MOST_AT_ONCE}")
    state = _state(mailbox, given.folder, read=given.read)
    answered = number_of(call, mailbox, given.reply_to) if given.reply_to else None
    numbers: list[int] = []
    for place in range(given.count):
        numbers.append(mailbox.deliver(_order(call, mailbox, given, state, place, answered), state))
        await asyncio.sleep(0)  # others have their turn
    return numbers


def _state(mailbox: Mailbox, folder: str, *, read: bool) -> State:
    state = replace(arrival(mailbox.provider), read=read)
    return replace(state, places=frozenset({mailbox.folder(folder).key})) if folder else state


def _order(
    call: Call, mailbox: Mailbox, given: NewMail, state: State, place: int, answered: int | None
) -> letters.Order:
    seed = (
        given.seed + place
        if given.seed is not None
        else stable(call.sim.options.seed, mailbox.address, len(mailbox))
    )
    owner = (mailbox.account.name, mailbox.address)
    sent = bool(state.places & {"SENT", "sentitems"})
    try:
        order = letters.Order(
            seed=seed,
            kind=given.kind or ("reply" if answered is not None else "plain"),
            variant=given.variant,
            language=given.language,
            sender=_person(given.sender) if given.sender else owner if sent else ("", ""),
            to=tuple(_person(text) for text in given.to) or (() if sent else (owner,)),
            cc=tuple(_person(text) for text in given.cc),
            date=call.sim.clock.now().replace(microsecond=0),
            subject=given.subject,
            size=given.size,
        )
    except (ValueError, KeyError) as error:
        raise Invalid(f"no such mail can be written: {error}") from error
    return order if answered is None else _answering(order, mailbox, answered, given.subject)


def _answering(order: letters.Order, mailbox: Mailbox, answered: int, subject: str | None) -> letters.Order:
    headers = {name.lower(): value for name, value in mime.read_headers(mailbox.raw(answered))}
    message_id = headers.get("message-id", "").strip()
    title = mime.decode_words(headers.get("subject", ""))
    return replace(
        order,
        in_reply_to=message_id or None,
        references=(*headers.get("references", "").split(), *filter(None, (message_id,))),
        subject=subject if subject is not None else title if title.startswith("Re: ") else f"Re: {title}",
    )


def _person(text: str) -> letters.Person:
    name, address = parseaddr(text)
    if not address or "@" not in address or not formataddr((name, address)):
        raise Invalid(f"{text!r} is not `Name <address>` or an address")
    return name, address


async def show_raw(call: Call) -> bytes:
    mailbox = mailbox_of(call)
    return mailbox.raw(number_of(call, mailbox, call.path["message"]))


async def move(call: Call) -> Done:
    mailbox = mailbox_of(call)
    return _done(mailbox.move(number_of(call, mailbox, call.path["message"]), call.body.folder))


async def mark(call: Call) -> Done:
    mailbox, given = mailbox_of(call), call.body
    return _done(
        mailbox.mark(
            number_of(call, mailbox, call.path["message"]),
            read=given.read,
            flag=given.flag,
            importance=given.importance,
            categories=given.categories,
        )
    )


async def label(call: Call) -> Done:
    mailbox, given = mailbox_of(call), call.body
    return _done(mailbox.relabel(number_of(call, mailbox, call.path["message"]), given.add, given.remove))


async def trash(call: Call) -> Done:
    mailbox = mailbox_of(call)
    return _done(mailbox.trash(number_of(call, mailbox, call.path["message"])))


async def delete(call: Call) -> None:
    mailbox = mailbox_of(call)
    mailbox.delete(number_of(call, mailbox, call.path["message"]))


async def save_draft(call: Call) -> MessageNames:
    mailbox = mailbox_of(call)
    return MessageNames([name_of(call, mailbox, mailbox.draft(call.raw))])


async def edit_draft(call: Call) -> MessageNames:
    mailbox = mailbox_of(call)
    number = mailbox.edit_draft(number_of(call, mailbox, call.path["message"]), call.raw)
    return MessageNames([name_of(call, mailbox, number)])


async def send_draft(call: Call) -> MessageNames:
    mailbox = mailbox_of(call)
    number = mailbox.send_draft(number_of(call, mailbox, call.path["message"]))
    return MessageNames([name_of(call, mailbox, number)])


def _done(change: Change | None) -> Done:
    return Done(0 if change is None else 1)
