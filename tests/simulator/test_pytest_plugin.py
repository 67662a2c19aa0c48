"""The pytest plugin, run as its users run it: with the examples of mailsim's README."""

import re
import subprocess
import sys
import tomllib

import pytest

from rules.source_tree import ROOT, list_modules
from simulator.driver import environment

PLUGIN = "mailsim.pytest_plugin"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "mailsim/README.md").read_text(), re.MULTILINE | re.DOTALL
)
FRESH = """
from datetime import UTC, datetime, timedelta
import pytest

@pytest.mark.parametrize("run", range(4))
def test_nothing_is_left_of_another_test(mailsim, mailsim_server, run):
    assert mailsim.url == mailsim_server.url
    assert abs(mailsim.now() - datetime.now(UTC)) < timedelta(hours=12)
    assert mailsim.control("GET", "mailboxes") == mailsim.control("GET", "faults") == []
    mailsim.create_mailbox("gmail", "ann@example.com", messages=3)
    token = mailsim.gmail_token("ann@example.com")
    mailsim.fault("error").__enter__()
    assert mailsim.advance(days=1) > datetime.now(UTC) + timedelta(hours=12)
    mailsim.reset()
    mailsim.create_mailbox("gmail", "ann@example.com")
    assert not mailsim.messages("ann@example.com")
    assert mailsim.gmail_token("ann@example.com") == token  # the same seed draws the same IDs

def test_refused_call_names_the_reason(mailsim):
    from mailsim.errors import SimulatorError
    with pytest.raises(SimulatorError, match="no mailbox bob@example.com"):
        mailsim.deliver("bob@example.com")
"""


@pytest.fixture
def run_pytest(tmp_path):
    """Run pytest in a folder of its own. Only the named plugins load, as in a new environment."""

    def run(*options):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            env=environment() | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def test_readme_examples_pass_and_every_test_gets_a_new_simulation(run_pytest, tmp_path):
    tests = [example for example in EXAMPLES if "\ndef test_" in example]
    assert len(tests) == 2
    for number, example in enumerate(tests):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    (tmp_path / "test_fresh.py").write_text(FRESH)
    result = run_pytest("-W", "error", "-p", "xdist.plugin", "-n", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "10 passed" in result.stdout


def test_wrong_options_of_mailsim_are_shown(run_pytest, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmailsim_options = --sped 1\n")
    (tmp_path / "test_any.py").write_text("def test_any(mailsim): pass\n")
    result = run_pytest()
    assert result.returncode == 1
    assert "mailsim did not start" in result.stdout
    assert "unknown option --sped" in result.stdout


def test_pytest_finds_the_plugin_but_mailsim_runs_without_pytest():
    project = tomllib.loads((ROOT / "mailsim/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"mailsim": PLUGIN}
    assert not [each for each in project["dependencies"] if each.startswith("pytest")]
    users = [
        path.name
        for path in list_modules("mailsim/src")
        if re.search(r"^\s*(import|from) pytest", path.read_text(), re.MULTILINE)
    ]
    assert users == ["pytest_plugin.py"]


def test_loading_the_plugin_does_not_import_the_simulator():
    program = f"import sys, {PLUGIN}; sys.exit('mailsim.simulator' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)
