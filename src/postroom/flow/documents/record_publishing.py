"""Store a new version of a record, and publish it: feed, ledger, and the archive if its key changed."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from postroom.errors import PermanentError
from postroom.flow.documents import route
from postroom.model import OrganizationId, WorkKind
from postroom.store import archive_copies, documents, ledger, record_versions, records, work
from postroom.store.connection import Connection
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.record_versions import VersionNote
from postroom.store.records import Record
from postroom.store.work import WorkRequest


async def revise_record(
    connection: Connection,
    organization: OrganizationId,
    before: Record,
    after: Record,
    note: VersionNote,
    *,
    fingerprint: bytes | None = None,
    details: Mapping[str, JsonValue] | None = None,
) -> Record:
    """Store `after` as the next version of a record and return it. Call `records.lock` first."""
    if not await record_versions.store_version(connection, before, after, note, fingerprint=fingerprint):
        raise PermanentError(f"Record {before.name} has changed. Reload it and try again.")
    version = before.version + 1
    await route.publish_record(connection, before.id, after.state.value, kind=before.kind, version=version)
    payload: dict[str, JsonValue] = {"version": version, "state": after.state.value, "reason": note.reason}
    payload |= {"other_record_id": str(note.other_record)} if note.other_record else {}
    payload |= dict(details or {})
    entry = NewLedgerEntry(
        f"RECORD_{note.change.upper()}", "record", str(before.id), actor_id=note.actor, payload=payload
    )
    await ledger.append_entries(connection, organization, [entry])
    if after.key != before.key:
        held = await documents.list_by_record(connection, before.id)
        await archive_again(connection, organization, [document.id for document in held])
    changed = await records.get(connection, before.id)
    assert changed is not None, "changed in this transaction"
    return changed


async def archive_again(
    connection: Connection, organization: OrganizationId, document_ids: Collection[UUID]
) -> None:
    """Have archived documents archived at the path that follows from their record now."""
    revised: Sequence[UUID] = await archive_copies.mark_revised(connection, document_ids)
    await work.enqueue(
        connection, [WorkRequest(organization, WorkKind.ARCHIVE, str(document)) for document in revised]
    )
