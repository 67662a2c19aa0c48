"""A rolling upgrade during a run: it starts with an earlier version, whose sources git has.

The newer version migrates the database while processes of the earlier one still run, then replaces them one
by one, as docs/how-to/upgrade.md of Postroom describes.
"""

import asyncio
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from postroom_chaos.operator_client import ActionFailed
from postroom_chaos.run_state import RunState
from postroom_chaos.system import System

ATTEMPTS: Final = 30
BETWEEN_SECONDS: Final = 0.5


def unpack_sources(commit: str, folder: Path) -> Path:
    """Unpack Postroom's sources at a commit of this repository; return the folder to import from."""
    done = subprocess.run(  # noqa: S603  # the developer's git
        ["git", "archive", "--format=tar", commit, "src"],  # noqa: S607
        cwd=_find_repository(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise ActionFailed(f"git has no sources of {commit}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "src"


def _find_repository() -> Path:
    """The root of the checkout: git archives nothing from outside the folder that it runs in."""
    return Path(__file__).parents[3]


async def upgrade_after(system: System, state: RunState, seconds: float) -> None:
    """Migrate with the newer version, and replace the processes of the earlier one, if there is one."""
    if len(system.versions) == 1:
        return
    await asyncio.sleep(seconds)
    system.versions.pop(0)
    state.note("begin upgrade")
    await _migrate(system, state)
    for name, program in system.programs.items():
        if name.startswith(("web", "worker")):
            await program.stop()
            program.version = system.version
            program.start()
            state.note(f"{name} runs the newer version")
            await asyncio.sleep(BETWEEN_SECONDS)
    state.counts["upgrade"] += 1


async def _migrate(system: System, state: RunState) -> None:
    """Migrate as often as needed: the database may be down, which must leave it usable."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await system.run_command("db", "migrate")
        except ActionFailed as error:
            state.note(f"the migration failed, attempt {attempt}: {error}")
            if attempt == ATTEMPTS:
                raise
            await asyncio.sleep(1)
        else:
            return
