"""Pools log in as a role that owns nothing: no statement on their connections leaves row-level security."""

import psycopg
import pytest

import databases
from postroom.cli import doctor_checks, startup
from postroom.cli.doctor_checks import DoctorCheckState
from postroom.config import Settings
from postroom.errors import SchemaError
from postroom.store import embedded, health, pg_programs, schema_migrations
from postroom.store.embedded.server import SUPERUSER
from store.embedded_homes import ask, until, watched_home
from store.table_filler import TableFiller

pytestmark = pytest.mark.skipif(bool(databases.GIVEN), reason="the role is the embedded server's")
TABLES = ["messages", "message_contents", "credentials", "documents", "ledger", "mailboxes", "members"]


@pytest.fixture
async def database(service_url):
    async with databases.open_pools(service_url, name=health.process_name("web")) as opened:
        yield opened


@pytest.mark.parametrize(
    "escape", ["RESET ROLE", "SET ROLE NONE", "SET SESSION AUTHORIZATION DEFAULT", "DISCARD ALL"]
)
async def test_leaving_the_role_shows_no_other_organization(
    database, owner, organization, other_organization, escape
):
    await TableFiller(owner, other_organization).fill()
    async with database.application_pool.connection() as connection:
        await connection.execute(escape)
        for table in TABLES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute(f"SELECT count(organization_id) FROM postroom.{table}")


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE postroom",
        f"SET ROLE {SUPERUSER}",
        "SET SESSION AUTHORIZATION postroom",
        "ALTER TABLE postroom.messages DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE postroom.messages OWNER TO postroom_service",
        "ALTER ROLE postroom_service BYPASSRLS",
        "CREATE POLICY more ON postroom.messages USING (true)",
        "GRANT postroom TO postroom_service",
        "CREATE TABLE postroom.more (id int)",
        "CREATE SCHEMA more",
        "UPDATE postroom.ledger SET event_type = 'x'",
    ],
)
async def test_pool_connection_cannot_act_as_the_owner(database, organization, statement):
    async with database.transaction(organization) as connection:
        for role in ("none", "postroom_engine", "postroom_application"):
            await connection.execute("SELECT set_config('role', %s, true)", [role])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                async with connection.transaction():
                    await connection.execute(statement)


async def test_service_login_reads_the_status_of_the_schema_and_the_processes(database, service_url):
    assert (await schema_migrations.read_status(service_url)).current
    assert await schema_migrations.migrate(service_url) == []
    assert [each.role for each in (await health.read_health(database)).processes] == ["web"]


async def test_service_login_cannot_migrate_back_up_or_restore(
    service_url, database_url, database_server, tmp_path
):
    await pg_programs.backup(database_url, tmp_path / "backup")
    ask(database_url, "DELETE FROM postroom.schema_migrations WHERE version > 45 RETURNING version")
    for act in (
        schema_migrations.migrate(service_url),
        pg_programs.backup(service_url, tmp_path / "second"),
        pg_programs.restore(service_url, tmp_path / "backup", replace=True),
    ):
        with pytest.raises(SchemaError, match="Set POSTROOM_DATABASE_OWNER_URL to the URL of postroom"):
            await act


async def test_schema_before_the_login_is_reported_as_not_current(service_url, owner):
    await owner.execute("REVOKE SELECT ON schema_migrations FROM postroom_engine")
    with pytest.raises(SchemaError, match=r"not current\. Run `postroom db migrate`.* URL of postroom"):
        await schema_migrations.read_status(service_url)


async def test_doctor_warns_about_a_login_that_can_leave_row_level_security(database_url, service_url):
    assert (await doctor_checks.check_login(service_url)).state is DoctorCheckState.OK
    for url, risk in [
        (database_url, "postroom owns the tables"),
        (database_url.replace("//postroom@", f"//{SUPERUSER}@"), "is a superuser"),
    ]:
        check = await doctor_checks.check_login(url)
        assert check.state is DoctorCheckState.WARN
        assert risk in check.found
        assert "docs/how-to/database.md" in check.remedy


def test_database_of_an_earlier_version_gets_the_login(tmp_path):
    with watched_home(tmp_path / "home", made=True) as home:
        with embedded.start_or_join(home.path) as handle:
            ask(handle.url.replace("//postroom@", f"//{SUPERUSER}@"), "DROP ROLE postroom_service")
        until(home.has_stopped, "the server stops")
        with startup.database_url(Settings(home=home.path)) as url:
            assert ask(url, "SELECT session_user::text, current_user::text") == ("postroom_service",) * 2
