"""Actions of the page's forms. Each returns a sentence to display; invalid input is a SimulatorError."""

from dataclasses import replace
from typing import get_args

from starlette.datastructures import FormData

from mailsim.control import mailboxes, messages, schemas, simulation
from mailsim.control.endpoint import ControlCall
from mailsim.errors import InvalidRequest
from mailsim.message_state import ProviderName
from mailsim.provider_actions import ExpiryRequest, LifecycleRequest, RevocationRequest
from mailsim.simulator import Simulator


def _text(fields: FormData, name: str) -> str:
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _number(fields: FormData, name: str, default: float) -> float:
    text = _text(fields, name)
    try:
        return float(text) if text else default
    except ValueError as error:
        raise InvalidRequest(f"{name} must be a number, not {text!r}") from error


def _whole(fields: FormData, name: str, default: int) -> int:
    value = _number(fields, name, default)
    if value != value // 1 or not abs(value) < 2**53:
        raise InvalidRequest(f"{name} must be a whole number")
    return int(value)


async def create_mailbox(sim: Simulator, fields: FormData) -> str:
    provider = _text(fields, "provider")
    if provider not in get_args(ProviderName):
        raise InvalidRequest("choose gmail or outlook")
    given = schemas.NewMailbox(
        provider="gmail" if provider == "gmail" else "outlook",
        address=_text(fields, "address"),
        messages=_whole(fields, "messages", 0),
        days=_number(fields, "days", 30),
        kinds=[kind for kind in (_text(fields, "kind"),) if kind],
    )
    made = await mailboxes.create_mailbox(ControlCall(sim, {}, body=given))
    return f"Created {made.address} with {made.messages} messages."


async def send_mail(sim: Simulator, fields: FormData) -> str:
    address = _text(fields, "address")
    given = schemas.NewMessages(
        kind=_text(fields, "kind") or "plain",
        sender=_text(fields, "from"),
        subject=_text(fields, "subject") or None,
        count=_whole(fields, "count", 1),
    )
    sent = await messages.deliver(ControlCall(sim, {"address": address}, body=given))
    return f"Delivered {len(sent.messages)} to {address}."


async def change_message(sim: Simulator, fields: FormData) -> str:
    address, message, action = (_text(fields, name) for name in ("address", "message", "action"))
    call = ControlCall(sim, {"address": address, "message": message})
    if action in {"read", "unread"}:
        await messages.mark(replace(call, body=schemas.MessageMarks(read=action == "read")))
    elif action in {"flag", "unflag"}:
        flag = "flagged" if action == "flag" else "notFlagged"
        await messages.mark(replace(call, body=schemas.MessageMarks(flag=flag)))
    elif action == "trash":
        await messages.trash(call)
    elif action == "delete":
        await messages.delete(call)
    else:
        raise InvalidRequest("read, unread, flag, unflag, trash or delete")
    return f"Message {message}: {action}."


async def order_fault(sim: Simulator, fields: FormData) -> str:
    given = schemas.NewFault(
        kind=_text(fields, "kind"),
        mailbox=_text(fields, "mailbox") or "*",
        endpoint=_text(fields, "endpoint") or "*",
        probability=_number(fields, "percent", 100) / 100,
        times=_whole(fields, "times", 0) or None,
        retry_after=_whole(fields, "retry_after", 0),
        seconds=_number(fields, "seconds", 0),
    )
    made = await simulation.add_fault(ControlCall(sim, {}, body=given))
    return f"Fault {made.number} is on: {made.kind}."


async def cancel_fault(sim: Simulator, fields: FormData) -> str:
    number = _text(fields, "number")
    await simulation.remove_fault(ControlCall(sim, {"number": number}))
    return f"Fault {number} is off."


async def move_clock(sim: Simulator, fields: FormData) -> str:
    seconds = _number(fields, "seconds", 0)
    moment = await simulation.move_clock(ControlCall(sim, {}, body=schemas.ClockMove(seconds=seconds)))
    return f"It is {moment.now}."


async def trouble(sim: Simulator, fields: FormData) -> str:
    """Simulate an action of the provider, such as revoking consent."""
    known = {
        "revoke": (mailboxes.revoke_consent, RevocationRequest()),
        "expire-tokens": (mailboxes.expire_tokens, ExpiryRequest()),
        "expire-cursors": (mailboxes.expire_cursors, ExpiryRequest()),
        "missed": (mailboxes.send_lifecycle, LifecycleRequest("missed")),
        "subscriptionRemoved": (mailboxes.send_lifecycle, LifecycleRequest("subscriptionRemoved")),
        "reauthorizationRequired": (mailboxes.send_lifecycle, LifecycleRequest("reauthorizationRequired")),
    }
    order = _text(fields, "order")
    if order not in known:
        raise InvalidRequest("there is no such order")
    address = _text(fields, "address")
    work, body = known[order]
    done = await work(ControlCall(sim, {"address": address}, body=body))
    return f"{order}: {done.count} touched in {address}."
