"""From settings to the parts that read, route and archive documents. What reads is imported when wanted."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from postroom import traces
from postroom.config import Settings
from postroom.documents import kind, pipelines
from postroom.documents.kind import Kind as DocumentKind
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.transcript import Reading
from postroom.flow import archive, process, share, unpack
from postroom.flow.archive import Archiving
from postroom.flow.process import Processing
from postroom.flow.review import Reviewing
from postroom.flow.route import Identity, Routing
from postroom.flow.share import Sharing
from postroom.flow.unpack import Unpacking
from postroom.ports import Archive, RemoteMailbox
from postroom.store.database import Database
from postroom.store.embedded import default_home
from postroom.store.mailboxes import Mailbox
from postroom.wiring import Kind, blobs, bucket

if TYPE_CHECKING:
    from postroom.documents.isolation import Readers
    from postroom.documents.understand import FieldReader
    from postroom.documents.understood import Understood


def declared(settings: Settings) -> Pipelines:
    """The pipelines of this Postroom."""
    return pipelines.load(settings.pipelines, kinds=kind.installed())


def reviewing(settings: Settings) -> Reviewing:
    return Reviewing(routing(settings), declared(settings))


def routing(settings: Settings) -> Routing:
    identities = {
        name: Identity(
            each.needed,
            each.identity,
            each.key,
            {field: declared_.shape for field, declared_ in each.fields.items()},
        )
        for name, each in kind.installed().items()
    }
    return Routing(identities, archives=settings.archive != "none")


def archive_of(settings: Settings) -> Archive | None:
    """Where documents are put for good: on this machine's disk, in a bucket, or nowhere."""
    if settings.archive == "none":
        return None
    if settings.archive == "disk":
        from postroom.blobs.shelves import DiskArchive

        return DiskArchive(settings.home or default_home())
    return bucket(settings, settings.archive, settings.archive_endpoint)


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
        understand=partial(_understand, kind.installed(), _field_reader(settings)),
        routing=routing(settings),
        max_attempts=settings.max_attempts,
        sharing=sharing if any(each.shared_state for each in declared_.values()) else None,
    )
    found = {
        # The step itself counts the attempts: a document that ends its worker must be told as failed.
        process.KIND: Kind(partial(process.run, processing), None),
        share.KIND: Kind(partial(share.run, sharing), None),
        unpack.KIND: Kind(partial(unpack.run, Unpacking(database, kept, declared_)), settings.max_attempts),
    }
    if (archived := archive_of(settings)) is not None:
        found[archive.KIND] = Kind(partial(archive.run, Archiving(database, kept, archived)), None)
    return found


def _field_reader(settings: Settings) -> "FieldReader":
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


async def _understand(
    kinds: Mapping[str, DocumentKind], field_reader: "FieldReader", reading: Reading, pipeline: Pipeline
) -> "Understood":
    from postroom.documents import understood
    from postroom.documents.understand import understand_with

    with traces.span("understand", {"postroom.pipeline": pipeline.name}):
        found = await understand_with(field_reader, reading, [kinds[pipeline.kind]])
    return understood.kept(found, pipeline.kind, reading.transcript)
