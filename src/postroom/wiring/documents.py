"""From settings to the parts that read, route and archive documents. What reads is imported when wanted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postroom import traces
from postroom.config import Settings
from postroom.documents import kind, pipelines, tables
from postroom.documents.kind import Kind as DocumentKind
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.transcript import Reading
from postroom.errors import SettingsError
from postroom.flow.documents import archive, process, shared_state, unpack, watch
from postroom.flow.documents.archive import Archiving
from postroom.flow.documents.process import Processing
from postroom.flow.documents.review import Reviewing
from postroom.flow.documents.route import Identity, Routing
from postroom.flow.documents.shared_state import Sharing
from postroom.flow.documents.unpack import Unpacking
from postroom.flow.documents.watch import Watching
from postroom.model import OrganizationId
from postroom.ports import Archive, Folder, RemoteMailbox
from postroom.store import records
from postroom.store.database import Database
from postroom.store.embedded import default_home
from postroom.store.mailboxes import Mailbox
from postroom.wiring import Kind, blobs, bucket

if TYPE_CHECKING:
    from postroom.documents.isolation import Readers
    from postroom.documents.llm import SpentToday
    from postroom.documents.understand import FieldReader, File
    from postroom.documents.understood import Understood
    from postroom.sqs import SqsQueue

# What a language model is shown of a document that it does not take as it is: enough for small print.
PAGES_SHOWN: Final = 4
PAGE_WIDTH: Final = 1400


def declared(settings: Settings) -> Pipelines:
    """The pipelines of this Postroom."""
    found = pipelines.load(settings.pipelines, kinds=kind.installed())
    for each in found.values():
        if each.keep == "archive" and (
            settings.blobs != "disk" or not each.archive or settings.archive == "none"
        ):
            raise SettingsError(
                f'The pipeline {each.name} says keep = "archive": its bytes stay on this machine until they'
                " are archived. Set POSTROOM_BLOBS=disk, name an archive with POSTROOM_ARCHIVE, and let the"
                " pipeline's `archive` be true."
            )
    return found


def reviewing(settings: Settings) -> Reviewing:
    return Reviewing(routing(settings), declared(settings))


def routing(settings: Settings) -> Routing:
    identities = {
        name: Identity(
            each.needed,
            each.identity,
            each.key,
            {field: declared_.shape for field, declared_ in each.fields.items()},
            {field: list(declared_.choices) for field, declared_ in each.fields.items() if declared_.choices},
            each.instead,
            each.apart,
            tables.columns_of(each),
        )
        for name, each in kind.installed().items()
    }
    return Routing(identities, archives=settings.archive != "none")


def queue_of(settings: Settings) -> "SqsQueue | None":
    """What tells workers of documents, where it is not the database itself."""
    if settings.queue == "postgres":
        return None
    from postroom import sqs

    return sqs.connect(settings.queue.removeprefix("sqs:"))


def archive_of(settings: Settings) -> Archive | None:
    """Where documents are put for good: on this machine's disk, in a bucket, or nowhere."""
    if settings.archive == "none":
        return None
    if settings.archive == "disk":
        from postroom.blobs.disk_archive import DiskArchive

        return DiskArchive(settings.home or default_home())
    return bucket(settings, settings.archive, settings.archive_endpoint)


def watching(settings: Settings) -> Mapping[str, Folder]:
    """What is watched, by pipeline."""
    from postroom.blobs.folders import BucketFolder, DiskFolder

    places = {name: each.watch for name, each in declared(settings).items() if each.watch is not None}
    return {
        name: DiskFolder(Path(place))
        if place.startswith("/")
        else BucketFolder(bucket(settings, place, settings.blobs_endpoint))
        for name, place in places.items()
    }


def kinds(
    settings: Settings,
    database: Database,
    readers: "Readers",
    remote: Callable[[Mailbox], RemoteMailbox],
) -> Mapping[str, Kind]:
    """The work that documents are."""
    declared_, kept = declared(settings), blobs(settings)
    sharing = Sharing(database, declared_, remote, archives=settings.archive != "none")
    processing = Processing(
        database=database,
        blobs=kept,
        pipelines=declared_,
        read=partial(_read, readers),
        understand=Understanding(kind.installed(), field_reader(settings), readers, database),
        routing=routing(settings),
        max_attempts=settings.max_attempts,
        sharing=sharing if any(each.shared_state for each in declared_.values()) else None,
    )
    found = {
        # The step itself counts the attempts: a document that ends its worker must be told as failed.
        process.KIND: Kind(partial(process.run, processing), None),
        shared_state.KIND: Kind(partial(shared_state.run, sharing), None),
        watch.KIND: Kind(partial(watch.run, Watching(database, kept, declared_, watching(settings))), None),
        unpack.KIND: Kind(partial(unpack.run, Unpacking(database, kept, declared_)), settings.max_attempts),
    }
    if (archived := archive_of(settings)) is not None:
        found[archive.KIND] = Kind(partial(archive.run, Archiving(database, kept, archived)), None)
    return found


def field_reader(settings: Settings) -> "Callable[[SpentToday], FieldReader]":
    from postroom.documents import llm

    return llm.field_reader(
        settings.llm,
        key=settings.llm_key,
        base_url=settings.llm_base_url,
        usd_per_day=settings.llm_usd_per_day,
        timeout_seconds=settings.llm_timeout_seconds,
    )


async def _read(readers: "Readers", content: bytes) -> Reading:
    with traces.span("read"):
        return await readers.read(content)


def shown(readers: "Readers", reading: Reading, content: bytes) -> "File | None":
    """What a reader may look at itself, where the file has pages."""
    from postroom.documents.detect import Kind as FileKind
    from postroom.documents.detect import detect
    from postroom.documents.understand import File

    async def pages() -> list[bytes]:
        first = enumerate(reading.transcript.pages[:PAGES_SHOWN])
        return [
            await readers.page_image(content, page=number, width=PAGE_WIDTH, turned=page.turned)
            for number, page in first
        ]

    media_type = detect(content).kind
    is_paged = media_type in {FileKind.PDF, FileKind.TIFF, FileKind.PNG, FileKind.JPEG}
    return File(media_type, content, pages) if is_paged else None


@dataclass(frozen=True)
class Understanding:
    """Understands documents with the reader that is set, at the cost of the organization that owns them."""

    kinds: Mapping[str, DocumentKind]
    field_reader: "Callable[[SpentToday], FieldReader]"
    readers: "Readers"
    database: Database

    async def __call__(
        self, reading: Reading, pipeline: Pipeline, content: bytes, organization: OrganizationId
    ) -> "Understood":
        from postroom.documents import understood
        from postroom.documents.understand import understand_with

        async def spent_today() -> float:
            async with self.database.transaction(organization) as connection:
                return await records.spent_today(connection)

        file = shown(self.readers, reading, content)
        with traces.span("understand", {"postroom.pipeline": pipeline.name}):
            reader = self.field_reader(spent_today)
            found = await understand_with(reader, reading, [self.kinds[pipeline.kind]], file=file)
        return understood.kept(found, pipeline.kind, reading.transcript)
