"""`scripts/proof` writes what the reports say, and keeps a section whose report is not given."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUMMED = ("kills", "freezes", "database_kills", "pushes_sent", "pushes_failed", "pushes_lost", "requests")
SUMMED += ("messages", "mailboxes", "mailbox_days_simulated")


def build_seed(number, **changed):
    recovery = {"mailbox": "m", "path": "push", "seconds": 0.4}
    given = dict.fromkeys(SUMMED, 3) | {"faults": {"cut": 2}, "actions": {"kill": 1}}
    given |= {"seed": number, "commit": "abc", "violations": [], "error": "", "recoveries": [recovery]}
    return given | changed


def write_proof(folder, *options, **reports):
    for name, content in reports.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    command = [sys.executable, ROOT / "scripts/proof", "--output", "proof.md", *options]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    return done.returncode, (folder / "proof.md").read_text()


def test_each_section_is_written_from_its_reports_and_kept_without_them(tmp_path):
    failed = build_seed(9, violations=[{"check": "mail.missing"}])
    code, text = write_proof(
        tmp_path,
        *("--only", "chaos", "--chaos", "first.json", "second.json"),
        first={"seeds": [build_seed(1), build_seed(2), failed]},
        second={"seeds": [build_seed(3), build_seed(9)]},
    )
    assert code == 0, "of a seed that ran twice, the later result counts"
    assert "on commit `abc`" in text
    assert "Seeds: 1 to 3, 9." in text
    for row in (
        "| seeds | 4, of which 4 passed |",
        "| mailbox-days on the simulator's clock | 12 |",
        "| cut | 8 |",
        "| seconds until it was stored: median, slowest | 0.4, 0.4 |",
    ):
        assert row in text
    name = "the lease is not checked before a commit"
    verdict = {"name": name, "result": "killed", "killer": "tests/a.py::test_b", "commit": "def"}
    code, both = write_proof(tmp_path, "--only", "mutants", "--mutants", "killed.json", killed=[verdict])
    assert code == 1, "most mutants were not run"
    assert both.startswith(text)
    assert f"| {name} | killed | `tests/a.py::test_b` |" in both
    assert "`scripts/mutants --report mutants.json` on commit `def`" in both
    assert write_proof(tmp_path, "--only", "chaos", "--chaos", "first.json")[0] == 1, "a seed failed"
