"""What reading promises for both providers: folders, listings, changes, looks, messages and their bytes."""

import hashlib
from collections.abc import Sequence

from postroom.model import Change, ContentPolicy, Fetched, ProviderName, Unfetched


def is_gmail(contract) -> bool:
    return contract.provider.name is ProviderName.GMAIL


async def scopes(mailbox) -> list[str]:
    return sorted({folder.scope for folder in await mailbox.folders() if folder.scope is not None})


async def listed(mailbox, since=None) -> tuple[dict[str, Change], dict[str, str]]:
    """Everything that stands in a mailbox, and from where changes are to be read, by scope."""
    found: dict[str, Change] = {}
    live: dict[str, str] = {}
    for scope in await scopes(mailbox):
        pinned = await mailbox.pin(scope)
        cursor, more = None, True
        while more:
            page = await mailbox.listing(scope, cursor=cursor, since=since)
            found |= {change.key: change for change in page.changes}
            cursor, more = page.cursor, page.more
        live[scope] = pinned or page.live
    return found, live


async def changed(mailbox, live: dict[str, str]) -> list[Change]:
    """What changed since; the cursors move on."""
    found: list[Change] = []
    for scope in list(live):
        more = True
        while more:
            page = await mailbox.changes(scope, live[scope])
            found += page.changes
            live[scope], more = page.cursor, page.more
    return found


async def fetched(mailbox, wanted: Sequence[Change], policy=ContentPolicy.FULL):
    found: list[Fetched | Unfetched] = []
    async for group in mailbox.fetch(wanted, policy):
        found += group
    assert sorted(each.key for each in found) == sorted(change.key for change in wanted)
    return found


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def content(mailbox, key: str, enclosure) -> bytes:
    if enclosure.content is not None:
        return enclosure.content
    return b"".join([piece async for piece in mailbox.enclosure(key, enclosure)])


async def test_a_listing_shows_every_message_once_and_fetching_brings_what_the_mailbox_holds(contract):
    contract.sim.deliver(contract.address, kind="invoice", count=5)
    contract.sim.deliver(contract.address, kind="plain", count=130)
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    truth = {each["id"]: each for each in contract.sim.truth(contract.address)}
    assert set(found) == set(truth)
    for each in await fetched(mailbox, list(found.values())):
        assert isinstance(each, Fetched), each
        real = truth[each.key]
        assert each.state.thread == real["thread"]
        assert each.state.is_read is real["read"]
        assert each.letter.subject == real["subject"]
        kept = [
            await content(mailbox, each.key, one) for one in each.letter.enclosures if one.kind != "reference"
        ]
        wanted = {one["sha256"] for one in real["attachments"] if not one.get("nested")}
        assert wanted == {sha256(one) for one in kept}
        if is_gmail(contract):
            assert sha256(each.letter.raw) == real["sha256"]
