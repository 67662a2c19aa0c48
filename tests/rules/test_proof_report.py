"""`scripts/proof` writes what the reports say, and keeps a section whose report is not given."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUMMED = ("kills", "freezes", "database_kills", "pushes_sent", "pushes_failed", "pushes_lost", "requests")
SUMMED += ("messages", "parked_messages", "mailboxes", "mailbox_days_simulated")


def build_seed(number, **changed):
    recovery = {"mailbox": "m", "path": "push", "seconds": 0.4}
    given = dict.fromkeys(SUMMED, 3) | {"faults": {"cut": 2}, "actions": {"kill": 1}}
    given |= {"seed": number, "commit": "abc", "violations": [], "error": "", "recoveries": [recovery]}
    given |= {"unexpected_exits": {}, "quiet_seconds": 12.0, "not_covered": []}
    return given | changed


def write_proof(folder, *options, **reports):
    for name, content in reports.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    command = [sys.executable, ROOT / "scripts/proof", "--output", "proof.md", *options]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    return done.returncode, (folder / "proof.md").read_text()


def test_each_section_is_written_from_its_reports_and_kept_without_them(tmp_path):
    failed = build_seed(9, commit="earlier", violations=[{"check": "mail.missing"}])
    code, text = write_proof(
        tmp_path,
        *("--only", "chaos", "--chaos", "first.json", "second.json"),
        first={"seeds": [build_seed(1), build_seed(2), failed]},
        second={"seeds": [build_seed(3), build_seed(9, unexpected_exits={"web": [3]})]},
    )
    assert code == 0, "of a seed that ran on two commits, the later result counts"
    assert "on commit `abc`" in text
    assert "Seeds: 1 to 3, 9." in text
    for row in (
        "| seeds | 4, of which 4 passed |",
        "| lost | 0 |",
        "| twice, or not at the provider | 0 |",
        "| violations, of any kind | 0 |",
        "| unexpected exits of processes | 1 (seed 9: web, exit code 3) |",
        "| mailbox-days on the simulator's clock | 12 |",
        "| cut | 8 |",
        "| seconds until it was stored: median | 0.4 |",
        "| seconds until it was stored: slowest | 0.4 (seed 1) |",
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


def test_a_failed_seed_is_not_made_good_by_running_it_again(tmp_path):
    lost = build_seed(2, violations=[{"check": "mail.missing"}])
    options = ("--only", "chaos", "--chaos", "first.json", "second.json")
    code, text = write_proof(
        tmp_path, *options, first={"seeds": [build_seed(1), lost]}, second={"seeds": [build_seed(2)]}
    )
    assert code == 1
    assert "| lost | 1 |" in text
    assert "| 2 | mail.missing | 1 |" in text


def test_seeds_of_several_commits_prove_none_of_them(tmp_path):
    options = ("--only", "chaos", "--chaos", "first.json")
    for commits in (("abc", "def"), ("abc-dirty", "abc-dirty")):
        seeds = [build_seed(number, commit=commit) for number, commit in enumerate(commits)]
        assert write_proof(tmp_path, *options, first={"seeds": seeds})[0] == 1, commits
