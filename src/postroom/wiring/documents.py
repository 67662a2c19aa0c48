"""Build what documents need from the settings: pipelines, routing, language model, queue, work handlers."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from postroom.config import Settings
from postroom.documents import pipelines as pipeline_file
from postroom.documents.kinds import kind_registry
from postroom.documents.pipelines import Pipelines
from postroom.engine import Engine, WorkHandler
from postroom.flow.documents import archive, process, shared_state, unpack, watch
from postroom.flow.documents.archive import ArchiveContext
from postroom.flow.documents.extraction import ExtractionContext
from postroom.flow.documents.process import ProcessDocumentContext
from postroom.flow.documents.route import RecordIdentity, RouteContext
from postroom.flow.documents.shared_state import SharedStateContext
from postroom.flow.documents.unpack import UnpackContext
from postroom.flow.documents.value_checks import ReviewContext
from postroom.flow.documents.watch import WatchContext
from postroom.model import WorkKind
from postroom.ports import WatchedFolder
from postroom.wiring import storage

if TYPE_CHECKING:
    from postroom.documents.fields.llm_reader import LanguageModel
    from postroom.documents.sandbox.file_sandbox import FileSandbox
    from postroom.sqs import SqsQueue


def load_pipelines(settings: Settings) -> Pipelines:
    """The pipelines of the operator's file. Raises SettingsError if the other settings contradict it."""
    pipelines = pipeline_file.load(settings.pipelines, kinds=kind_registry.list_installed())
    pipeline_file.require_archive(
        pipelines, has_disk_blobs=settings.blobs == "disk", has_archive=settings.archive != "none"
    )
    return pipelines


def build_review_context(settings: Settings, pipelines: Pipelines) -> ReviewContext:
    return ReviewContext(build_route_context(settings), pipelines)


def build_route_context(settings: Settings) -> RouteContext:
    kinds = kind_registry.list_installed()
    identities = {name: RecordIdentity.of_kind(kind) for name, kind in kinds.items()}
    return RouteContext(identities, kinds, archives=settings.archive != "none")


def build_queue(settings: Settings) -> "SqsQueue | None":
    """The queue that dispatches documents to workers; None if the database itself does."""
    if settings.queue == "postgres":
        return None
    from postroom import sqs

    return sqs.connect(settings.queue.removeprefix("sqs:"))


def open_language_model(settings: Settings) -> "AbstractAsyncContextManager[LanguageModel | None]":
    """The language model of this process, if one is configured."""
    from postroom.documents.fields import llm_reader

    return llm_reader.open_language_model(
        settings.llm,
        key=settings.llm_key,
        base_url=settings.llm_base_url,
        usd_per_day=settings.llm_usd_per_day,
        timeout_seconds=settings.llm_timeout_seconds,
    )


def build_handlers(
    engine: Engine,
    sandbox: "FileSandbox",
    folders: Mapping[str, WatchedFolder],
    language_model: "LanguageModel | None" = None,
) -> Mapping[WorkKind, WorkHandler]:
    """The handlers of document work, for a process that has a file sandbox."""
    settings, database, blobs, pipelines = engine.settings, engine.database, engine.blobs, engine.pipelines
    sharing = SharedStateContext(database, pipelines, engine.remote, archives=settings.archive != "none")
    extracting = ExtractionContext(kind_registry.list_installed(), language_model, sandbox, database)
    processing = ProcessDocumentContext(
        database=database,
        blobs=blobs,
        pipelines=pipelines,
        extracting=extracting,
        routing=engine.review.routing,
        max_attempts=settings.max_attempts,
        sharing=sharing if any(pipeline.shared_state for pipeline in pipelines.values()) else None,
    )
    watching = WatchContext(database, blobs, pipelines, folders, sandbox)
    unpacking = UnpackContext(database, blobs, pipelines, sandbox)
    handlers = {
        # The step counts its own attempts: a document that kills its worker must end as failed.
        WorkKind.PROCESS_DOCUMENT: WorkHandler(partial(process.run, processing)),
        WorkKind.SHARE_STATE: WorkHandler(partial(shared_state.run, sharing)),
        WorkKind.WATCH_FOLDER: WorkHandler(partial(watch.run, watching)),
        WorkKind.UNPACK: WorkHandler(partial(unpack.run, unpacking), settings.max_attempts),
    }
    if (final_store := storage.build_archive(settings)) is not None:
        archiving = ArchiveContext(database, blobs, final_store)
        handlers[WorkKind.ARCHIVE] = WorkHandler(partial(archive.run, archiving))
    return handlers
