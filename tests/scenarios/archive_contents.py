"""The contents of archives, read without Postroom: a disk, a bucket of Amazon's, a bucket of Google's.

Each gives the settings that name it and a function from a path to the bytes and the metadata there.
"""

import json
from contextlib import contextmanager
from importlib import import_module

import amazon
import google_storage


@contextmanager
def on_disk(home, _monkeypatch):
    def read_archived(path):
        place = home / path
        return place.read_bytes(), json.loads(place.with_name(place.name + ".metadata.json").read_text())

    yield {}, read_archived


@contextmanager
def on_s3(_home, monkeypatch):
    for name, value in amazon.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with amazon.server() as url:
        client = import_module("boto3").client("s3", endpoint_url=url)
        client.create_bucket(Bucket="kept", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})

        def read_archived(path):
            found = client.get_object(Bucket="kept", Key=path)
            return found["Body"].read(), found["Metadata"]

        yield {"archive": "s3://kept", "archive_endpoint": url}, read_archived
        assert all(
            each["Key"].startswith("archive/") for each in client.list_objects(Bucket="kept")["Contents"]
        )


@contextmanager
def on_gcs(_home, _monkeypatch):
    with google_storage.server() as url:
        bucket = google_storage.client(url).create_bucket("kept")

        def read_archived(path):
            name = f"of/postroom/{path}"
            # Not by the link that the emulator returns, in which a sender's %40 is no longer a %40.
            return bucket.blob(name).download_as_bytes(), bucket.get_blob(name).metadata

        yield {"archive": "gs://kept/of/postroom", "archive_endpoint": url}, read_archived
        assert len([*bucket.list_blobs()]) == 3
