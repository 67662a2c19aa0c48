"""What people do with their mailboxes at the provider: a plan's number picks the message or the folder."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from postroom_chaos.simulator import SimulatorControl

USES: Final = frozenset({"receive", "burst", "mark", "move", "trash", "delete", "draft", "folder"})
_GMAIL_PLACES: Final = ("INBOX", "SPAM", "TRASH")
_HIDDEN: Final = ("msgfolderroot", "recoverableitemsdeletions")
_DRAFT: Final = (
    b"From: Ann Draft <ann.draft@example.org>\r\nTo: bob@example.com\r\nSubject: Draft %d\r\n\r\nText %d\r\n"
)


async def use(control: SimulatorControl, kind: str, details: Mapping[str, Any]) -> str:
    """Do one thing, and say to what."""
    address: str = details["mailbox"]
    if kind == "receive":
        spec = {"kind": details["message"], "seed": details["seed"]}
        spec |= {"from": details["from"]} if "from" in details else {}
        return await control.deliver(address, **spec)
    if kind == "burst":
        await control.deliver(address, kind="plain", count=details["count"], seed=details["seed"])
        return f"{details['count']} messages"
    if kind == "draft":
        return await _write_draft(control, address, details["pick"])
    if kind == "folder":
        return await _change_folder(control, address, details["pick"], details["change"])
    numbers = await control.numbers(address)
    if not numbers:
        return "nothing there"
    pick: int = details["pick"]
    message = numbers[pick % len(numbers)]
    if kind == "delete":
        await control.call("DELETE", f"mailboxes/{quote(address)}/messages/{message}")
    elif kind == "mark":
        await control.act(address, message, "mark", **details["marks"])
    elif kind == "move":
        places = await _list_places(control, address)
        await control.act(address, message, "move", folder=places[pick // 7 % len(places)])
    else:
        await control.act(address, message, kind)
    return f"message {message}"


async def _write_draft(control: SimulatorControl, address: str, pick: int) -> str:
    """Save a draft; some are saved again, and some of all are sent."""
    path = f"mailboxes/{quote(address)}"
    saved = await control.send_mail("POST", f"{path}/drafts", _DRAFT % (pick, pick))
    number = saved["messages"][0]["number"]
    if pick % 2:
        saved = await control.send_mail("PUT", f"{path}/messages/{number}", _DRAFT % (pick, pick + 1))
        number = saved["messages"][0]["number"]
    if pick % 3 == 0:
        await control.act(address, number, "send")
    return f"message {number}"


async def _change_folder(control: SimulatorControl, address: str, pick: int, change: str) -> str:
    path = f"mailboxes/{quote(address)}/folders"
    made = [folder["key"] for folder in await _list_folders(control, address) if folder["kind"] == "user"]
    if change == "make" or not made:
        return (await control.call("POST", path, {"name": f"Folder {pick}"}))["key"]
    key = made[pick % len(made)]
    if change == "rename":
        await control.call("PATCH", f"{path}/{quote(key)}", {"name": f"Renamed {pick}"})
    else:
        await control.call("DELETE", f"{path}/{quote(key)}")
    return f"{change} {key}"


async def _list_folders(control: SimulatorControl, address: str) -> list[dict[str, Any]]:
    return (await control.call("GET", f"mailboxes/{quote(address)}"))["folders"]


async def _list_places(control: SimulatorControl, address: str) -> list[str]:
    """Where a person can move a message."""
    details = await control.call("GET", f"mailboxes/{quote(address)}")
    made = [folder["key"] for folder in details["folders"] if folder["kind"] == "user"]
    if details["mailbox"]["provider"] == "gmail":
        return [*_GMAIL_PLACES, *made]
    return [
        folder["key"] for folder in details["folders"] if not folder["query"] and folder["key"] not in _HIDDEN
    ]
