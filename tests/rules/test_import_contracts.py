"""The import contracts cover every module, including new ones."""

from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = {
    f"postroom.{path.stem}"
    for path in (ROOT / "src/postroom").iterdir()
    if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()
}
ALLOWED = {
    "psycopg psycopg_pool": {"postroom.store"},
    "starlette uvicorn": {"postroom.web"},
    "postroom.providers": {"postroom.engine", "postroom.wiring", "postroom.providers"},
    "bz2 lxml lzma tarfile xml zipfile postroom.documents.analysis"
    " postroom.documents.files.container_decoders postroom.documents.sandbox.analysis_tasks"
    " postroom.documents.sandbox.child_tasks": {"postroom.documents"},
    "aiohttp": {"postroom.engine", "postroom.wiring", "postroom.providers"},
}


def forbidden():
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return {
        " ".join(each["forbidden_modules"].split()): each["source_modules"].split()
        for each in contracts.values()
        if each.get("type") == "forbidden"
    }


def test_every_restricted_import_has_a_contract():
    assert set(forbidden()) == set(ALLOWED)


@pytest.mark.parametrize("what, who", ALLOWED.items(), ids=list(ALLOWED))
def test_contracts_cover_every_module(what, who):
    assert sorted(forbidden()[what]) == sorted(TOP - who)
