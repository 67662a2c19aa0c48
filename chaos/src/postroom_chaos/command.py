"""The command `postroom-chaos`: run seeds, show progress and totals, keep the evidence of those that fail."""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from postroom_chaos.plan import DEFAULT_SECONDS, SeedOptions
from postroom_chaos.processes import python_program
from postroom_chaos.result import SeedResult, build_report, find_commit, read_result
from postroom_chaos.system import write_json

SLOW_RECOVERY_SECONDS: Final = 5.0
SEED_LIMIT_SECONDS: Final = 900.0
STOP_SECONDS: Final = 20.0
EXAMPLES: Final = """\b
Examples:
  postroom-chaos --seeds 20
  postroom-chaos --seed 1234                 # the same plan again
  postroom-chaos --seed 1234 --plan          # only print it
  postroom-chaos --seeds 500 --minutes 60 --jobs 2 --report chaos.json"""

console = Console(soft_wrap=True)


def run(
    seeds: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Number of seeds to run.")] = 20,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, metavar="MINUTES", help="Start no further seed after this many minutes."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="SEED", help="Run only this seed.")] = None,
    first: Annotated[int, typer.Option(metavar="SEED", help="Number of the first seed.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Seeds that run at the same time.")] = 1,
    seconds: Annotated[
        float,
        typer.Option(min=5, metavar="SECONDS", help="Seconds of faults in each seed; part of the plan."),
    ] = DEFAULT_SECONDS,
    upgrade_from: Annotated[
        str, typer.Option(metavar="COMMIT", help="Start with this version, and upgrade it during the faults.")
    ] = "",
    keep: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the evidence of failed seeds.")
    ] = Path(".chaos"),
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results of all seeds as JSON.")
    ] = None,
    *,
    small: Annotated[
        bool, typer.Option("--small", help="Two mailboxes, two workers and fewer disturbances.")
    ] = False,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Keep the evidence of every seed.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print the plan of the seed and run nothing.")] = False,
) -> None:
    """Run Postroom against the simulator while everything fails, then compare it with the simulator's truth.

    A seed decides what happens. How processes interleave differs from run to run, so a failure may need
    several runs of its seed. Exit code 1 if anything was lost, duplicated or wrong.
    """
    numbers = [seed] if seed is not None else list(range(first, first + seeds))
    options = SeedOptions(seconds, small, upgrade_from)
    if plan:
        for number in numbers:
            typer.echo(str(options.make_plan(number)))
        return
    deadline = None if minutes is None else time.monotonic() + minutes * 60
    batch = _Batch(iter(numbers), options, keep.absolute(), keep_all, deadline, report)
    asyncio.run(batch.run(jobs))
    results = sorted(batch.results, key=lambda result: result.seed)
    _print_totals(results)
    if not all(result.passed for result in results):
        sys.exit(1)


@dataclass
class _Batch:
    """Seeds to run, and their results so far, which are in the report after each one."""

    waiting: Iterator[int]
    options: SeedOptions
    keep: Path
    keep_all: bool
    deadline: float | None
    report: Path | None
    results: list[SeedResult] = field(default_factory=list[SeedResult])

    async def run(self, jobs: int) -> None:
        await asyncio.gather(*(self._run_some() for _ in range(jobs)))

    async def _run_some(self) -> None:
        for seed in self.waiting:
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            folder = self.keep / f"seed-{seed}"
            result = await run_seed(seed, folder, self.options)
            self.results.append(result)
            _print_result(result, folder, self.options)
            if self.report is not None:
                write_json(self.report, build_report(sorted(self.results, key=lambda each: each.seed)))
            if result.passed and not self.keep_all:
                shutil.rmtree(folder, ignore_errors=True)


async def run_seed(seed: int, folder: Path, options: SeedOptions) -> SeedResult:
    """Run one seed in a process of its own; its folder has everything about it."""
    shutil.rmtree(folder, ignore_errors=True)
    process = await asyncio.create_subprocess_exec(
        *python_program("postroom_chaos.seed_run", str(seed), str(folder), json.dumps(asdict(options))),
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.wait_for(process.wait(), SEED_LIMIT_SECONDS)
        return read_result(folder / "result.json")
    except (TimeoutError, OSError, ValueError) as error:
        return SeedResult(seed, find_commit(), 0.0, error=f"the run ended without a result: {error!r}")
    finally:
        if process.returncode is None:
            await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Let it clean up; what it started ends with it in any case."""
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def _print_result(result: SeedResult, folder: Path, options: SeedOptions) -> None:
    verdict = "[green]passed[/]" if result.passed else "[red]FAILED[/]"
    slowest = f"{result.slowest_recovery_seconds:.1f} s"
    slow = " (slow)" if result.slowest_recovery_seconds > SLOW_RECOVERY_SECONDS else ""
    console.print(
        f"seed {result.seed}: {verdict} in {result.seconds:.0f} s; {sum(result.actions.values())} actions,"
        f" {result.kills} kills, {result.messages} messages; new mail stored after {slowest}{slow}"
    )
    if result.passed:
        return
    for line in [*map(str, result.violations[:40]), *result.error.splitlines()]:
        console.print(f"  {line}", markup=False, highlight=False)
    timeline = folder / "timeline.txt"
    if timeline.exists():
        console.print(timeline.read_text(encoding="utf-8"), markup=False, highlight=False)
    console.print(
        f"  evidence: {folder}\n  again:    postroom-chaos --seed {result.seed} {options}", markup=False
    )


def _print_totals(results: list[SeedResult]) -> None:
    totals: dict[str, Any] = build_report(results)["totals"]
    table = Table(show_header=False, box=None)
    for name, value in totals.items():
        is_counts = name in {"actions", "faults"}
        text = ", ".join(f"{kind} {value[kind]}" for kind in value) if is_counts else str(value)
        table.add_row(name.replace("_", " "), text)
    console.print(table)


def main() -> None:
    application = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    application.command(epilog=EXAMPLES)(run)
    application()
