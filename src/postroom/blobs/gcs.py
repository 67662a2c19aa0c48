"""A Google Cloud Storage bucket as blob store, archive and watched folder.

Its library is synchronous and runs in threads. The library's errors are translated here. Their messages are
dropped: they quote whole responses.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from postroom.blobs.object_names import CLOCK, object_name, parse_digest
from postroom.blobs.spool import spool
from postroom.errors import NotFound, OperatorError, SettingsError, TransientError
from postroom.model import OrganizationId
from postroom.ports import Blob, Content, StoredBlob, WatchedFile

PIECE_BYTES: Final = 1 << 20
PAGE: Final = 1000
TIMEOUT_SECONDS: Final = (5, 60)
Result = TypeVar("Result")


def connect(
    bucket: str,
    prefix: str,
    endpoint: str | None,
    credentials_file: Path | None,
    *,
    retry_seconds: float = 30,
) -> "GcsBlobStore":
    """Open a bucket with the key of a service account, or else with the machine's own credentials."""
    try:
        storage: Any = import_module("google.cloud.storage")
        auth: Any = import_module("google.auth")
        accounts: Any = import_module("google.oauth2.service_account")
        anonymous: Any = import_module("google.auth.credentials")
    except ImportError:
        raise SettingsError(
            "gs://… requires google-cloud-storage. Run `pip install 'postroom[gcs]'`."
        ) from None
    try:
        if credentials_file is not None:
            credentials = accounts.Credentials.from_service_account_file(
                str(credentials_file), scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
            )
        elif endpoint is not None:
            credentials = anonymous.AnonymousCredentials()
        else:
            credentials, _ = auth.default()
    except (OSError, ValueError, auth.exceptions.GoogleAuthError) as error:
        raise SettingsError(
            f"No Google credentials were found for gs://{bucket} ({type(error).__name__})."
            " Set POSTROOM_GCS_CREDENTIALS_FILE to the key of a service account."
        ) from None
    options = {"api_endpoint": endpoint} if endpoint else None
    client = storage.Client(project="postroom", credentials=credentials, client_options=options)
    retry = storage.retry.DEFAULT_RETRY.with_timeout(retry_seconds)
    return GcsBlobStore(client.bucket(bucket), f"gs://{bucket}/{prefix}".rstrip("/"), prefix, retry)


class GcsBlobStore:
    def __init__(self, bucket: Any, place: str, prefix: str, retry: Any) -> None:
        self._bucket = bucket
        self._place = place
        self._prefix = f"{prefix}/" if prefix else ""
        self._limits = {"timeout": TIMEOUT_SECONDS, "retry": retry}
        self._errors: Any = import_module("google.api_core.exceptions")
        self._auth_errors: Any = import_module("google.auth.exceptions")
        self._transport: Any = import_module("requests.exceptions")

    async def check(self) -> str:
        try:
            await self._call(lambda: list(self._listed(f"{self._prefix}none", most=1)))
        except NotFound:
            raise self._no_bucket() from None
        return self._place

    def _no_bucket(self) -> OperatorError:
        return OperatorError(
            f"The bucket of {self._place} does not exist. Create it, or correct its URL in the settings."
        )

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        async with spool(content) as spooled:
            created = await self.find(organization, spooled.sha256) is None
            if created:
                file = spooled.file if spooled.file is not None else BytesIO(spooled.content or b"")
                try:
                    await self._call(
                        lambda: self._upload(self._blob(organization, spooled.sha256), file, spooled.size)
                    )
                except _GcsObjectExists:
                    created = False
            return Blob(spooled.sha256, spooled.size, created=created)

    def _upload(self, blob: Any, file: Any, size: int) -> None:
        """Upload unless an object of the name exists; large objects in parts."""
        try:
            blob.upload_from_file(
                file,
                size=size,
                content_type="application/octet-stream",
                if_generation_match=0,
                **self._limits,
                checksum="auto",
            )
        except self._errors.PreconditionFailed:
            raise _GcsObjectExists from None
        except self._errors.NotFound:
            raise self._no_bucket() from None

    async def read(
        self, organization: OrganizationId, sha256: bytes, *, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes]:
        stored = await self.find(organization, sha256)
        if stored is None:
            raise NotFound("the bytes of a blob are missing in the bucket")
        stop = stored.size if end is None else min(end, stored.size)
        blob = self._blob(organization, sha256)
        while start < stop:
            last = min(start + PIECE_BYTES, stop) - 1
            yield await self._call(lambda first=start, last=last: self._piece(blob, first, last))
            start = last + 1

    def _piece(self, blob: Any, first: int, last: int) -> bytes:
        return blob.download_as_bytes(start=first, end=last, raw_download=True, **self._limits, checksum=None)

    async def find(self, organization: OrganizationId, sha256: bytes) -> StoredBlob | None:
        blob = self._blob(organization, sha256)
        try:
            await self._call(lambda: blob.reload(**self._limits))
        except NotFound:
            return None
        return StoredBlob(sha256, blob.size, blob.updated)

    async def delete(self, organization: OrganizationId, sha256: bytes) -> None:
        blob = self._blob(organization, sha256)
        try:
            await self._call(lambda: blob.delete(**self._limits))
        except NotFound:
            return

    async def list_all(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        pages = iter(self._listed(f"{self._prefix}{organization}/").pages)
        while (page := await self._call(lambda: next(pages, None))) is not None:
            for blob in page:
                digest = parse_digest(blob.name)
                if digest is not None:
                    yield StoredBlob(digest, blob.size, blob.updated)

    async def get_time(self) -> datetime:
        blob = self._bucket.blob(f"{self._prefix}{CLOCK}")
        await self._call(lambda: blob.upload_from_string(b"", **self._limits))
        await self._call(lambda: blob.reload(**self._limits))
        return blob.updated

    async def put_once(self, path: str, content: bytes, metadata: Mapping[str, str]) -> None:
        """For an archive: by path, with metadata. The bucket rejects an existing path."""
        blob = self._bucket.blob(f"{self._prefix}{path}")
        if await self._call(lambda: blob.exists(**self._limits)):
            return
        blob.metadata = dict(metadata)
        try:
            await self._call(lambda: self._upload(blob, BytesIO(content), len(content)))
        except _GcsObjectExists:
            return

    async def list_files(self) -> list[WatchedFile]:
        """For a watched folder: all objects below the prefix."""
        blobs = await self._call(lambda: list(self._listed(self._prefix)))
        return [
            WatchedFile(
                blob.name.removeprefix(self._prefix),
                str(blob.generation),
                blob.size,
                generation=str(blob.generation),
                modified_at=blob.updated,
            )
            for blob in blobs
            if not blob.name.endswith("/")
        ]

    async def read_file(self, file: WatchedFile) -> bytes:
        blob = self._bucket.blob(f"{self._prefix}{file.name}")
        await self._call(lambda: blob.reload(**self._limits))
        if str(blob.generation) != file.version:
            raise NotFound("the object has changed")
        return await self._call(lambda: blob.download_as_bytes(raw_download=True, **self._limits))

    async def fetch(self, path: str) -> bytes:
        blob = self._bucket.blob(f"{self._prefix}{path}")
        return await self._call(lambda: blob.download_as_bytes(raw_download=True, **self._limits))

    async def remove(self, path: str) -> None:
        blob = self._bucket.blob(f"{self._prefix}{path}")
        try:
            await self._call(lambda: blob.delete(**self._limits))
        except NotFound:
            return

    def _blob(self, organization: OrganizationId, digest: bytes) -> Any:
        return self._bucket.blob(f"{self._prefix}{object_name(organization, digest)}")

    def _listed(self, prefix: str, *, most: int | None = None) -> Any:
        return self._bucket.client.list_blobs(
            self._bucket, prefix=prefix, max_results=most, page_size=PAGE, **self._limits
        )

    async def _call(self, act: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(act)
        except self._errors.NotFound as error:
            raise NotFound("the bucket has no such object") from error
        except (self._errors.Forbidden, self._errors.Unauthorized, self._auth_errors.GoogleAuthError):
            raise OperatorError(
                f"{self._place} rejects Postroom's credentials."
                " Give its service account the role Storage Object Admin on the bucket."
            ) from None
        except (self._errors.GoogleAPIError, self._transport.RequestException) as error:
            raise TransientError(f"the bucket did not respond ({type(error).__name__})") from None


class _GcsObjectExists(Exception):
    """The bucket already has the object."""
