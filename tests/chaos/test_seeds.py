"""Seeds of the chaos harness, with the real processes. `make chaos` and `make proof` run many."""

import asyncio
import os
from pathlib import Path

import pytest

from postroom_chaos.command import run_seed
from postroom_chaos.plan import DEFAULT_SECONDS, SMALL, make_plan

SOURCES = [str(Path(__file__).parents[2] / folder) for folder in ("src", "mailsim/src", "chaos/src")]
# Each kills processes and loses pushes. Together they have every kind of disturbance but a purged mailbox.
HARD_SEEDS = (7, 9, 11, 16, 36, 42, 68, 81, 107, 303)
SHORT_SECONDS = 5.0


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run one seed, which must pass."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(SOURCES))

    def run(seed, seconds, *, small):
        result = asyncio.run(run_seed(seed, seconds, tmp_path / "run", small=small))
        timeline = tmp_path / "run/timeline.txt"
        assert result.passed, "\n".join(
            [*map(str, result.violations), result.error, timeline.read_text() if timeline.exists() else ""]
        )
        return result

    return run


@pytest.mark.parametrize("seed", HARD_SEEDS)
def test_nothing_is_lost_doubled_or_wrong_after_a_short_disturbance(run, seed):
    result = run(seed, SHORT_SECONDS, small=True)
    assert result.kills
    assert result.recoveries


@pytest.mark.soak  # most of a minute each; how the processes interleave differs from run to run
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_or_wrong_after_everything_failed(run, seed):
    run(seed, DEFAULT_SECONDS, small=False)


def test_hard_seeds_kill_processes_and_lose_pushes():
    for seed in HARD_SEEDS:
        actions = make_plan(seed, SHORT_SECONDS, SMALL).actions
        assert {"kill", "kill_workers"} & {action.kind for action in actions}
        assert "push_lost" in {action.details["fault"] for action in actions if action.kind == "fault"}
