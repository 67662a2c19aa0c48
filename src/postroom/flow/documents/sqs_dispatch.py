"""Documents that are due are told to a queue outside, and claimed when it tells (D4). The row is the truth.

          due, nobody carries it      sent                       received, claimed
 the row ──────────────────────▶ held ──────▶ carried for an hour ─────────────────▶ leased, as any other row
                                  └─ not sent (a crash, an outage): told again after a minute

A message that is lost, doubled, late or dead costs time, never a document: the row is told again when nobody
carries it, and a message about a row that is done, held or not due is thrown away.
"""

from collections.abc import Sequence
from typing import Final

from postroom.model import WorkKind
from postroom.sqs import QueueMessage, SqsQueue, WorkReference
from postroom.store import sqs_dispatches
from postroom.store.database import Database
from postroom.store.work import Lease

HOLD_SECONDS: Final = 60.0  # until somebody else sends what we wanted to send
RESEND_SECONDS: Final = 3600.0  # a message that nobody received until then may be lost
BATCH: Final = 100


async def send_due(database: Database, queue: SqsQueue) -> bool:
    """Tell the queue of documents that are due; whether there may be more."""
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
    """Leases on the rows that messages name, each with its receipt. Others go, or become dead letters."""
    found: list[tuple[Lease, str]] = []
    for message in messages:
        if message.named is None or message.named.kind != WorkKind.PROCESS_DOCUMENT:
            continue  # not ours: it comes again until the queue puts it to the dead letters
        async with database.engine() as connection:
            lease = await sqs_dispatches.claim_work(
                connection, WorkKind.PROCESS_DOCUMENT, message.named.subject, lease_seconds=lease_seconds
            )
        if lease is None:
            await queue.delete(message.receipt)
        else:
            found.append((lease, message.receipt))
    return found
