import pytest

from postroom.store.database import open_database
from postroom.store.health import process_name


@pytest.fixture
async def database(database_url):
    async with open_database(database_url, pool_size=3, name=process_name("web")) as database:
        yield database
