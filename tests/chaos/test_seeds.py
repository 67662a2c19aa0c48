"""Seeds of the chaos harness, with the real processes. `make chaos` and `make proof` run many."""

import asyncio
import os
from pathlib import Path

import pytest

from postroom_chaos.command import run_seed
from postroom_chaos.mailbox_use import USES
from postroom_chaos.plan import SeedOptions

SOURCES = [str(Path(__file__).parents[2] / folder) for folder in ("src", "mailsim/src", "chaos/src")]
# Each kills processes and loses pushes; together they have every kind of disturbance. None moves the clocks
# by days: those of files do not follow.
HARD_SEEDS = (7, 9, 11, 15, 16, 36, 84, 107, 759, 956)
SHORT = SeedOptions(seconds=5, small=True)
# The last versions with schemas 48 and 51, and the one of the newest archive of a database.
EARLIER_VERSIONS = ("97d4106^", "1b0ae01^", "1d7fcfa")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run one seed, which must pass."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(SOURCES))

    def run(seed, options):
        result = asyncio.run(run_seed(seed, tmp_path / "run", options))
        timeline = tmp_path / "run/timeline.txt"
        assert result.passed, "\n".join(
            [*map(str, result.violations), result.error, timeline.read_text() if timeline.exists() else ""]
        )
        return result

    return run


@pytest.mark.parametrize("seed", HARD_SEEDS)
def test_nothing_is_lost_doubled_or_wrong_after_a_short_disturbance(run, seed):
    result = run(seed, SHORT)
    assert result.kills
    assert result.recoveries


@pytest.mark.soak  # most of a minute each; how the processes interleave differs from run to run
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_or_wrong_after_everything_failed(run, seed):
    run(seed, SeedOptions())


@pytest.mark.soak
@pytest.mark.parametrize("seed", [3, 5])
@pytest.mark.parametrize("version", EARLIER_VERSIONS)
def test_nothing_is_lost_while_workers_of_an_earlier_version_still_run(run, version, seed):
    result = run(seed, SeedOptions(upgrade_from=version))
    assert result.actions["upgrade"] == 1


def test_hard_seeds_kill_processes_and_lose_pushes():
    for seed in HARD_SEEDS:
        actions = SHORT.make_plan(seed).actions
        assert {"kill", "kill_workers"} & {action.kind for action in actions}
        assert "push_lost" in {action.details["fault"] for action in actions if action.kind == "fault"}


def test_hard_seeds_have_every_kind_of_disturbance_together():
    def name_disturbances(seed):
        actions = SHORT.make_plan(seed).actions
        return {action.details.get("fault", action.kind) for action in actions if action.kind not in USES}

    everything = set().union(*map(name_disturbances, range(1, 301)))
    assert set().union(*map(name_disturbances, HARD_SEEDS)) == everything
