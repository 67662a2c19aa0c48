"""Build what stores files from the settings: the blob store, the archive, watched folders, buckets."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from postroom.blobs import DiskBlobStore
from postroom.config import Settings
from postroom.documents.pipelines import Pipelines
from postroom.flow.storage.sender_quota import SenderQuota
from postroom.flow.storage.storage_limit import LimitedBlobStore
from postroom.ports import Archive, BlobStore, WatchedFolder
from postroom.store.database import Database
from postroom.store.embedded import default_home

if TYPE_CHECKING:
    from postroom.blobs.gcs import GcsBlobStore
    from postroom.blobs.s3 import S3BlobStore


def build_blob_store(settings: Settings) -> BlobStore:
    if settings.blobs == "disk":
        return DiskBlobStore((settings.home or default_home()) / "blobs")
    return open_bucket(settings, settings.blobs, settings.blobs_endpoint)


def build_limited_blob_store(settings: Settings, database: Database) -> BlobStore:
    """The blob store for new files of organizations, with the limit of the settings."""
    store = build_blob_store(settings)
    if settings.organization_storage_gb is None:
        return store
    return LimitedBlobStore(store, database, int(settings.organization_storage_gb * 1e9))


def build_sender_quota(settings: Settings, database: Database) -> SenderQuota | None:
    if settings.sender_storage_gb is None:
        return None
    return SenderQuota(database, int(settings.sender_storage_gb * 1e9))


def build_archive(settings: Settings) -> Archive | None:
    """The final place of documents: the local disk, a bucket, or none."""
    if settings.archive == "none":
        return None
    if settings.archive == "disk":
        from postroom.blobs.disk_archive import DiskArchive

        return DiskArchive(settings.home or default_home())
    return open_bucket(settings, settings.archive, settings.archive_endpoint)


def build_watched_folders(settings: Settings, pipelines: Pipelines) -> Mapping[str, WatchedFolder]:
    """The watched folder or bucket of each pipeline that has one, by the pipeline's name."""
    from postroom.blobs.watched_folders import BucketFolder, DiskFolder

    locations = {name: pipeline.watch for name, pipeline in pipelines.items() if pipeline.watch is not None}
    return {
        name: DiskFolder(Path(location))
        if location.startswith("/")
        else BucketFolder(open_bucket(settings, location, settings.blobs_endpoint))
        for name, location in locations.items()
    }


def open_bucket(settings: Settings, url: str, endpoint: str | None) -> "S3BlobStore | GcsBlobStore":
    """The bucket of an `s3://` or `gs://` URL, for blobs, the archive or a watched folder."""
    scheme, _, rest = url.partition("://")
    name, _, prefix = rest.partition("/")
    if scheme == "s3":
        from postroom.blobs import s3

        return s3.connect(name, prefix, endpoint)
    from postroom.blobs import gcs

    return gcs.connect(name, prefix, endpoint, settings.gcs_credentials_file)
