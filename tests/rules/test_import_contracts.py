"""The import contracts cover every module, including new ones."""

import ast
from configparser import ConfigParser

import pytest

from rules.source_tree import ROOT, list_modules, parse, relative

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


# Functions that decode whole files, in modules that workers load for their types and constants.
DECODERS = {
    "postroom.documents.files.file_type": {"decode_text", "detect"},
    "postroom.documents.files.unpack": {"unpack"},
}


def imports_decoder(node):
    if isinstance(node, ast.Import):
        return any(name.name in DECODERS for name in node.names)
    if not isinstance(node, ast.ImportFrom):
        return False
    names = {name.name for name in node.names}
    is_whole_module = any(f"{node.module}.{name}" in DECODERS for name in names)
    return is_whole_module or bool(names & DECODERS.get(node.module, set()))


def test_only_document_processes_decode_files():
    found = {
        relative(path)
        for path in list_modules("src/postroom")
        if any(imports_decoder(node) for node in ast.walk(parse(path)))
    }
    assert found == {
        "src/postroom/documents/files/unpack.py",
        "src/postroom/documents/sandbox/child_tasks.py",
    }
