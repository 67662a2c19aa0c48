"""The actions of the web page's forms, which call the handlers of the control API.

Each returns a sentence to display; invalid input is a SimulatorError.
"""

from dataclasses import replace
from typing import get_args

from starlette.datastructures import FormData

from mailsim.control import mailboxes, messages, schemas, simulation
from mailsim.control.endpoint import ControlCall
from mailsim.errors import InvalidRequest
from mailsim.faults import Fault
from mailsim.message_state import ProviderName
from mailsim.provider_actions import ExpiryRequest, LifecycleRequest, RevocationRequest
from mailsim.simulator import Simulator


def _read_text(fields: FormData, name: str) -> str:
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _read_number(fields: FormData, name: str, default: float) -> float:
    text = _read_text(fields, name)
    try:
        return float(text) if text else default
    except ValueError as error:
        raise InvalidRequest(f"{name} must be a number, not {text!r}") from error


def _read_integer(fields: FormData, name: str, default: int) -> int:
    value = _read_number(fields, name, default)
    if value != value // 1 or not abs(value) < 2**53:
        raise InvalidRequest(f"{name} must be a whole number")
    return int(value)


async def create_mailbox(sim: Simulator, fields: FormData) -> str:
    provider = _read_text(fields, "provider")
    if provider not in get_args(ProviderName):
        raise InvalidRequest("provider must be gmail or outlook")
    body = schemas.NewMailbox(
        provider="gmail" if provider == "gmail" else "outlook",
        address=_read_text(fields, "address"),
        messages=_read_integer(fields, "messages", 0),
        days=_read_number(fields, "days", 30),
        kinds=[kind for kind in (_read_text(fields, "kind"),) if kind],
    )
    mailbox = await mailboxes.create_mailbox(ControlCall(sim, {}, body=body))
    return f"Created {mailbox.address} with {mailbox.messages} messages."


async def deliver_messages(sim: Simulator, fields: FormData) -> str:
    address = _read_text(fields, "address")
    body = schemas.NewMessages(
        kind=_read_text(fields, "kind") or "plain",
        sender=_read_text(fields, "from"),
        subject=_read_text(fields, "subject") or None,
        count=_read_integer(fields, "count", 1),
    )
    delivered = await messages.deliver(ControlCall(sim, {"address": address}, body=body))
    return f"Delivered {len(delivered.messages)} message(s) to {address}."


async def change_message(sim: Simulator, fields: FormData) -> str:
    address, message, action = (_read_text(fields, name) for name in ("address", "message", "action"))
    call = ControlCall(sim, {"address": address, "message": message})
    if action in {"read", "unread"}:
        await messages.mark(replace(call, body=schemas.MessageStateChange(read=action == "read")))
    elif action in {"flag", "unflag"}:
        flag = "flagged" if action == "flag" else "notFlagged"
        await messages.mark(replace(call, body=schemas.MessageStateChange(flag=flag)))
    elif action == "trash":
        await messages.trash(call)
    elif action == "delete":
        await messages.delete(call)
    else:
        raise InvalidRequest("action must be read, unread, flag, unflag, trash or delete")
    return f"Message {message}: {action}."


async def inject_fault(sim: Simulator, fields: FormData) -> str:
    body = Fault(
        kind=_read_text(fields, "kind"),
        mailbox=_read_text(fields, "mailbox") or "*",
        endpoint=_read_text(fields, "endpoint") or "*",
        probability=_read_number(fields, "percent", 100) / 100,
        times=_read_integer(fields, "times", 0) or None,
        retry_after=_read_integer(fields, "retry_after", 0) if fields.get("retry_after") else None,
        seconds=_read_number(fields, "seconds", 0),
    )
    fault = await simulation.add_fault(ControlCall(sim, {}, body=body))
    return f"Fault {fault.number} injected: {fault.kind}."


async def cancel_fault(sim: Simulator, fields: FormData) -> str:
    number = _read_text(fields, "number")
    await simulation.remove_fault(ControlCall(sim, {"number": number}))
    return f"Fault {number} cancelled."


async def move_clock(sim: Simulator, fields: FormData) -> str:
    seconds = _read_number(fields, "seconds", 0)
    clock = await simulation.move_clock(ControlCall(sim, {}, body=schemas.ClockMove(seconds=seconds)))
    return f"Clock set to {clock.now}."


async def run_provider_action(sim: Simulator, fields: FormData) -> str:
    """Simulate an action of the provider, such as revoking consent."""
    actions = {
        "revoke": (mailboxes.revoke_consent, RevocationRequest()),
        "expire-tokens": (mailboxes.expire_tokens, ExpiryRequest()),
        "expire-cursors": (mailboxes.expire_cursors, ExpiryRequest()),
        "missed": (mailboxes.send_lifecycle, LifecycleRequest("missed")),
        "subscriptionRemoved": (mailboxes.send_lifecycle, LifecycleRequest("subscriptionRemoved")),
        "reauthorizationRequired": (mailboxes.send_lifecycle, LifecycleRequest("reauthorizationRequired")),
    }
    name = _read_text(fields, "order")
    if name not in actions:
        raise InvalidRequest(f"unknown action {name!r}; known actions: {', '.join(actions)}")
    address = _read_text(fields, "address")
    action, body = actions[name]
    result = await action(ControlCall(sim, {"address": address}, body=body))
    return f"{name}: {result.count} affected in {address}."
