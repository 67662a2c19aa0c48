"""Announce due documents to an SQS queue, and claim those that it delivers.

The work row is the truth; the queue only announces it. The worker runs the claimed rows.

        due, not announced        sent                       received, claimed
 row ──────────────────────▶ held ──────▶ in SQS for an hour ─────────────────▶ leased, like any other row
                              └─ not sent (crash, outage): announced again after a minute

A lost, duplicated, late or dead SQS message costs time, never a document: the row is announced again, and a
message about a row that is done, leased or not due is deleted.
"""

from collections.abc import Sequence
from typing import Final

from postroom.model import WorkKind
from postroom.sqs import QueueMessage, SqsQueue, WorkReference
from postroom.store import sqs_dispatches, work
from postroom.store.database import Database
from postroom.store.work import Lease

HOLD_SECONDS: Final = 60.0  # until another process may send what we failed to send
RESEND_SECONDS: Final = 3600.0  # a message not received by then may be lost
BATCH: Final = 100


async def send_due(database: Database, queue: SqsQueue) -> bool:
    """Announce due documents to the queue; whether there may be more."""
    async with database.engine() as connection:
        subjects = await sqs_dispatches.reserve_due_documents(
            connection, limit=BATCH, hold_seconds=HOLD_SECONDS
        )
    if not subjects:
        return False
    sent = await queue.send([WorkReference(WorkKind.PROCESS_DOCUMENT, subject) for subject in subjects])
    async with database.engine() as connection:
        await sqs_dispatches.mark_sent(
            connection, [each.subject for each in sent], again_after=RESEND_SECONDS
        )
    return len(subjects) == BATCH


async def claim_received(
    database: Database, queue: SqsQueue, messages: Sequence[QueueMessage], *, lease_seconds: float
) -> list[tuple[Lease, str]]:
    """Claim the rows that messages name; their leases and receipts.

    Messages about rows that cannot be claimed are deleted. Foreign messages stay in the queue.
    """
    found: list[tuple[Lease, str]] = []
    for message in messages:
        if message.named is None or message.named.kind != WorkKind.PROCESS_DOCUMENT:
            continue  # not ours: SQS redelivers it and finally moves it to the dead-letter queue
        async with database.engine() as connection:
            lease = await work.claim_one(
                connection, WorkKind.PROCESS_DOCUMENT, message.named.subject, lease_seconds=lease_seconds
            )
        if lease is None:
            await queue.delete(message.receipt)
        else:
            found.append((lease, message.receipt))
    return found
