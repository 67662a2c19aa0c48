"""What the review page shows beside the fields: queue, conflict, comments, assignment, what can be undone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

from postroom.documents import record_matching
from postroom.flow.documents import route
from postroom.flow.documents.route import ExtractedValues, RecordIdentity
from postroom.flow.documents.value_checks import ReviewContext
from postroom.model import Role
from postroom.store import comments, documents, members, records, review_queue
from postroom.store.comments import Comment
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.members import Member
from postroom.store.records import ExtractionRow, Record
from postroom.store.review_queue import QueuePosition, RecentDecision
from postroom.store.sessions import SessionMember
from postroom.web import field_labels, field_views

_MAX_PAGES: Final = 20  # of the other document


@dataclass(frozen=True, slots=True)
class ReviewPanel:
    """The surroundings of a review: where it is in the visitor's queue, and what others did."""

    queue: QueuePosition
    decided: int  # by the visitor, recently
    recent: RecentDecision | None
    comments: Sequence[Comment]
    reviewers: Sequence[Member]
    assignee: Member | None

    @property
    def place(self) -> int | None:
        """The document's place among those that the visitor decided and those that wait."""
        return self.decided + self.queue.rank if self.queue.rank else None

    @property
    def total(self) -> int:
        return self.decided + self.queue.waiting


@dataclass(frozen=True, slots=True)
class ComparedField:
    """A field of a document beside the same field of the record that it resembles."""

    label: str
    existing: str
    new: str
    differs: bool


@dataclass(frozen=True, slots=True)
class RecordConflict:
    """The record that a document duplicates or contradicts, and its first document with its page count."""

    record: Record
    is_duplicate: bool
    fields: Sequence[ComparedField]
    document: UUID | None
    pages: int


async def load_panel(connection: Connection, visitor: SessionMember, document: Document) -> ReviewPanel:
    """The surroundings of a review of this document by the visitor."""
    everyone = await members.list_all(connection)
    return ReviewPanel(
        await review_queue.get_position(connection, visitor.member, document.id),
        await review_queue.count_recent(connection, visitor.actor),
        await review_queue.find_recent(connection, visitor.actor),
        await comments.list_by_document(connection, document.id),
        [member for member in everyone if member.role.allows(Role.REVIEWER)],
        next((member for member in everyone if member.id == document.assignee_id), None),
    )


async def find_conflict(
    connection: Connection,
    context: ReviewContext,
    document: Document,
    extraction: ExtractionRow,
    values: Mapping[str, Any],
) -> RecordConflict | None:
    """The record of the same invoice or trade as a document with these values, field by field."""
    identity = context.routing.identities.get(extraction.kind)
    if identity is None:
        return None
    unsure = route.find_uncertain_fields(extraction.fields, identity, is_ocr=extraction.is_ocr)
    known = await route.look_up_record(
        connection,
        context.routing,
        document.pipeline,
        ExtractedValues(extraction.kind, values, unsure),
        except_record=document.record_id,
    )
    record = known.record or known.resembles
    if record is None:
        return None
    held = await documents.list_by_record(connection, record.id)
    pages = await records.list_pages(connection, held[0].id) if held else []
    fields = _compare(extraction.kind, identity, record.fields, values)
    return RecordConflict(
        record, known.record is not None, fields, held[0].id if held else None, min(len(pages), _MAX_PAGES)
    )


def _compare(
    kind: str, identity: RecordIdentity, existing: Mapping[str, Any], new: Mapping[str, Any]
) -> list[ComparedField]:
    """Every field that either has, the differing ones first."""
    names = [name for name in identity.shapes if existing.get(name) or new.get(name)]
    differing = set(record_matching.find_disagreements(new, existing, names, identity.shapes))
    differing |= {name for name in names if bool(existing.get(name)) != bool(new.get(name))}
    currency = str(new.get("currency") or "")
    fields = [
        ComparedField(
            field_labels.field_label(kind, name, field_views.find_unit(identity, name, currency)),
            _to_text(existing.get(name)),
            _to_text(new.get(name), is_other=name in differing),
            name in differing,
        )
        for name in names
    ]
    return sorted(fields, key=lambda field: not field.differs)


def _to_text(value: Any, *, is_other: bool = False) -> str:
    if isinstance(value, list):
        count = len(cast("list[Any]", value))
        rows = f"{count} row" if count == 1 else f"{count} rows"
        return f"{rows}, other values" if is_other else rows
    return "" if value is None else str(value)
