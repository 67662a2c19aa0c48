"""Documents: one per content, each archived once, and every byte as it was sent."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from postroom_chaos.oracle.evidence import Evidence, ObservedMailbox, Violation
from postroom_chaos.oracle.sources import RemoteMessage, Row, Sources

_DOCUMENTS = """
    SELECT organization_id, id, pipeline, encode(sha256, 'hex') AS sha256, state, last_error, record_id,
        archive_path, archived_at, archive_outdated_at,
        EXISTS (SELECT FROM documents AS parts WHERE parts.part_of = documents.id) AS is_split,
        (SELECT count(*) FROM arrivals WHERE arrivals.document_id = documents.id) AS arrivals,
        EXISTS (SELECT FROM arrivals WHERE arrivals.document_id = documents.id
            AND provider_message_id IS NOT NULL AND sender IS NULL) AS lost_sender,
        (SELECT count(*) FROM ledger WHERE ledger.organization_id = documents.organization_id
            AND entity_type = 'document' AND entity_id = documents.id::text
            AND event_type = 'DOCUMENT_TAKEN_IN') AS taken_in,
        (SELECT count(*) FROM ledger WHERE ledger.organization_id = documents.organization_id
            AND entity_type = 'document' AND entity_id = documents.id::text
            AND event_type = 'DOCUMENT_ARCHIVED') AS archivings,
        (SELECT count(*) FROM events WHERE events.organization_id = documents.organization_id
            AND entity_type = 'document' AND entity_id = documents.id::text
            AND events.kind = 'document.created') AS announcements
    FROM documents ORDER BY created_at, id
"""
_BLOBS = """
    SELECT organization_id, encode(sha256, 'hex') AS sha256, size FROM blobs ORDER BY 1, 2
"""
_TWICE = """
    SELECT message_id, part, document_id, count(*) AS arrivals FROM arrivals
    WHERE message_id IS NOT NULL GROUP BY 1, 2, 3 HAVING count(*) > 1
"""
_RESTING = frozenset({"completed", "skipped", "needs_review"})
_METADATA = ".metadata.json"
# Folders from which pipelines take nothing unless their file names them (docs/pipelines.md).
_IGNORED_FOLDERS = frozenset(
    {"SENT", "DRAFT", "SPAM", "TRASH", "sentitems", "drafts", "junkemail", "deleteditems"}
    | {"recoverableitemsdeletions"}
)
_LARGEST_DOCUMENT = 25_000_000


async def check_documents(sources: Sources) -> list[Violation]:
    documents = await sources.rows(_DOCUMENTS)
    found = [violation for document in documents for violation in _check_document(sources.evidence, document)]
    found += _check_unique(documents)
    found += _check_archive(sources.evidence, documents)
    found += await _check_blobs(sources)
    found += await _check_arrivals(sources)
    for mailbox in sources.evidence.mailboxes:
        if mailbox.state == "mirrored" and mailbox.policy != "metadata":
            found += await _check_taken_in(sources, mailbox, documents)
    return found


def _name(document: Row) -> str:
    return f"document {document['id']} of {document['pipeline']} (SHA-256 {document['sha256']})"


def _check_document(evidence: Evidence, document: Row) -> Iterator[Violation]:
    subject = _name(document)
    if document["state"] not in _RESTING:
        text = f"is {document['state']} although nothing is due: {document['last_error']}"
        yield Violation("documents.state", subject, text)
    if document["state"] == "completed" and document["record_id"] is None and not document["is_split"]:
        yield Violation("documents.record", subject, "is completed and has no record")
    if document["arrivals"] == 0:
        yield Violation("documents.arrivals", subject, "exists, but no arrival says where it came from")
    if document["taken_in"] != 1:
        text = f"the ledger must have one DOCUMENT_TAKEN_IN, it has {document['taken_in']}"
        yield Violation("documents.ledger", subject, text)
    archived, archivings = document["archived_at"] is not None, document["archivings"]
    may_move = _has_purges(evidence) or document["lost_sender"]  # by retention, while it was being archived
    if bool(archivings) != archived or (archivings > 1 and not may_move):
        text = f"archived at {document['archived_at']}; the ledger has {archivings} DOCUMENT_ARCHIVED"
        yield Violation("documents.ledger", subject, text)
    if document["archive_outdated_at"] is not None:
        text = f"its path still names a purged person: {document['archive_path']}"
        yield Violation("documents.archive", subject, text)
    if document["announcements"] > 1:
        text = f"document.created is in the feed {document['announcements']} times"
        yield Violation("documents.feed", subject, text)


def _has_purges(evidence: Evidence) -> bool:
    """After a purge, the copy of a document is archived again under a path without the purged name."""
    return bool(evidence.purged_people) or any(
        each.was_purged or each.state == "purged" for each in evidence.mailboxes
    )


def _check_unique(documents: list[Row]) -> Iterator[Violation]:
    contents = Counter((each["organization_id"], each["sha256"]) for each in documents)
    paths = Counter(each["archive_path"] for each in documents if each["archive_path"] is not None)
    for (organization, sha256), count in contents.items():
        if count > 1:
            subject = f"organization {organization}, content {sha256}"
            yield Violation("documents.twice", subject, f"one content is one document; there are {count}")
    for path, count in paths.items():
        if count > 1:
            yield Violation("documents.archive", f"archive path {path}", f"belongs to {count} documents")


def _check_archive(evidence: Evidence, documents: list[Row]) -> Iterator[Violation]:
    known: set[str] = set()
    for document in documents:
        path = document["archive_path"]
        if path is not None:
            known |= {path, path + _METADATA}
            yield from _check_archived_file(evidence.archive, document)
        elif document["state"] == "completed" and document["pipeline"] in evidence.pipelines:
            yield Violation("documents.archive", _name(document), "is completed and was not archived")
    for path in _list_files(evidence.archive / "archive"):
        name = str(path.relative_to(evidence.archive))
        if name not in known:
            what = "a temporary file" if path.name.startswith(".") else "belongs to no document"
            yield Violation("documents.archive_extra", f"archived file {name}", what)


def _check_archived_file(archive: Path, document: Row) -> Iterator[Violation]:
    subject = f"{_name(document)}, archived at {document['archive_path']}"
    file = archive / document["archive_path"]
    metadata = file.with_name(file.name + _METADATA)
    if not file.is_file():
        yield Violation("documents.archive", subject, "the archive has no such file")
        return
    digest = _digest(file)
    if digest != document["sha256"]:
        yield Violation("documents.archive_bytes", subject, f"the file has {digest}: not the bytes that came")
    try:
        described = json.loads(metadata.read_text())
    except (OSError, ValueError) as error:
        yield Violation("documents.archive_metadata", subject, f"its metadata cannot be read: {error}")
        return
    if missing := {"sender-email", "source", "processed-at"} - described.keys():
        yield Violation("documents.archive_metadata", subject, f"its metadata lacks {sorted(missing)}")


async def _check_blobs(sources: Sources) -> list[Violation]:
    """Every blob that the database knows is there, complete and unchanged."""
    found: list[Violation] = []
    for blob in await sources.rows(_BLOBS):
        name = f"{blob['organization_id']}/{blob['sha256'][:2]}/{blob['sha256']}"
        path = sources.evidence.blobs / name
        if not path.is_file():
            found.append(Violation("documents.blob", f"blob {name}", "its row exists, its bytes do not"))
        elif (digest := _digest(path)) != blob["sha256"] or path.stat().st_size != blob["size"]:
            text = f"must be {blob['size']} bytes; has {path.stat().st_size} with SHA-256 {digest}"
            found.append(Violation("documents.blob", f"blob {name}", text))
    return found


async def _check_arrivals(sources: Sources) -> list[Violation]:
    return [
        Violation(
            "documents.arrivals",
            f"document {row['document_id']}, message row {row['message_id']}, part {row['part']}",
            f"one arrival is recorded once; it is there {row['arrivals']} times",
        )
        for row in await sources.rows(_TWICE)
    ]


async def _check_taken_in(
    sources: Sources, mailbox: ObservedMailbox, documents: list[Row]
) -> list[Violation]:
    """Every PDF in a folder that pipelines apply to became a document."""
    taken = {each["sha256"] for each in documents if each["organization_id"] == mailbox.organization}
    rows = await sources.rows(
        "SELECT provider_message_id FROM messages WHERE mailbox_id = %s AND deleted_at IS NULL", mailbox.id
    )
    stored = {row["provider_message_id"] for row in rows}
    remote = await sources.remote(mailbox)
    return [
        Violation(
            "documents.missing",
            f"mailbox {mailbox.address} ({mailbox.id}), message {message.id}, SHA-256 {sha256}",
            f"is a PDF in {message.keys}, but no document",
        )
        for key, message in remote.messages.items()
        if key in stored
        for sha256 in _list_documents(message)
        if sha256 not in taken
    ]


def _list_documents(message: RemoteMessage) -> list[str]:
    if message.is_draft or _IGNORED_FOLDERS & set(message.keys):
        return []
    return [
        each.sha256 for each in message.attachments if message.is_pdf(each) and each.size <= _LARGEST_DOCUMENT
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
