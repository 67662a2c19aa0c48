"""A few seeds of the chaos harness, with the real processes. `make chaos` runs many."""

import asyncio
import os
from pathlib import Path

import pytest

from postroom_chaos.command import run_seed
from postroom_chaos.plan import DEFAULT_SECONDS

SOURCES = [str(Path(__file__).parents[2] / folder) for folder in ("src", "mailsim/src", "chaos/src")]


@pytest.mark.soak  # a minute each; how the processes interleave differs from run to run
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_or_wrong_after_everything_failed(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(SOURCES))
    result = asyncio.run(run_seed(seed, DEFAULT_SECONDS, tmp_path / "run"))
    timeline = tmp_path / "run/timeline.txt"
    assert result.passed, "\n".join(
        [*map(str, result.violations), result.error, timeline.read_text() if timeline.exists() else ""]
    )
