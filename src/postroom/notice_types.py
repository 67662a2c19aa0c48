"""The domain types of notices: their kinds and media, an email, the result of sending. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class NoticeMedium(StrEnum):
    """How a notice reaches people."""

    EMAIL = "email"
    SLACK = "slack"  # an incoming webhook of Slack, or of a program that accepts its format
    TEAMS = "teams"  # a webhook of a Microsoft Teams workflow


class NoticeKind(StrEnum):
    """The conditions that notices announce."""

    REVIEW_QUEUE = "review_queue"  # a document needs review for longer than the limit
    CONSENT_LOST = "consent_lost"  # a mailbox must be reconnected
    AUDIT_FAILED = "audit_failed"  # an audit found differences, or cannot finish
    WEBHOOK_STOPPED = "webhook_stopped"  # a webhook accepts nothing, or was disabled for that


@dataclass(frozen=True, slots=True)
class NoticeMail:
    """A notice as email. `notice` becomes its Message-ID, by which a mail program recognizes a duplicate."""

    recipients: tuple[str, ...]
    subject: str
    text: str
    notice: UUID


@dataclass(frozen=True, slots=True)
class NoticeResult:
    """Whether a notice was accepted. `error` may also say that some of its recipients were refused."""

    sent: bool
    error: str | None = None
