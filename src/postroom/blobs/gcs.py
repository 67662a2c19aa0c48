"""Blobs in a bucket of Google Cloud Storage. Its library is synchronous and runs in threads.

The library's errors become ours here and nowhere else; their words stay out, since they quote whole answers.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from postroom.blobs.object_names import object_name, parse_digest
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
    """The store in a bucket, with the key of a service account, else with what this machine may do."""
    try:
        storage: Any = import_module("google.cloud.storage")
        auth: Any = import_module("google.auth")
        accounts: Any = import_module("google.oauth2.service_account")
        anonymous: Any = import_module("google.auth.credentials")
    except ImportError:
        raise SettingsError(
            "POSTROOM_BLOBS=gs://… needs the library google-cloud-storage. Run `pip install postroom[gcs]`."
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
            f"POSTROOM_BLOBS=gs://… finds no credentials ({type(error).__name__})."
            " Set POSTROOM_GCS_CREDENTIALS_FILE to the key of a service account."
        ) from None
    options = {"api_endpoint": endpoint} if endpoint else None
    client = storage.Client(project="postroom", credentials=credentials, client_options=options)
    patience = storage.retry.DEFAULT_RETRY.with_timeout(retry_seconds)
    return GcsBlobStore(client.bucket(bucket), f"gs://{bucket}/{prefix}".rstrip("/"), prefix, patience)


class GcsBlobStore:
    def __init__(self, bucket: Any, place: str, prefix: str, patience: Any) -> None:
        self._bucket = bucket
        self._place = place
        self._prefix = f"{prefix}/" if prefix else ""
        self._limits = {"timeout": TIMEOUT_SECONDS, "retry": patience}
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
        return OperatorError(f"{self._place} is in no such bucket. Create it, or correct POSTROOM_BLOBS.")

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        async with spool(content) as given:
            created = await self.find(organization, given.sha256) is None
            if created:
                file = given.file if given.file is not None else BytesIO(given.content or b"")
                try:
                    await self._call(
                        lambda: self._upload(self._blob(organization, given.sha256), file, given.size)
                    )
                except _GcsObjectExists:
                    created = False
            return Blob(given.sha256, given.size, created=created)

    def _upload(self, blob: Any, file: Any, size: int) -> None:
        """Only where no object has the name; large ones in parts."""
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
        found = await self.find(organization, sha256)
        if found is None:
            raise NotFound("the bytes of a blob are missing from the bucket")
        stop = found.size if end is None else min(end, found.size)
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

    async def every(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        pages = iter(self._listed(f"{self._prefix}{organization}/").pages)
        while (page := await self._call(lambda: next(pages, None))) is not None:
            for blob in page:
                digest = parse_digest(blob.name)
                if digest is not None:
                    yield StoredBlob(digest, blob.size, blob.updated)

    async def put_once(self, path: str, content: bytes, metadata: Mapping[str, str]) -> None:
        """As an archive: by path, with metadata. The bucket refuses a path that is taken."""
        blob = self._bucket.blob(f"{self._prefix}{path}")
        if await self._call(lambda: blob.exists(**self._limits)):
            return
        blob.metadata = dict(metadata)
        try:
            await self._call(lambda: self._upload(blob, BytesIO(content), len(content)))
        except _GcsObjectExists:
            return

    async def listing(self) -> list[WatchedFile]:
        """As a watched folder: every object below the prefix."""
        found = await self._call(lambda: list(self._listed(self._prefix)))
        return [
            WatchedFile(
                blob.name.removeprefix(self._prefix),
                str(blob.generation),
                blob.size,
                generation=str(blob.generation),
                modified_at=blob.updated,
            )
            for blob in found
            if not blob.name.endswith("/")
        ]

    async def read_file(self, file: WatchedFile) -> bytes:
        blob = self._bucket.blob(f"{self._prefix}{file.name}")
        await self._call(lambda: blob.reload(**self._limits))
        if str(blob.generation) != file.version:
            raise NotFound("the object is another one now")
        return await self._call(lambda: blob.download_as_bytes(raw_download=True, **self._limits))

    async def fetch(self, path: str) -> bytes:
        blob = self._bucket.blob(f"{self._prefix}{path}")
        return await self._call(lambda: blob.download_as_bytes(raw_download=True, **self._limits))

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
                f"{self._place} refuses Postroom's credentials."
                " Give its service account the role Storage Object Admin on the bucket."
            ) from None
        except (self._errors.GoogleAPIError, self._transport.RequestException) as error:
            raise TransientError(f"the bucket did not answer ({type(error).__name__})") from None


class _GcsObjectExists(Exception):
    """The bucket has the object already."""
