"""Databases that earlier versions filled are upgraded: every row is kept, and the current version works."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import databases
from databases import login_settings, session, to_service
from ledger_sealing import SIGNER, check_signature, seal_ledger
from postroom import config
from postroom.flow.documents.route import ExtractedValues, identify_earlier_records, look_up_record
from postroom.flow.ledger import verification
from postroom.store import ledger
from postroom.store.schema_migrations import list_shipped, migrate, read_status
from postroom.vault import LedgerKeys
from postroom.wiring.documents import build_route_context
from postroom_chaos.launcher import Launcher
from scenarios.postroom_process import PostroomProcess, environment
from upgrades.row_comparison import assert_kept, read_all_rows

# Tables that each archive must hold rows of: otherwise the comparison would show nothing.
FILLED = {
    "api_keys", "arrivals", "attachments", "blobs", "credentials", "cursors",
    "documents", "events", "extractions", "folders", "ledger", "ledger_personal", "mail_events",
    "mailboxes", "members", "message_contents", "messages", "orders", "organizations", "records",
    "reviews", "seals", "sessions", "subscriptions", "threads", "transcripts", "verdicts",
    "webhooks", "work",
}  # fmt: skip
# Tables that an archive must hold rows of from this schema on.
FILLED_FROM = {
    "comments": 64,
    "corrections": 64,
    "record_versions": 64,
    "notice_destinations": 69,
    "resource_uses": 69,
}

FIRST_WITH_MACS = 48

pytestmark = pytest.mark.soak


@pytest.fixture
def postroom(launcher: Launcher, earlier_home: Path, empty_database_url: str) -> Callable[..., str]:
    """Run one command of the current version on the earlier home."""

    def run(*arguments: str) -> str:
        given = environment(**settings(earlier_home, empty_database_url))
        done = launcher.run(arguments, earlier_home, given, seconds=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def settings(home: Path, url: str) -> dict[str, str]:
    return {"POSTROOM_HOME": str(home), **login_settings(url)}


@pytest.mark.usefixtures("earlier_home")
async def test_upgrade_keeps_every_row(schema_number: int, empty_database_url: str):
    async with session(empty_database_url) as connection:
        before = await read_all_rows(connection)
        filled = FILLED | {table for table, first in FILLED_FROM.items() if schema_number >= first}
        assert {table for table in filled if not before[table]} == set()
        applied = await migrate(empty_database_url)
        assert [migration.version for migration in applied] == [
            migration.version for migration in list_shipped() if migration.version > schema_number
        ]
        assert_kept(before, await read_all_rows(connection))
    assert (await read_status(empty_database_url)).current


async def test_current_version_works_on_an_upgraded_database(
    earlier_home: Path, postroom: Callable[..., str], empty_database_url: str
):
    postroom("db", "migrate")
    postroom("ledger", "verify")
    postroom("vault", "rotate")  # decrypts every grant
    mailboxes = json.loads(postroom("mailboxes", "list", "--json"))
    assert {mailbox["provider"] for mailbox in mailboxes} == {"gmail", "outlook"}
    assert json.loads(postroom("parked-work", "list", "--json"))
    key = json.loads(postroom("api-keys", "create", "upgrade", "--scope", "read", "--json"))["key"]
    given = settings(earlier_home, empty_database_url)
    with PostroomProcess(earlier_home, "serve", "--port", "0", **given) as web:
        url = web.line("Postroom: ")
        listed = [count_messages(url, key, mailbox["id"]) for mailbox in mailboxes]
        web.end()
    async with session(empty_database_url) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM messages WHERE deleted_at IS NULL GROUP BY mailbox_id ORDER BY count"
        )
        assert sorted(listed) == [count for (count,) in await cursor.fetchall()]


async def test_ledger_is_authenticated_from_the_upgrade_on(
    empty_database_url: str, earlier_home: Path, schema_number: int
):
    if schema_number >= FIRST_WITH_MACS:
        pytest.skip("its ledger is authenticated already")
    await migrate(empty_database_url)
    keys = LedgerKeys(earlier_home)

    def check(key_id: str, signature: bytes, signed: bytes) -> bool | None:
        return (check_signature if key_id == SIGNER.key_id else keys.check)(key_id, signature, signed)

    async with databases.open_pools(empty_database_url) as database:
        async with database.engine() as connection:
            organizations = await ledger.list_organizations_to_seal(connection)
        assert organizations, "also those without new entries"
        for organization in organizations:
            await seal_ledger(database, earlier_home, organization)
            found = await verification.verify(database, organization, check)
            assert (found.faults, found.unsealed) == ([], 0)
            assert found.authenticated_from == found.without_mac + 1
        async with database.engine() as connection:
            assert await ledger.list_organizations_to_seal(connection) == []


@pytest.mark.usefixtures("earlier_home")
async def test_records_of_earlier_versions_are_recognized(empty_database_url: str):
    """A copy or an amendment of what an earlier version confirmed is not recorded as another trade."""
    await migrate(empty_database_url)
    context = build_route_context(config.load())
    async with session(empty_database_url) as connection:
        cursor = await connection.execute("SELECT organization_id, pipeline, id, kind, fields FROM records")
        confirmed = await cursor.fetchall()
    async with databases.open_pools(to_service(empty_database_url)) as database:
        for organization, pipeline, record, kind, fields in confirmed:
            async with database.transaction(organization) as connection:
                copy = ExtractedValues(kind, fields)
                await identify_earlier_records(connection, context, pipeline)
                lookup = await look_up_record(connection, context, pipeline, copy)
                amended = ExtractedValues(kind, {**fields, "net": "0.01"})
                change = await look_up_record(connection, context, pipeline, amended)
            assert lookup.record is not None, lookup.conflict
            assert lookup.record.id == record
            is_numbered = kind == "contract-note" and "number" in fields
            assert not is_numbered or "net 0.01 instead of" in (change.conflict or "")
    assert len(confirmed) >= 3


def count_messages(url: str, key: str, mailbox: str) -> int:
    """The number of messages that the API lists, page by page."""
    count = 0
    cursor: str | None = ""
    while cursor is not None:
        address = f"{url}/api/v1/mailboxes/{mailbox}/messages?{cursor}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            page = json.load(answer)
        count += len(page["data"])
        cursor = f"cursor={page['next']}" if page.get("next") else None
    return count
