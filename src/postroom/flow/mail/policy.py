"""What follows a changed content policy: remove what it forbids, refill what it allows.

`mailboxes.lifecycle` and `mailboxes.connect` change the policy in a short transaction and call this module. A
running sync locks its work row while it commits, so a page is either committed before, and purged too, or it
sees the new policy and starts over. The disallowed content is then removed in batches before the caller gets
its answer. If that is interrupted, the work `apply_policy` continues it. The next syncs fetch what is
missing.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final
from uuid import UUID

from postroom.documents.pipelines import Pipelines
from postroom.flow.documents import screen
from postroom.flow.mail.sync.content_filter import accepts_attachment
from postroom.model import (
    ContentPolicy,
    MailboxId,
    OrganizationId,
    StepResult,
    WorkKind,
)
from postroom.store import cursors, ledger, mailboxes, message_contents, work
from postroom.store.connection import Connection
from postroom.store.cursors import CursorKind, CursorStart
from postroom.store.database import Database
from postroom.store.message_contents import MailboxAttachment
from postroom.store.work import Lease, WorkRequest

BATCH: Final = 500
FIRST_ATTACHMENT: Final = (0, "")
TAKEOVER_SECONDS: Final = 600.0  # until a worker continues what the caller did not finish
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
    """Block commits of sync pages until this transaction has changed the policy.

    The work `apply_policy` is enqueued first, because its step locks the two rows in the same order. Its
    subject is not just the mailbox's id, so that it survives a disconnect.
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
    """Start or cancel the refill of missing content, in the transaction that changes the policy."""
    if is_lowered(before, after):
        await cursors.delete(connection, mailbox, [(CursorKind.REFILL, "")])
        return
    await cursors.start(connection, mailbox, [CursorStart(CursorKind.REFILL, "")])
    await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])


async def remove_disallowed(
    database: Database,
    pipelines: Pipelines,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    batch: int = BATCH,
) -> None:
    """Remove the content that the current policy does not allow."""
    await _remove_in_batches(partial(database.transaction, organization), pipelines, mailbox, batch)


async def run(database: Database, pipelines: Pipelines, lease: Lease) -> StepResult:
    """Finish a removal that the caller of `remove_disallowed` did not complete."""
    mailbox = MailboxId(UUID(lease.subject.rpartition(" ")[2]))
    await _remove_in_batches(partial(work.fenced_transaction, database, lease), pipelines, mailbox, BATCH)
    return StepResult()


async def _remove_in_batches(
    begin: Callable[[], AbstractAsyncContextManager[Connection]],
    pipelines: Pipelines,
    mailbox: MailboxId,
    batch: int,
) -> None:
    last: int | None = 0
    while last is not None:
        async with begin() as connection:
            last = await _remove_batch(connection, pipelines, mailbox, last, batch)


async def _remove_batch(
    connection: Connection, pipelines: Pipelines, mailbox: MailboxId, after: int, batch: int
) -> int | None:
    """Remove from the next messages; the id of the last one, or None if there are no more."""
    await work.block_commits(connection, WorkKind.SYNC, str(mailbox))
    found = await mailboxes.get(connection, mailbox)
    if found is None or found.policy is ContentPolicy.FULL:
        return None
    messages = await message_contents.list_message_ids_after(connection, mailbox, after, limit=batch)
    if not messages:
        return None
    stored = await message_contents.list_attachments(connection, messages)
    removed = [
        (each.message_id, each.attachment.part)
        for each in stored
        if found.policy is ContentPolicy.METADATA or _is_unaccepted(pipelines, each)
    ]
    await message_contents.delete_attachments(connection, removed)
    await message_contents.strip_contents(connection, messages)
    await _purge_names(connection, removed)
    return messages[-1]


def _is_unaccepted(pipelines: Pipelines, stored: MailboxAttachment) -> bool:
    """Whether `documents` does not store an attachment. One that became a document stays."""
    if stored.has_document:
        return False
    is_covered = screen.covers_sender(pipelines, stored.mailbox_address, stored.sender)
    return not accepts_attachment(stored.attachment, stored.detected, is_covered=is_covered)


async def _purge_names(connection: Connection, removed: Sequence[tuple[int, str]]) -> None:
    names = [f"{message}/{part}" for message, part in removed]
    await ledger.purge_personal(connection, "attachment", names)


async def remove_unaccepted(
    connection: Connection, pipelines: Pipelines, after: tuple[int, str], *, limit: int
) -> tuple[int, tuple[int, str] | None]:
    """Remove attachments of `documents` mailboxes that no pipeline accepts; the next batch after this one.

    Earlier versions stored those of every sender. Returns how many were removed, and the last attachment that
    was looked at, or None if there are no more.
    """
    found = await message_contents.list_attachments_after(connection, after, limit=limit)
    removed = [
        (stored.message_id, stored.attachment.part) for stored in found if _is_unaccepted(pipelines, stored)
    ]
    await message_contents.delete_attachments(connection, removed)
    await message_contents.strip_contents(connection, sorted({message for message, _ in removed}), names=True)
    await _purge_names(connection, removed)
    last = (found[-1].message_id, found[-1].attachment.part) if len(found) == limit else None
    return len(removed), last
