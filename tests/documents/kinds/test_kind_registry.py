"""A document kind of another package, added as the how-to describes."""

import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from postroom.documents.analysis import analyze
from postroom.documents.files import plain_text
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds import kind_registry
from postroom.errors import SettingsError

ROOT = Path(__file__).parents[3]
HOW_TO = (ROOT / "docs/how-to/add-a-kind.md").read_text()
ORDER = """Beispiel & Partner GmbH · Lindenallee 50 · 50667 Köln
Bestellung
Bestell-Nr. B-4711
Bestelldatum 14.10.2024
20 Broschüren 52,00 1.040,00
Netto 1.040,00 EUR
MwSt 19 % 197,60 EUR
Gesamtbetrag 1.237,60 EUR
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The how-to's package as an installer lays it out: the module, and its metadata with the entry point."""
    toml, code = re.findall(r"```(?:toml|python)\n(.*?)```", HOW_TO, re.DOTALL)
    (tmp_path / "orders.py").write_text(code)
    info = tmp_path / "orders-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: orders\nVersion: 1\n")
    named = re.search(r'^(purchase-order) = "(.+)"$', toml, re.MULTILINE)
    (info / "entry_points.txt").write_text(f"[postroom.kinds]\n{named[1]} = {named[2]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    kind_registry.list_installed.cache_clear()
    yield tmp_path
    kind_registry.list_installed.cache_clear()
    sys.modules.pop("orders", None)


def test_the_purchase_order_of_the_how_to_is_installed_and_read(installed):
    kinds = kind_registry.list_installed()
    assert set(kinds) == {"invoice", "contract-note", "purchase-order"}
    found = analyze(FileReading(plain_text.to_transcript(ORDER)), [kinds["purchase-order"]])
    assert {name: field.value for name, field in found.fields.items()} == {
        "buyer": "Beispiel & Partner GmbH",
        "number": "B-4711",
        "ordered_on": date(2024, 10, 14),
        "net": Decimal("1040.00"),
        "vat": Decimal("197.60"),
        "total": Decimal("1237.60"),
        "currency": "EUR",
    }
    assert [(check.name, check.passed) for check in found.checks] == [
        ("kind", True),
        ("net + vat = total", True),
    ]
    assert min(found.confidences.values()) > 0.5


def test_a_document_of_another_kind_is_skipped(installed):
    found = analyze(
        FileReading(plain_text.to_transcript("Lieferschein\nWir liefern: 20 Broschüren")),
        [kind_registry.list_installed()["purchase-order"]],
    )
    assert found.skip_reason


def test_an_installed_kind_is_found_by_a_new_process(installed):
    program = (
        "from postroom.documents.kinds.kind_registry import list_installed; print(sorted(list_installed()))"
    )
    path = f"{installed}:{ROOT / 'src'}"
    ran = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "['contract-note', 'invoice', 'purchase-order']"


def test_the_how_to_takes_thirty_lines_of_python():
    (code,) = re.findall(r"```python\n(.*?)```", HOW_TO, re.DOTALL)
    assert (
        len([line for line in code.splitlines() if line.strip() and not line.startswith(("from", "import"))])
        <= 31
    )


def test_broken_kind_packages_are_reported(installed):
    (installed / "orders.py").write_text("import nothing_of_that_name")
    with pytest.raises(SettingsError, match=r"purchase-order .* cannot be imported \(ModuleNotFoundError\)"):
        kind_registry.list_installed()
    (installed / "orders.py").write_text("PURCHASE_ORDER = 7")
    sys.modules.pop("orders", None)
    with pytest.raises(SettingsError, match="is not a DocumentKind"):
        kind_registry.list_installed()


def test_a_field_without_a_spec_is_reported(installed):
    code = (installed / "orders.py").read_text()
    (installed / "orders.py").write_text(
        code.replace("    net: Annotated", "    odd: str | None = None\n    net: Annotated")
    )
    with pytest.raises(SettingsError, match="odd"):
        kind_registry.list_installed()
