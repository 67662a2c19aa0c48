"""Nothing is left behind: no lease, stuck work, orphan process, temporary file or growing memory."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from postroom_chaos.oracle.evidence import Evidence, MemorySample, Violation
from postroom_chaos.oracle.sources import Sources

_WORK = """
    SELECT kind, subject, state, attempts, lost_leases, last_error, due_at, leased_until,
        postroom_now() - coalesce(leased_until, due_at) AS late
    FROM work WHERE state IN ('parked', 'waiting_for_operator')
        OR coalesce(leased_until, due_at) < postroom_now() - interval '30 seconds'
    ORDER BY kind, subject
"""
_REFRESH_LEASES = """
    SELECT mailbox_id, leased_until FROM credentials
    WHERE leased_until < postroom_now() - interval '30 seconds'
"""
_STALE_SECONDS = 86_400  # older parts of blobs are removed when a process starts
_GROWTH_FACTOR = 2
_GROWTH_BYTES = 150 << 20


async def check_leftovers(sources: Sources) -> list[Violation]:
    found = await _check_work(sources)
    found += _check_processes(sources.evidence)
    found += _check_files(sources.evidence)
    found += _check_memory(sources.evidence.memory)
    return found


async def _check_work(sources: Sources) -> list[Violation]:
    """Nothing waits for an operator, nothing due is left lying, no lease outlived its worker."""
    found: list[Violation] = []
    for row in await sources.rows(_WORK):
        text = f"is {row['state']}, {row['late']} late, after {row['attempts']} attempts: {row['last_error']}"
        check = "leftovers.lease" if row["state"] == "leased" else "leftovers.work"
        found.append(Violation(check, f"work {row['kind']} {row['subject']}", text))
    found += [
        Violation(
            "leftovers.lease", f"token of mailbox {row['mailbox_id']}", f"leased until {row['leased_until']}"
        )
        for row in await sources.rows(_REFRESH_LEASES)
        if sources.evidence.expects_subscriptions  # otherwise no process runs that would take it over
    ]
    return found


def _check_processes(evidence: Evidence) -> Iterator[Violation]:
    for process in evidence.processes:
        alive = read_start_ticks(process.pid) == process.started_ticks
        if alive != process.running:
            text = "must be running, is not" if process.running else "must have ended, is running"
            yield Violation("leftovers.process", f"{process.name} (pid {process.pid})", text)
    if evidence.processes:
        yield from _find_orphans(evidence)


def _find_orphans(evidence: Evidence) -> Iterator[Violation]:
    """Processes with this run's home that descend from no running process of the driver."""
    home = f"POSTROOM_HOME={evidence.home}".encode()
    roots = {process.pid for process in evidence.processes if process.running} | {os.getpid()}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        pid = int(folder.name)
        try:
            started_here = home in (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended, or belongs to another user
            continue
        if started_here and command and not roots & set(_list_ancestors(pid)):
            yield Violation(
                "leftovers.process", f"pid {pid}", f"no process of the run started it: {command[:200]}"
            )


def _list_ancestors(pid: int) -> Iterator[int]:
    """The process itself and its ancestors."""
    while pid > 1:
        yield pid
        try:
            pid = int(_read_stat(pid)[1])
        except (OSError, ValueError, IndexError):
            return


def read_start_ticks(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if it does not exist or has exited."""
    try:
        fields = _read_stat(pid)
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _read_stat(pid: int) -> list[str]:
    """The fields after the name, which may itself contain spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _check_files(evidence: Evidence) -> Iterator[Violation]:
    for folder in evidence.temporary_folders:
        for path in sorted(folder.rglob("*")):
            if not path.is_dir():
                yield Violation("leftovers.file", str(path), "a temporary file that no process removed")
    for path in sorted(evidence.blobs.glob("new/*")):
        if time.time() - path.stat().st_mtime > _STALE_SECONDS:
            yield Violation("leftovers.file", str(path), "a blob that was never completed nor removed")


def _check_memory(samples: tuple[MemorySample, ...]) -> Iterator[Violation]:
    """Compare a process at rest early in its life with the same process at rest late in it."""
    by_pid: dict[tuple[str, int], list[MemorySample]] = defaultdict(list)
    for sample in samples:
        by_pid[sample.process, sample.pid].append(sample)
    for (name, pid), taken in by_pid.items():
        ordered = [each.resident_bytes for each in sorted(taken, key=lambda each: each.seconds)]
        third = max(len(ordered) // 3, 1)
        early, late = median(ordered[:third]), median(ordered[-third:])
        if late > early * _GROWTH_FACTOR and late - early > _GROWTH_BYTES:
            text = f"grew from {early / 1e6:.0f} MB to {late / 1e6:.0f} MB"
            yield Violation("leftovers.memory", f"{name} (pid {pid})", text)
