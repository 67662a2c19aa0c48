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

from postroom.flow.mail.sync.content_filter import accepts_attachment
from postroom.model import (
    ContentPolicy,
    MailboxId,
    MessageContent,
    OrganizationId,
    Person,
    StepResult,
    WorkKind,
)
from postroom.store import cursors, ledger, mailboxes, message_contents, work
from postroom.store.cursors import Begin, CursorKind
from postroom.store.database import Connection, Database
from postroom.store.message_contents import AttachmentWithMessage
from postroom.store.work import Lease, WorkRequest

BATCH: Final = 500
TAKEOVER_SECONDS: Final = 600.0  # until somebody else goes on with what whoever asked has not ended
_ORDER: Final = (ContentPolicy.METADATA, ContentPolicy.DOCUMENTS, ContentPolicy.FULL)


def is_lowered(before: ContentPolicy, after: ContentPolicy) -> bool:
    return _ORDER.index(after) < _ORDER.index(before)


async def block_commits(
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
    if is_lowered(before, after):
        await work.enqueue(
            connection,
            [WorkRequest(organization, WorkKind.APPLY_POLICY, f"content of {mailbox}", TAKEOVER_SECONDS)],
        )
    await work.block_commits(connection, WorkKind.SYNC, str(mailbox))


async def schedule_refill(
    connection: Connection,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    before: ContentPolicy,
    after: ContentPolicy,
) -> None:
    """In the transaction that changes the policy: the next syncs fetch what is missing now, or no longer."""
    if is_lowered(before, after):
        await cursors.drop(connection, mailbox, [(CursorKind.REFILL, "")])
        return
    await cursors.begin(connection, mailbox, [Begin(CursorKind.REFILL, "")])
    await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])


async def remove_disallowed(
    database: Database, organization: OrganizationId, mailbox: MailboxId, *, batch: int = BATCH
) -> None:
    """Remove what the policy, as it is now, does not allow."""
    await _remove_in_batches(partial(database.transaction, organization), mailbox, batch)


async def run(database: Database, lease: Lease) -> StepResult:
    """The same, where whoever asked for it did not come to the end."""
    mailbox = MailboxId(UUID(lease.subject.rpartition(" ")[2]))
    await _remove_in_batches(partial(work.fenced_transaction, database, lease), mailbox, BATCH)
    return StepResult()


async def _remove_in_batches(
    begin: Callable[[], AbstractAsyncContextManager[Connection]], mailbox: MailboxId, batch: int
) -> None:
    last: int | None = 0
    while last is not None:
        async with begin() as connection:
            last = await _remove_batch(connection, mailbox, last, batch)


async def _remove_batch(connection: Connection, mailbox: MailboxId, after: int, batch: int) -> int | None:
    """Of the next messages; the last of them, or None where there is nothing more to do."""
    await work.block_commits(connection, WorkKind.SYNC, str(mailbox))
    found = await mailboxes.get(connection, mailbox)
    if found is None or found.policy is ContentPolicy.FULL:
        return None
    messages = await message_contents.list_message_ids_after(connection, mailbox, after, limit=batch)
    if not messages:
        return None
    await message_contents.strip_contents(connection, messages)
    some = found.policy is ContentPolicy.DOCUMENTS
    gone = [
        each
        for each in await message_contents.list_attachments(connection, messages)
        if not (some and accepts_attachment(_to_message_content(each), each.attachment))
    ]
    await message_contents.delete_attachments(
        connection, [(each.message, each.attachment.part) for each in gone]
    )
    names = [f"{each.message}/{each.attachment.part}" for each in gone]
    await ledger.purge_personal_of_many(connection, "attachment", names)
    return messages[-1]


def _to_message_content(held: AttachmentWithMessage) -> MessageContent:
    """What a judge may ask of a stored message."""
    return MessageContent(
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
