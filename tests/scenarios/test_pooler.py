"""Postroom behind PgBouncer in transaction mode, which gives each transaction any of a few sessions."""

import asyncio
from urllib.parse import urlsplit

import pytest
from psycopg import sql

import databases
import poolers
from postroom.cli import doctor_checks
from postroom.cli.doctor_checks import DoctorCheckState
from postroom.config import Settings
from postroom.model import OrganizationId, ProviderName, Secret, WorkKind
from postroom.store import work
from postroom.store.connection import connect
from postroom.store.work import WorkRequest
from scenarios.mirrored_mailbox import usually
from scenarios.test_documents import test_forwarded_mail_and_zip_files_are_opened
from scenarios.test_sync import test_whatever_its_owner_does_is_mirrored
from scenarios.worker_pool import make_effects, until, workers

# The same tests, through the pooler.
__all__ = ["test_forwarded_mail_and_zip_files_are_opened", "test_whatever_its_owner_does_is_mirrored"]

pytestmark = pytest.mark.skipif(
    bool(databases.GIVEN), reason="PgBouncer runs in front of the embedded server"
)
SESSIONS = 2


@pytest.fixture(scope="module")
def pgbouncer(database_server):
    with poolers.run_pgbouncer(database_server.url, sessions=SESSIONS) as directory:
        yield directory


@pytest.fixture(params=usually(ProviderName.OUTLOOK))
def provider(request):
    """The statements behind the pooler are the same for both."""
    return request.param


@pytest.fixture(autouse=True)
def _through_pgbouncer(pgbouncer, monkeypatch):
    monkeypatch.setattr(databases, "pooler", pgbouncer)


@pytest.fixture
async def two(owner, organization, other_organization):
    """Two organizations, each with work of its own."""
    both = [OrganizationId(organization), OrganizationId(other_organization)]
    await work.enqueue(owner, [WorkRequest(each, WorkKind.SYNC, str(each)) for each in both])
    return both


async def test_transactions_that_share_sessions_see_their_own_organization(service_url, two):
    seen = "SELECT pg_backend_pid(), current_user::text, current_organization(), array_agg(subject) FROM work"

    async def look(database, organization=None):
        begun = database.transaction(organization) if organization else database.engine()
        async with begun as connection:
            await asyncio.sleep(0)
            row = await (await connection.execute(seen)).fetchone()
            expected = [str(organization)] if organization else [str(each) for each in two]
            assert (row[1], row[2], sorted(row[3])) == (
                "postroom_application" if organization else "postroom_engine",
                organization,
                sorted(expected),
            )
            return row[0]

    async with databases.open_pools(service_url) as database:
        rounds = [None, *two] * 20
        used = await asyncio.gather(*(look(database, organization) for organization in rounds))
    assert len(set(used)) <= SESSIONS, "the sessions are shared"
    async with await connect(service_url) as connection:
        cursor = await connection.execute(
            """
            SELECT current_user::text, current_setting('postroom.organization'),
                current_setting('lock_timeout')
            """
        )
        assert await cursor.fetchone() == ("postroom_service", "", "0")


async def test_statements_sent_together_stay_in_their_organization(service_url, two):
    count = "SELECT current_organization(), array_agg(subject) FROM work WHERE subject <> {}"

    async def look(database, organization):
        alone = await database.fetch_row(organization, sql.SQL(count).format(""))
        async with (
            database.transaction(organization) as connection,
            connection.in_one_round_trip() as round_trip,
        ):
            tasks = [round_trip.create_task(fetch(connection, excluded)) for excluded in ("", "none")]
        return {alone[0], *(task.result()[0] for task in tasks)}, alone[1]

    async def fetch(connection, excluded):
        return await (await connection.execute(count.format("%s"), [excluded])).fetchone()

    async with databases.open_pools(service_url) as database:
        rounds = two * 20
        found = await asyncio.gather(*(look(database, organization) for organization in rounds))
    assert found == [({organization}, [str(organization)]) for organization in rounds]


async def test_notifications_arrive_past_the_pooler(service_url, owner):
    async with databases.open_pools(service_url) as database:
        heard = database.listen("postroom_work", every_seconds=3600)
        assert await anext(heard) is None
        await owner.execute("SELECT pg_notify('postroom_work', 'first')")
        assert await anext(heard) == "first"
        await heard.aclose()


async def test_without_a_direct_url_workers_poll(database_url, owner, organization):
    """Their own poll is too rare to find the work within the time."""
    await make_effects(owner)
    async with workers(1, database_url, poll_seconds=3600):
        for number in range(3):
            await work.enqueue(owner, [WorkRequest(organization, "count", str(number))])
            async with asyncio.timeout(60):
                await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")


async def test_doctor_says_what_a_pooler_needs(database_url, service_url):
    direct = urlsplit(database_url)._replace(netloc="postroom_service@").geturl()

    async def check(**settings):
        given = Settings(database_url=Secret(service_url), **settings)
        return await doctor_checks.check_pooler(given, service_url)

    assert (await check()).state is DoctorCheckState.WARN
    assert (await check(database_direct_url=Secret(direct))).state is DoctorCheckState.OK
    wrong = await check(database_direct_url=Secret(direct), database_owner_url=Secret(service_url))
    assert wrong.state is DoctorCheckState.FAIL
    assert "POSTROOM_DATABASE_OWNER_URL" in wrong.remedy
    assert await doctor_checks.check_pooler(Settings(database_url=Secret(direct)), direct) is None
