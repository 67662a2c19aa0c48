"""One contract, three stores: a directory, a bucket of moto's S3, a bucket of an emulator of Google's."""

import json
import os
from uuid import uuid4

import pytest

import amazon
import google_storage
from postroom.blobs import DiskBlobStore, gcs, s3
from postroom.blobs.disk_archive import DiskArchive


@pytest.fixture(scope="session")
def moto():
    with amazon.server() as url:
        yield url


@pytest.fixture(scope="session")
def google():
    with google_storage.server() as url:
        yield url


@pytest.fixture
def aws(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in amazon.CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_blobs(moto, aws):
    import boto3

    bucket = f"blobs-{uuid4().hex}"
    client = boto3.client("s3", endpoint_url=moto)
    client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return s3.connect(bucket, "mail/kept", moto)


@pytest.fixture
def gcs_blobs(google):
    bucket = f"blobs-{uuid4().hex}"
    google_storage.client(google).create_bucket(bucket)
    return gcs.connect(bucket, "mail/kept", google, None)


@pytest.fixture(params=["disk", "s3", "gcs"])
def blobs(request, tmp_path):
    if request.param == "disk":
        return DiskBlobStore(tmp_path / "blobs")
    return request.getfixturevalue(f"{request.param}_blobs")


@pytest.fixture
def disk_archive(tmp_path):
    return DiskArchive(tmp_path / "kept")


@pytest.fixture(params=["disk_archive", "s3_blobs", "gcs_blobs"])
def archive(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def stored_metadata(archive, request):
    """The metadata of an object, read without Postroom."""

    def disk(path):
        return json.loads((archive.root / f"{path}.metadata.json").read_text())

    def s3(path):
        import boto3

        bucket, _, prefix = archive._place.removeprefix("s3://").partition("/")
        client = boto3.client("s3", endpoint_url=request.getfixturevalue("moto"))
        return client.head_object(Bucket=bucket, Key=f"{prefix}/{path}")["Metadata"]

    def gcs(path):
        blob = archive._bucket.get_blob(f"{archive._prefix}{path}")
        return blob.metadata

    return {"DiskArchive": disk, "S3BlobStore": s3, "GcsBlobStore": gcs}[type(archive).__name__]
