import logging
import sys
from io import StringIO

import pytest
import structlog

from postroom import logs
from postroom.store.database import open_database
from postroom.store.health import process_name


@pytest.fixture
async def database(database_url):
    async with open_database(database_url, pool_size=3, name=process_name("web")) as database:
        yield database


@pytest.fixture
def log():
    """Every log line of this process, at the finest level."""
    hook, root = sys.excepthook, logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written = StringIO()
    logs.setup("web", level="debug", style="json", stream=written)
    yield written
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:], sys.excepthook = handlers, hook
    root.setLevel(level)
