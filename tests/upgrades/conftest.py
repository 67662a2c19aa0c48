"""Databases of earlier versions, restored from the archives in this folder."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from databases import session
from postroom.store import roles
from postroom.store.embedded import binaries

ARCHIVES = sorted(Path(__file__).parent.glob("schema-*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
async def earlier_home(request, empty_database_url, tmp_path):
    """A home with the keys of an earlier version, whose database is restored."""
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    await restore(tmp_path / "postroom.sql", empty_database_url)
    return tmp_path


async def restore(dump, empty_database_url):
    async with session(empty_database_url) as connection:
        await roles.ensure(connection)
        await connection.execute("DROP SCHEMA postroom; DROP SCHEMA bo_airflow")
    psql = [binaries.find_binaries().program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    script = [f"--file={dump}", "--output=/dev/null", empty_database_url]
    subprocess.run([*psql, *script], check=True)  # noqa: ASYNC221


@pytest.fixture
def schema_number(request):
    """The schema of the archive that `earlier_home` restored."""
    name = request.node.callspec.params["earlier_home"].name
    return int(name.split("-")[1])
