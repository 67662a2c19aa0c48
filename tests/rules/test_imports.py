"""The contracts on imports leave out nobody: a new module stands in each of them from its first day."""

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


def test_there_is_a_contract_for_each_thing_that_stays_in_its_place():
    assert set(forbidden()) == set(ALLOWED)


@pytest.mark.parametrize("what, who", ALLOWED.items(), ids=list(ALLOWED))
def test_everybody_but_those_allowed_is_forbidden(what, who):
    assert sorted(forbidden()[what]) == sorted(TOP - who)
