"""What must be stored of a mailbox: every message is required, forbidden, or may be there."""

from enum import Enum

from postroom_chaos.oracle.evidence import Evidence, ObservedMailbox
from postroom_chaos.oracle.sources import RemoteMessage


class Expectation(Enum):
    REQUIRED = "must be stored"
    OPTIONAL = "may be stored"
    FORBIDDEN = "must not be stored"


def expect(evidence: Evidence, mailbox: ObservedMailbox, message: RemoteMessage) -> Expectation:
    """Scope first, then purged people, then time limits."""
    if message.id in mailbox.unreadable:
        return Expectation.OPTIONAL
    if mailbox.folder is not None and mailbox.folder not in message.folders:
        return Expectation.FORBIDDEN
    if (by_person := _expect_by_sender(evidence, mailbox, message)) is not None:
        return by_person
    if mailbox.absent_before is not None and message.received_at < mailbox.absent_before:
        return Expectation.FORBIDDEN
    if mailbox.present_from is not None and message.received_at < mailbox.present_from:
        return Expectation.OPTIONAL
    return Expectation.REQUIRED


def _expect_by_sender(
    evidence: Evidence, mailbox: ObservedMailbox, message: RemoteMessage
) -> Expectation | None:
    found = None
    for person in evidence.purged_people:
        if person.organization != mailbox.organization or message.sender != person.address.lower():
            continue
        if message.received_at < person.started_at:
            return Expectation.FORBIDDEN
        if message.received_at <= person.ended_at:
            found = Expectation.OPTIONAL
    return found
