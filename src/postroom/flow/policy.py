"""A content policy is changed (K2): what it no longer allows goes at once, what it now allows is fetched.

In the transaction that changes the policy. A sync under way holds its work row while it commits, so a page is
either there already and is purged too, or it sees the new policy and starts over.
"""

from typing import Final

from postroom.flow.sync.content import Accept, accepts
from postroom.flow.sync.reading import KIND
from postroom.model import ContentPolicy, Letter, MailboxId, OrganizationId, Person
from postroom.store import contents, cursors, ledger, work
from postroom.store.contents import Held
from postroom.store.cursors import Begin, CursorKind
from postroom.store.database import Connection
from postroom.store.work import Wake

_ORDER: Final = (ContentPolicy.METADATA, ContentPolicy.DOCUMENTS, ContentPolicy.FULL)
_PAGE: Final = 1000


async def apply(
    connection: Connection,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    before: ContentPolicy,
    after: ContentPolicy,
    accept: Accept = accepts,
) -> None:
    if _ORDER.index(after) > _ORDER.index(before):
        await cursors.begin(connection, mailbox, [Begin(CursorKind.REFILL, "")])
        await work.wake(connection, [Wake(organization, KIND, str(mailbox))])
        return
    await cursors.drop(connection, mailbox, [(CursorKind.REFILL, "")])
    await contents.strip(connection, mailbox)
    await _drop_attachments(connection, mailbox, accept if after is ContentPolicy.DOCUMENTS else None)


async def _drop_attachments(connection: Connection, mailbox: MailboxId, accept: Accept | None) -> None:
    """Those that are not accepted; without a judge, all. Their bytes go when nothing refers to them."""
    message, part = 0, ""
    while held := await contents.attachments_after(connection, mailbox, message, part, limit=_PAGE):
        message, part = held[-1].message, held[-1].enclosure.part
        gone = [each for each in held if accept is None or not accept(_letter(each), each.enclosure)]
        await contents.detach(connection, [(each.message, each.enclosure.part) for each in gone])
        names = [f"{each.message}/{each.enclosure.part}" for each in gone]
        await ledger.purge_all(connection, "attachment", names)


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
