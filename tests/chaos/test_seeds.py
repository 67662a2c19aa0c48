"""A few seeds of the chaos harness, with the real processes. `make chaos` runs many."""

import asyncio

import pytest

from postroom_chaos.command import run_seed
from postroom_chaos.plan import DEFAULT_SECONDS


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_or_wrong_after_everything_failed(seed, tmp_path):
    result = asyncio.run(run_seed(seed, DEFAULT_SECONDS, tmp_path / "run"))
    timeline = tmp_path / "run/timeline.txt"
    assert result.passed, "\n".join(
        [*map(str, result.violations), result.error, timeline.read_text() if timeline.exists() else ""]
    )
