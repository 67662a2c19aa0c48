"""A content policy is changed (K2): what it no longer allows goes at once, what it now allows is fetched.

The change is a short transaction. A sync under way holds its work row while it commits, so a page is either
there already and is purged too, or it sees the new policy and starts over. What is too much then goes batch
by batch before whoever asked is answered; where that is cut short, work that is due goes on with it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final
from uuid import UUID

from postroom.flow.mail.sync.content_filter import accepts
from postroom.model import ContentPolicy, Done, Letter, MailboxId, OrganizationId, Person, WorkKind
from postroom.store import cursors, ledger, mailboxes, message_contents, work
from postroom.store.cursors import Begin, CursorKind
from postroom.store.database import Connection, Database
from postroom.store.message_contents import Held
from postroom.store.work import Lease, Wake

BATCH: Final = 500
SPARE_SECONDS: Final = 600.0  # until somebody else goes on with what whoever asked has not ended
_ORDER: Final = (ContentPolicy.METADATA, ContentPolicy.DOCUMENTS, ContentPolicy.FULL)


def lowers(before: ContentPolicy, after: ContentPolicy) -> bool:
    return _ORDER.index(after) < _ORDER.index(before)


async def hold(
    connection: Connection,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    before: ContentPolicy,
    after: ContentPolicy,
) -> None:
    """Let no page be committed until this transaction has changed the policy.

    The work is made due before, since its step takes the two rows in the same order. It is not named as the
    mailbox is, so that it outlives a disconnect.
    """
    if lowers(before, after):
        await work.wake(
            connection, [Wake(organization, WorkKind.APPLY_POLICY, f"content of {mailbox}", SPARE_SECONDS)]
        )
    await work.hold(connection, WorkKind.SYNC, str(mailbox))


async def apply(
    connection: Connection,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    before: ContentPolicy,
    after: ContentPolicy,
) -> None:
    """In the transaction that changes the policy: the next syncs fetch what is missing now, or no longer."""
    if lowers(before, after):
        await cursors.drop(connection, mailbox, [(CursorKind.REFILL, "")])
        return
    await cursors.begin(connection, mailbox, [Begin(CursorKind.REFILL, "")])
    await work.wake(connection, [Wake(organization, WorkKind.SYNC, str(mailbox))])


async def settle(
    database: Database, organization: OrganizationId, mailbox: MailboxId, *, batch: int = BATCH
) -> None:
    """Remove what the policy, as it is now, does not allow."""
    await _settle(partial(database.transaction, organization), mailbox, batch)


async def run(database: Database, lease: Lease) -> Done:
    """The same, where whoever asked for it did not come to the end."""
    mailbox = MailboxId(UUID(lease.subject.rpartition(" ")[2]))
    await _settle(partial(work.fenced, database, lease), mailbox, BATCH)
    return Done()


async def _settle(
    begin: Callable[[], AbstractAsyncContextManager[Connection]], mailbox: MailboxId, batch: int
) -> None:
    last: int | None = 0
    while last is not None:
        async with begin() as connection:
            last = await _lower(connection, mailbox, last, batch)


async def _lower(connection: Connection, mailbox: MailboxId, after: int, batch: int) -> int | None:
    """Of the next messages; the last of them, or None where there is nothing more to do."""
    await work.hold(connection, WorkKind.SYNC, str(mailbox))
    found = await mailboxes.get(connection, mailbox)
    if found is None or found.policy is ContentPolicy.FULL:
        return None
    messages = await message_contents.messages_after(connection, mailbox, after, limit=batch)
    if not messages:
        return None
    await message_contents.strip(connection, messages)
    some = found.policy is ContentPolicy.DOCUMENTS
    gone = [
        each
        for each in await message_contents.attachments(connection, messages)
        if not (some and accepts(_letter(each), each.enclosure))
    ]
    await message_contents.detach(connection, [(each.message, each.enclosure.part) for each in gone])
    names = [f"{each.message}/{each.enclosure.part}" for each in gone]
    await ledger.purge_all(connection, "attachment", names)
    return messages[-1]


def _letter(held: Held) -> Letter:
    """What a judge may ask of a stored message."""
    return Letter(
        internet_message_id=held.internet_message_id,
        sender=Person(held.from_name or "", held.from_address) if held.from_address else None,
        to=(),
        cc=(),
        bcc=(),
        subject=held.subject,
        sent_at=None,
        size=None,
        has_attachments=True,
        is_newsletter=held.is_newsletter,
        is_automated=held.is_automated,
    )
