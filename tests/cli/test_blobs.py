"""`postroom blobs`, and workers that reject another blob location (K3)."""

import json
from uuid import uuid4

import pytest

import databases
from postroom.blobs import DiskBlobStore
from postroom.store import blobs


@pytest.fixture
def run(postroom, database_url):
    return lambda *arguments, **settings: postroom(
        *arguments, **databases.login_settings(database_url), **settings
    )


@pytest.fixture
async def kept(database_url, organization, tmp_path):
    """Two blobs in the home; their paths."""
    store = DiskBlobStore(tmp_path / "home" / "blobs")
    async with databases.open_pools(
        databases.to_service(database_url), entry_macs=databases.build_home_macs(tmp_path / "home")
    ) as database:
        done = [await store.put(organization, content) for content in (b"one", b"two")]
        async with database.transaction(organization) as connection:
            await blobs.record(connection, organization, done)
    return [store._path(organization, each.sha256) for each in done]


def test_verify_accepts_intact_blobs_and_names_broken_ones(run, kept, organization):
    done = run("blobs", "verify")
    assert done.returncode == 0, done.stderr
    assert f"{organization}: intact. 2 blobs" in done.stdout
    kept[0].unlink()
    kept[1].write_bytes(b"TWO")
    done = run("blobs", "verify")
    assert done.returncode == 1
    assert f"missing  {kept[0].name}  unreferenced" in done.stdout
    assert f"changed  {kept[1].name}" in done.stdout
    done = run("blobs", "verify", "--json", "--organization", str(organization))
    (found,) = json.loads(done.stdout)
    assert {fault["what"] for fault in found["faults"]} == {"missing", "changed"}


def test_usage_shows_stored_bytes_and_the_limit(run, kept, organization):
    [found] = json.loads(run("blobs", "usage", "--json").stdout)
    assert found == {"organization": str(organization), "used_bytes": 6, "max_bytes": None}
    shown = run("blobs", "usage", POSTROOM_ORGANIZATION_STORAGE_GB="1.5").stdout
    assert shown.splitlines()[1].split() == [str(organization), "0.00", "GB", "1.50", "GB"]


def test_upload_beyond_the_limit_is_an_error_with_a_remedy(run, kept, organization, tmp_path):
    file = tmp_path / "invoice.txt"
    file.write_text("Invoice 1")

    def add(limit):
        settings = {"POSTROOM_ORGANIZATION": str(organization), "POSTROOM_ORGANIZATION_STORAGE_GB": limit}
        return run("documents", "add", str(file), **settings)

    refused = add("6e-9")
    assert (refused.returncode, "Raise POSTROOM_ORGANIZATION_STORAGE_GB" in refused.stderr) == (1, True)
    assert add("1e-8").returncode == 0


def doctor(run, name="blobs", **settings):
    checks = json.loads(run("doctor", "--json", **settings).stdout)
    return next((check for check in checks if check["name"] == name), None)


@pytest.mark.parametrize("limit, state", [("7e-9", "ok"), ("6.5e-9", "warn"), ("6e-9", "fail")])
def test_doctor_reports_organizations_close_to_the_limit(run, kept, organization, limit, state):
    check = doctor(run, "storage", POSTROOM_ORGANIZATION_STORAGE_GB=limit)
    assert (check["state"], str(organization) in check["found"]) == (state, state != "ok")


def test_doctor_reports_no_storage_without_a_limit(run, kept):
    assert doctor(run, "storage") is None


@pytest.mark.parametrize("quota, state", [(None, None), ("7e-9", "ok"), ("6e-9", "warn")])
async def test_senders_and_doctor_show_the_use_of_each_sender(run, kept, owner, organization, quota, state):
    box = uuid4()
    await owner.execute(
        """
        WITH box AS (
            INSERT INTO mailboxes (organization_id, id, provider, account_id, provider_user_id, address,
                content_policy)
            VALUES (%(organization)s, %(box)s, 'gmail', 'a', 'a', 'me@example.com', 'full')
        ), thread AS (
            INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
            VALUES (%(organization)s, %(box)s, 't') RETURNING id
        ), message AS (
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, from_address)
            SELECT %(organization)s, %(box)s, id, 'm', 'a@sender.example' FROM thread RETURNING id
        )
        INSERT INTO attachments (organization_id, message_id, part, media_type, size, sha256)
        SELECT %(organization)s, message.id, row_number() OVER ()::text, 'text/plain', 3, sha256
        FROM message, blobs
        """,
        {"organization": organization, "box": box},
    )
    settings = {"POSTROOM_ORGANIZATION": str(organization)}
    settings |= {} if quota is None else {"POSTROOM_SENDER_STORAGE_GB": quota}
    max_bytes = None if quota is None else round(float(quota) * 1e9)
    shown = json.loads(run("blobs", "senders", "--json", **settings).stdout)
    assert shown == [{"sender": "sender.example", "used_bytes": 6, "max_bytes": max_bytes}]
    assert "sender.example" in run("blobs", "senders", **settings).stdout
    check = doctor(run, "senders", **settings)
    assert (check and check["state"]) == state


async def test_worker_rejects_another_blob_location_until_it_is_adopted(run, owner, tmp_path):
    await owner.execute("INSERT INTO blob_location (location) VALUES ('disk:of-another-machine')")
    done = run("work")
    assert done.returncode == 1
    assert "error: This process uses a different blob location" in done.stderr
    assert "POSTROOM_BLOBS" in done.stderr
    found = doctor(run)
    assert (found["state"], "adopt" in found["remedy"]) == ("fail", True)
    done = run("blobs", "adopt")
    assert done.returncode == 0, done.stderr
    assert doctor(run)["state"] == "ok"
    assert doctor(run, POSTROOM_HOME=str(tmp_path / "elsewhere"))["state"] == "fail"
    assert not (tmp_path / "elsewhere" / "blobs").exists()


def test_doctor_reports_the_blob_location(run, tmp_path):
    found = doctor(run)
    assert (found["state"], found["found"]) == ("ok", f"{tmp_path}/home/blobs will be created on first start")
    refused = doctor(
        run,
        POSTROOM_BLOBS="gs://bucket",
        POSTROOM_GCS_CREDENTIALS_FILE=str(tmp_path / "none.json"),
    )
    assert refused["state"] == "fail"
