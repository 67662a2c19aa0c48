"""The oracle: decides from the outside whether a run lost, doubled, leaked or forgot anything.

It imports nothing of Postroom and trusts nothing that Postroom computes. What must be true follows from the
requirements; what is true is read from the database, the disk, the logs and the simulator:

    mail, mail_content   the store equals the provider, as far as policy, scope, retention and purges allow
    purges               nothing is left of purged mailboxes and people
    mailboxes            connected, healthy, subscribed once
    history              the events of each message lead to its state; nothing is recorded twice
    documents            one document per content, one archived file per completed document
    ledger, feed         the chain and its signatures; a feed without gaps
    webhooks             signed, at least once, in order per object
    log_privacy          nothing personal in any log
    leftovers            no lease, orphan process, temporary file or growing memory
"""

from postroom_chaos.oracle.documents import check_documents
from postroom_chaos.oracle.evidence import Evidence, Violation
from postroom_chaos.oracle.feed import check_feed
from postroom_chaos.oracle.history import check_history
from postroom_chaos.oracle.ledger import check_ledger
from postroom_chaos.oracle.leftovers import check_leftovers
from postroom_chaos.oracle.log_privacy import check_logs
from postroom_chaos.oracle.mail import check_mail
from postroom_chaos.oracle.mailboxes import check_mailboxes
from postroom_chaos.oracle.purges import check_purges
from postroom_chaos.oracle.sources import Connection, RemoteMailbox, open_sources
from postroom_chaos.oracle.webhooks import check_webhooks

__all__ = ["Evidence", "Violation", "check"]

_CHECKS = (
    check_mail,
    check_mailboxes,
    check_purges,
    check_documents,
    check_ledger,
    check_feed,
    check_webhooks,
    check_logs,
    check_leftovers,
)


async def check(
    evidence: Evidence,
    connection: Connection | None = None,
    read: dict[str, RemoteMailbox] | None = None,
) -> list[Violation]:
    """Run every check and return what is wrong, sorted.

    `connection`: where to read instead of a new snapshot. `read`: mailboxes that were read from the simulator
    before and have not changed since; those that are read now are added.
    """
    async with open_sources(evidence, connection, read) as sources:
        found = await check_history(sources.connection)
        for check in _CHECKS:
            found += await check(sources)
        return sorted(found)
