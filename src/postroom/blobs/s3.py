"""A bucket of S3 or a compatible service as blob store, archive and watched folder.

Uses obstore with boto3's credentials. The library's errors are translated here. Their messages are dropped:
they quote whole responses.
"""

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from typing import Any, Final

from postroom.blobs.object_names import CLOCK, object_name, parse_digest
from postroom.blobs.spool import IN_MEMORY_BYTES, spool
from postroom.errors import NotFound, OperatorError, PostroomError, SettingsError, TransientError
from postroom.model import OrganizationId
from postroom.ports import Blob, Content, StoredBlob, WatchedFile

PIECE_BYTES: Final = 1 << 20
PART_BYTES: Final = 8 << 20
_DENIED: Final = frozenset({"PermissionDeniedError", "UnauthenticatedError"})


def connect(bucket: str, prefix: str, endpoint: str | None, *, retries: int = 3) -> "S3BlobStore":
    """Open a bucket. Region and credentials come from the usual AWS configuration."""
    try:
        boto3: Any = import_module("boto3")
        store: Any = import_module("obstore.store")
        auth: Any = import_module("obstore.auth.boto3")
    except ImportError:
        raise SettingsError(
            "s3://… requires the libraries obstore and boto3. Run `pip install 'postroom[aws]'`."
        ) from None
    session = boto3.session.Session()
    if session.get_credentials() is None:
        raise SettingsError(
            f"No AWS credentials were found for s3://{bucket}. Set AWS_PROFILE, or give this machine a role."
        )
    if session.region_name is None and endpoint is None:
        raise SettingsError(f"s3://{bucket} requires a region. Set AWS_REGION, such as eu-west-1.")
    options: dict[str, Any] = {"timeout": "60s", "connect_timeout": "5s"}
    if endpoint is not None and endpoint.startswith("http://"):
        options["allow_http"] = True
    opened = store.S3Store(
        bucket,
        prefix=prefix or None,
        endpoint=endpoint,
        region=session.region_name or "us-east-1",
        credential_provider=auth.Boto3CredentialProvider(session),
        client_options=options,
        retry_config={"max_retries": retries},
    )
    return S3BlobStore(opened, f"s3://{bucket}/{prefix}".rstrip("/"))


class S3BlobStore:
    def __init__(self, store: Any, place: str) -> None:
        self._store = store
        self._place = place
        self._obstore: Any = import_module("obstore")

    async def check(self) -> str:
        with self._errors():
            await self._store.list(prefix="none", chunk_size=1).collect_async()
        return self._place

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        async with spool(content) as spooled:
            name = object_name(organization, spooled.sha256)
            if spooled.content is not None and spooled.size <= IN_MEMORY_BYTES:
                created = await self._create(name, spooled.content)
            else:
                created = await self.find(organization, spooled.sha256) is None
                if created:
                    with self._errors():
                        await self._store.put_async(
                            name,
                            spooled.file if spooled.file is not None else spooled.content,
                            use_multipart=True,
                            chunk_size=PART_BYTES,
                            max_concurrency=2,
                        )
            return Blob(spooled.sha256, spooled.size, created=created)

    async def _create(self, name: str, content: bytes) -> bool:
        """Whether the object is new. Of concurrent writers the bucket accepts one; the bytes are the same."""
        try:
            with self._errors():
                await self._store.put_async(name, content, mode="create", use_multipart=False)
        except _S3ObjectExists:
            return False
        return True

    async def read(
        self, organization: OrganizationId, sha256: bytes, *, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes]:
        stored = await self.find(organization, sha256)
        if stored is None:
            raise NotFound("the bytes of a blob are missing in the bucket")
        stop = stored.size if end is None else min(end, stored.size)
        if start >= stop:
            return
        with self._errors():
            response = await self._store.get_async(
                object_name(organization, sha256), options={"range": (start, stop)}
            )
            async for piece in response.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    async def find(self, organization: OrganizationId, sha256: bytes) -> StoredBlob | None:
        try:
            with self._errors():
                meta = await self._store.head_async(object_name(organization, sha256))
        except NotFound:
            return None
        return StoredBlob(sha256, meta["size"], meta["last_modified"])

    async def delete(self, organization: OrganizationId, sha256: bytes) -> None:
        try:
            with self._errors():
                await self._store.delete_async(object_name(organization, sha256))
        except NotFound:
            return

    async def list_all(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        with self._errors():
            async for page in self._store.list(prefix=str(organization), chunk_size=1000):
                for meta in page:
                    digest = parse_digest(meta["path"])
                    if digest is not None:
                        yield StoredBlob(digest, meta["size"], meta["last_modified"])

    async def get_time(self) -> datetime:
        with self._errors():
            await self._store.put_async(CLOCK, b"", use_multipart=False)
            return (await self._store.head_async(CLOCK))["last_modified"]

    async def put_once(self, path: str, content: bytes, metadata: Mapping[str, str]) -> None:
        """For an archive: by path, with metadata. The bucket rejects an existing path."""
        try:
            with self._errors():
                await self._store.put_async(
                    path, content, attributes=dict(metadata), mode="create", use_multipart=False
                )
        except _S3ObjectExists:
            return

    async def list_files(self) -> list[WatchedFile]:
        """For a watched folder: all objects below the prefix."""
        with self._errors():
            return [
                WatchedFile(
                    entry["path"],
                    tag,
                    entry["size"],
                    generation=tag.strip('"'),
                    modified_at=entry["last_modified"],
                )
                async for page in self._store.list(chunk_size=1000)
                for entry in page
                for tag in [entry["e_tag"] or ""]
                if not entry["path"].endswith("/")
            ]

    async def read_file(self, file: WatchedFile) -> bytes:
        with self._errors():
            response = await self._store.get_async(file.name)
            if (response.meta["e_tag"] or "") != file.version:
                raise NotFound("the object has changed")
            return bytes(await response.bytes_async())

    async def fetch(self, path: str) -> bytes:
        with self._errors():
            response = await self._store.get_async(path)
            return bytes(await response.bytes_async())

    async def remove(self, path: str) -> None:
        try:
            with self._errors():
                await self._store.delete_async(path)
        except NotFound:
            return

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except PostroomError:
            raise
        except self._obstore.exceptions.AlreadyExistsError:
            raise _S3ObjectExists from None
        except (FileNotFoundError, self._obstore.exceptions.BaseError) as error:
            if "NoSuchBucket" in str(error):
                raise OperatorError(
                    f"The bucket of {self._place} does not exist."
                    " Create it, or correct its URL in the settings."
                ) from None
            if isinstance(error, FileNotFoundError):
                raise NotFound("the bucket has no such object") from None
            if type(error).__name__ in _DENIED:
                raise OperatorError(
                    f"{self._place} rejects Postroom's credentials."
                    " Allow s3:GetObject, PutObject, DeleteObject and ListBucket there."
                ) from None
            raise TransientError(f"the bucket did not respond ({type(error).__name__})") from None


class _S3ObjectExists(Exception):
    """The bucket already has the object."""
