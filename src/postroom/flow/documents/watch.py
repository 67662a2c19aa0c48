"""The work `watch_folder`: take in the files of a watched folder or bucket, each version once.

That a file was taken in is committed together with its documents, so a crash neither loses nor duplicates it.
On disk, a file is taken in when a second listing finds it unchanged: the first may see it half-written.
Sender and date come from path segments such as `sender_email=…` and `received_date=…`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.sandbox.file_limits import FILE_BYTES
from postroom.errors import NotFound, PermanentError, PostroomError
from postroom.flow.documents import upload
from postroom.flow.documents.upload import Upload
from postroom.logs import Log
from postroom.model import OrganizationId, StepResult, WorkKind
from postroom.ports import BlobStore, WatchedFile, WatchedFolder
from postroom.store import organizations, watched_files, work
from postroom.store.database import Database, repeat_hourly
from postroom.store.work import Lease, WorkRequest

if TYPE_CHECKING:
    from postroom.documents.sandbox.file_sandbox import FileSandbox

log = Log()
FOLDER_SENDER: Final = "folder@localhost"  # if the path names no sender
MAX_FILES_PER_RUN: Final = 50


@dataclass(frozen=True)
class WatchContext:
    database: Database
    blobs: BlobStore
    pipelines: Pipelines
    folders: Mapping[str, WatchedFolder]  # by pipeline
    sandbox: "FileSandbox"


async def keep_scheduled(database: Database, organization: OrganizationId, pipelines: Sequence[str]) -> None:
    """Ensure that every watched folder has its work, forever."""
    requests = [
        WorkRequest(organization, WorkKind.WATCH_FOLDER, f"{organization}/{pipeline}")
        for pipeline in pipelines
    ]

    async def schedule() -> None:
        if requests:
            async with database.transaction(organization) as connection:
                await organizations.ensure(connection, organization)
                await work.ensure_scheduled(connection, requests)

    await repeat_hourly(schedule)


async def run(context: WatchContext, lease: Lease) -> StepResult:
    """List the folder of one pipeline and take in what is ready."""
    name = lease.subject.partition("/")[2]
    pipeline, folder = context.pipelines.get(name), context.folders.get(name)
    if pipeline is None or folder is None:
        return StepResult()
    listed = {each.name: each for each in await folder.list_files()}
    ready = await _list_ready_files(context, lease, pipeline, folder, listed)
    for file in ready[:MAX_FILES_PER_RUN]:
        await _take_in(context, lease, pipeline, folder, file)
    return StepResult(again_after=0 if len(ready) > MAX_FILES_PER_RUN else pipeline.watch_seconds)


async def _list_ready_files(
    context: WatchContext,
    lease: Lease,
    pipeline: Pipeline,
    folder: WatchedFolder,
    listed: Mapping[str, WatchedFile],
) -> list[WatchedFile]:
    """List the files to take in now; remember new files and forget removed ones."""
    async with work.fenced_transaction(context.database, lease) as connection:
        known = {each.name: each for each in await watched_files.list_states(connection, pipeline.name)}
        new = [
            file
            for file in listed.values()
            if file.name not in known or known[file.name].version != file.version
        ]
        await watched_files.record_seen(connection, pipeline.name, new)
        await watched_files.remove_missing(connection, pipeline.name, sorted(known.keys() - listed.keys()))
    appeared = {file.name for file in new}
    return [
        file
        for file in listed.values()
        if (not folder.may_hold_partial_files if file.name in appeared else not known[file.name].is_done)
    ]


async def _take_in(
    context: WatchContext, lease: Lease, pipeline: Pipeline, folder: WatchedFolder, file: WatchedFile
) -> None:
    if file.size > FILE_BYTES:
        refused = f"it is larger than {FILE_BYTES:,} bytes"
    else:
        try:
            given = _to_upload(file, await folder.read(file))
            prepared = await upload.prepare(
                context.blobs, context.sandbox, lease.organization, pipeline, given
            )
            async with work.fenced_transaction(context.database, lease) as connection:
                await upload.commit(connection, lease.organization, prepared)
                await watched_files.record_outcome(connection, pipeline.name, file)
        except NotFound:
            return  # changed or removed meanwhile: the next run sees it
        except PermanentError as error:
            refused = str(error)
        except PostroomError:
            raise  # the other files would fail too: retry the whole run
        except Exception as error:  # noqa: BLE001  # a bug triggered by one file must not block the others
            log.warning("watch.file_failed", error=error)
            refused = f"it caused an unexpected error: {type(error).__name__}"
        else:
            return
    async with work.fenced_transaction(context.database, lease) as connection:
        await watched_files.record_outcome(connection, pipeline.name, file, rejection=refused)


def _to_upload(file: WatchedFile, content: bytes) -> Upload:
    path = PurePosixPath(file.name)
    attributes = dict(part.split("=", 1) for part in path.parts[:-1] if "=" in part)
    return Upload(
        name=unquote(path.name),
        content=content,
        sender=unquote(attributes.get("sender_email", "")) or FOLDER_SENDER,
        source="poller",
        received_at=_parse_day(attributes.get("received_date", "")) or file.modified_at,
        bucket_generation=file.generation,
    )


def _parse_day(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(unquote(text), "%Y-%m-%d").replace(tzinfo=UTC)
    return None
