"""Reads mailboxes as a sync would, and keeps what it read."""

import hashlib
from collections.abc import Sequence

from postroom.model import ContentPolicy, FetchedMessage, FetchFailure, MessageChange, Presence, ProviderName


def is_gmail(contract) -> bool:
    return contract.provider.name is ProviderName.GMAIL


def truth(contract) -> dict[str, dict]:
    return {each["id"]: each for each in contract.sim.truth(contract.address)}


async def scopes(mailbox) -> list[str]:
    return sorted({folder.scope for folder in await mailbox.list_folders() if folder.scope is not None})


async def listed(mailbox, since=None) -> tuple[dict[str, MessageChange], dict[str, str]]:
    """All messages of a mailbox, and the cursor for changes by scope."""
    found: dict[str, MessageChange] = {}
    live: dict[str, str] = {}
    for scope in await scopes(mailbox):
        pinned = await mailbox.get_current_cursor(scope)
        cursor, more = None, True
        while more:
            page = await mailbox.list_messages(scope, cursor=cursor, since=since)
            assert len({change.key for change in page.changes}) == len(page.changes)
            found |= {change.key: change for change in page.changes}
            cursor, more = page.cursor, page.has_more
        live[scope] = pinned or page.live_cursor
    return found, live


async def changed(mailbox, live: dict[str, str]) -> list[MessageChange]:
    """What changed since; the cursors move on."""
    found: list[MessageChange] = []
    for scope in list(live):
        more = True
        while more:
            page = await mailbox.list_changes(scope, live[scope])
            assert len({change.key for change in page.changes}) == len(page.changes)
            found += page.changes
            live[scope], more = page.cursor, page.has_more
    return found


async def fetched(mailbox, wanted: Sequence[MessageChange], policy=ContentPolicy.FULL):
    """Every key answered once."""
    found: list[FetchedMessage | FetchFailure] = []
    async for group in mailbox.fetch(wanted, policy):
        found += group
    assert sorted(each.key for each in found) == sorted({change.key for change in wanted})
    return found


def wanted(*keys: str) -> list[MessageChange]:
    return [MessageChange(key, Presence.PRESENT) for key in keys]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def digests(mailbox, message: FetchedMessage) -> list[str]:
    """Of what is attached, sorted."""
    found: list[str] = []
    for each in message.content.attachments:
        if each.kind == "reference":
            continue
        content = each.content
        if content is None:
            content = b"".join([piece async for piece in mailbox.fetch_attachment(message.key, each)])
        found.append(sha256(content))
    return sorted(found)


def attached(real: dict) -> list[str]:
    """What the simulator says is attached, without what lies inside attached messages."""
    return sorted(each["sha256"] for each in real["attachments"] if not each.get("nested"))


def state_of(contract, real: dict) -> dict:
    """What of a message may change, as the simulator knows it."""
    common = {
        "thread": real["thread"],
        "is_read": real["read"],
        "is_flagged": real["flag"] == "flagged",
        "is_draft": real["draft"],
    }
    if is_gmail(contract):
        return common | {"labels": frozenset(real["keys"])}
    [folder] = real["folders"]
    return common | {"folder": folder, "categories": frozenset(real["categories"])}


def assert_state(contract, state, real: dict) -> None:
    assert {name: getattr(state, name) for name in state_of(contract, real)} == state_of(contract, real)
