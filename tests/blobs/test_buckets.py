"""Blobs in buckets: configuration, clear errors for what is missing, and who must act on an error."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from postroom import config
from postroom.blobs import DiskBlobStore, gcs, s3
from postroom.errors import OperatorError, SettingsError, TransientError
from postroom.wiring import storage

ORGANIZATION = uuid4()


def test_the_setting_chooses_the_store(tmp_path, aws, monkeypatch):
    monkeypatch.delenv("POSTROOM_TEST_BROWSER", raising=False)  # of the tests, not a setting

    def chosen(**given):
        return storage.build_blob_store(config.load(home=tmp_path, **given))

    assert isinstance(chosen(), DiskBlobStore)
    assert chosen().root == tmp_path / "blobs"
    assert isinstance(chosen(blobs="s3://my-bucket/a/b", blobs_endpoint="http://127.0.0.1:9"), s3.S3BlobStore)
    assert isinstance(chosen(blobs="gs://my-bucket", blobs_endpoint="http://127.0.0.1:9"), gcs.GcsBlobStore)


@pytest.mark.parametrize(
    "value", ["s3://", "s3:///x", "ftp://bucket", "/var/blobs", "s3://Bucket", "s3://b/../c d"]
)
def test_an_invalid_location_is_rejected(value):
    with pytest.raises(SettingsError, match="POSTROOM_BLOBS"):
        config.load(blobs=value)


def test_missing_credentials_are_a_settings_error(monkeypatch, aws):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SettingsError, match="No AWS credentials were found"):
        s3.connect("bucket", "", None)


def test_an_invalid_key_file_is_rejected(tmp_path):
    with pytest.raises(SettingsError, match="POSTROOM_GCS_CREDENTIALS_FILE"):
        gcs.connect("bucket", "", None, tmp_path / "missing.json")
    (tmp_path / "key.json").write_text("{}")
    with pytest.raises(SettingsError, match="POSTROOM_GCS_CREDENTIALS_FILE"):
        gcs.connect("bucket", "", None, tmp_path / "key.json")


async def test_a_missing_bucket_is_not_a_missing_blob(moto, google, aws):
    for blobs in (s3.connect("nowhere-to-be-found", "", moto), gcs.connect("nowhere", "", google, None)):
        with pytest.raises(OperatorError, match="does not exist"):
            await blobs.check()
        with pytest.raises(OperatorError, match="does not exist"):
            await blobs.put(ORGANIZATION, b"x")


async def test_a_bucket_that_does_not_respond_is_a_transient_error(aws):
    for blobs in (
        s3.connect("bucket", "", "http://127.0.0.1:9", retries=0),
        gcs.connect("bucket", "", "http://127.0.0.1:9", None, retry_seconds=0.1),
    ):
        with pytest.raises(TransientError):
            await blobs.put(ORGANIZATION, b"x")


async def test_objects_are_named_by_prefix_organization_and_digest(s3_blobs, gcs_blobs, moto):
    import boto3

    name = f"mail/kept/{ORGANIZATION}/{sha256(b'x').hexdigest()[:2]}/{sha256(b'x').hexdigest()}"
    await s3_blobs.put(ORGANIZATION, b"x")
    bucket = (await s3_blobs.check()).split("/")[2]
    listed = boto3.client("s3", endpoint_url=moto).list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in listed] == [name]
    await gcs_blobs.put(ORGANIZATION, b"x")
    assert [blob.name for blob in gcs_blobs._bucket.list_blobs()] == [name]


def test_cloud_libraries_are_imported_only_if_configured():
    code = (
        "import sys, postroom.wiring.engine, postroom.blobs;"
        "print([name for name in ('obstore', 'boto3', 'google.cloud.storage') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_library_is_named(monkeypatch):
    for name in ("obstore.store", "google.cloud.storage"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingsError, match=r"postroom\[aws\]"):
        s3.connect("bucket", "", None)
    with pytest.raises(SettingsError, match=r"postroom\[gcs\]"):
        gcs.connect("bucket", "", None, Path("/x"))
