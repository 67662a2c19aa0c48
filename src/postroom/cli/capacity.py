"""`postroom capacity`: calculate what a number of mailboxes needs, from measured costs. Pure arithmetic.

docs/scaling.md says how each cost was measured, and what the result leaves out.
"""

from dataclasses import asdict, dataclass
from math import ceil
from typing import Annotated, Final

import typer

from postroom.cli.options import JsonOption
from postroom.model import ContentPolicy, ProviderName

EXAMPLES: Final = """\b
Examples:
  postroom capacity --mailboxes 1000 --messages 100
  postroom capacity --mailboxes 100000 --messages 50 --provider outlook --full
  postroom capacity --mailboxes 1000 --messages 100 --sweep-minutes 15 --json"""

DAY_SECONDS: Final = 86400
PEAK: Final = 3.0  # the busiest hour, as a multiple of the day's average: an assumption
# Bytes in the database per message of 8 kB, without blobs, with ledger and events.
MESSAGE_BYTES: Final = {ContentPolicy.METADATA: 4_200, ContentPolicy.FULL: 11_900}
# The daily quota of a Google Cloud project. Google does not raise it.
PROJECT_UNITS_A_DAY: Final = 80_000_000
# Gmail units. A push: one history, one message, and the history once more for dropped pushes.
UNITS_PER_MESSAGE: Final = 2 + 20 + 2
UNITS_PER_SWEEP: Final = 2  # history; the labels, once an hour, are left out
UNITS_PER_AUDITED_MESSAGE: Final = 0.1 * 20 + 5 / 100  # a tenth is looked up; 100 are listed for 5 units


@dataclass(frozen=True, slots=True)
class CpuCosts:
    """Measured CPU milliseconds of the database and of the worker."""

    sweep_database: float
    sweep_worker: float
    message_database: float
    message_worker: float


COSTS: Final = {
    ProviderName.GMAIL: CpuCosts(4.0, 5.0, 13.7, 22.8),
    ProviderName.OUTLOOK: CpuCosts(5.1, 8.9, 14.5, 32.5),
}
SWEEP_MINUTES: Final = {ProviderName.GMAIL: 5.0, ProviderName.OUTLOOK: 15.0}


@dataclass(frozen=True, slots=True)
class Load:
    """`messages` per mailbox and day, kept for `kept_days` and audited every `audit_days`."""

    mailboxes: int
    messages: float
    provider: ProviderName
    policy: ContentPolicy
    sweep_minutes: float
    kept_days: float = 365
    audit_days: float = 7


@dataclass(frozen=True, slots=True)
class Needs:
    """Cores are for the busiest hour. Units and projects are Gmail's; without it, None."""

    messages_a_second: float
    sweeps_a_second: float
    database_cores: float
    worker_cores: float
    database_gigabytes: float
    gmail_units_a_day: int | None
    google_projects: int | None


def calculate_needs(load: Load) -> Needs:
    """Calculate the needs of a load. Assumes the most sweeps: those of mailboxes without pushes."""
    costs = COSTS[load.provider]
    messages = load.mailboxes * load.messages / DAY_SECONDS
    sweeps = load.mailboxes / (load.sweep_minutes * 60)
    units = _calculate_gmail_units(load) if load.provider is ProviderName.GMAIL else None
    return Needs(
        messages_a_second=messages,
        sweeps_a_second=sweeps,
        database_cores=(PEAK * messages * costs.message_database + sweeps * costs.sweep_database) / 1000,
        worker_cores=(PEAK * messages * costs.message_worker + sweeps * costs.sweep_worker) / 1000,
        database_gigabytes=_count_stored(load) * MESSAGE_BYTES[load.policy] / 1e9,
        gmail_units_a_day=units,
        google_projects=None if units is None else ceil(units / PROJECT_UNITS_A_DAY),
    )


def _count_stored(load: Load) -> float:
    return load.mailboxes * load.messages * load.kept_days


def _calculate_gmail_units(load: Load) -> int:
    sweeps_a_day = DAY_SECONDS / (load.sweep_minutes * 60)
    reading = load.messages * UNITS_PER_MESSAGE + sweeps_a_day * UNITS_PER_SWEEP
    auditing = _count_stored(load) * UNITS_PER_AUDITED_MESSAGE / load.audit_days
    return round(load.mailboxes * reading + auditing)


def capacity(
    *,
    mailboxes: Annotated[
        int, typer.Option("--mailboxes", min=1, metavar="COUNT", help="Number of mailboxes.")
    ],
    messages: Annotated[
        float, typer.Option("--messages", min=0, metavar="COUNT", help="New messages a day per mailbox.")
    ],
    provider: Annotated[
        ProviderName, typer.Option("--provider", help="Provider of the mailboxes.")
    ] = ProviderName.GMAIL,
    full: Annotated[bool, typer.Option("--full", help="Content policy full instead of metadata.")] = False,
    sweep_minutes: Annotated[
        float | None,
        typer.Option(
            "--sweep-minutes",
            min=1,
            metavar="MINUTES",
            help="Minutes between sweeps [default: 5 for Gmail, 15 for Outlook]",
        ),
    ] = None,
    kept_days: Annotated[
        float, typer.Option("--kept-days", min=1, metavar="DAYS", help="Days that mail is kept.")
    ] = 365,
    audit_days: Annotated[
        float, typer.Option("--audit-days", min=1, metavar="DAYS", help="Days between audits.")
    ] = 7,
    as_json: JsonOption = False,
) -> None:
    """Calculate the cores, disk space and Gmail quota that mailboxes need.

    Uses costs measured on one small machine: an estimate, not a promise. Reads no settings and no database.
    """
    from postroom.cli import output

    policy = ContentPolicy.FULL if full else ContentPolicy.METADATA
    sweep = SWEEP_MINUTES[provider] if sweep_minutes is None else sweep_minutes
    needs = calculate_needs(Load(mailboxes, messages, provider, policy, sweep, kept_days, audit_days))
    if as_json:
        output.print_json(asdict(needs))
        return
    for line in _describe(needs):
        output.print_line(line)


def _describe(needs: Needs) -> list[str]:
    lines = [
        f"new messages: {needs.messages_a_second:,.2f} a second on average",
        f"sweeps: {needs.sweeps_a_second:,.2f} a second at most",
        f"database: {needs.database_cores:,.2f} cores in the busiest hour",
        f"database space: {needs.database_gigabytes:,.1f} GB",
        f"workers: {needs.worker_cores:,.2f} cores in the busiest hour",
    ]
    if needs.gmail_units_a_day is not None:
        projects = "1 project" if needs.google_projects == 1 else f"{needs.google_projects:,} projects"
        lines.append(f"Gmail: {needs.gmail_units_a_day:,} units a day, {projects} in Google Cloud")
    return [*lines, "Not included: documents, web processes, first syncs, blobs. See docs/scaling.md."]
