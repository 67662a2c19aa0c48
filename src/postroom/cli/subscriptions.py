"""`postroom subscriptions`: the push channels of mailboxes, made and looked after by hand (S4)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from postroom import interrupts
from postroom.cli.exit_codes import ExitCode
from postroom.model import WorkKind

if TYPE_CHECKING:
    from postroom.cli.doctor_checks import DoctorCheck
    from postroom.config import Settings
    from postroom.engine import Engine
    from postroom.model import OrganizationId
    from postroom.store.mailboxes import Mailbox
    from postroom.store.subscriptions import Subscription

Result = TypeVar("Result")
WAIT_SECONDS = 90

group = typer.Typer(
    name="subscriptions",
    help="Push channels: by which providers tell of new mail at once.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom subscriptions list
  postroom subscriptions check""",
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MailboxArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[MAILBOX]",
        help="Only this one: its address, or the beginning of its id.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class SubscriptionCommandContext:
    """What a command works with."""

    engine: "Engine"
    organization: "OrganizationId"


@dataclass(frozen=True, slots=True)
class MailboxSubscriptionResult:
    mailbox: str
    provider: str
    ok: bool
    words: str


@group.command(
    epilog="""\b
Examples:
  postroom subscriptions create
  postroom subscriptions create jane@example.org"""
)
def create(mailbox: MailboxArgument = None, *, json: JsonOption = False) -> ExitCode:
    """Check settings, public address and handshake, then make what is missing.

    Workers do the same by themselves; this shows at once whether it works, and needs no worker beside it.
    Exit code 1 when something failed.
    """
    return _run_command(lambda opened: _create(opened, mailbox, json=json))


@group.command(
    epilog="""\b
Examples:
  postroom subscriptions renew
  postroom subscriptions renew jane@example.org"""
)
def renew(mailbox: MailboxArgument = None, *, json: JsonOption = False) -> ExitCode:
    """Renew channels now, and make anew those that are gone or have another address."""
    return _run_command(lambda opened: _renew(opened, mailbox, json=json))


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom subscriptions list
  postroom subscriptions list --json | jq '.[] | select(.status != "active")'""",
)
def list_all(*, json: JsonOption = False) -> None:
    """List the channels of every mailbox, those that were replaced in the last days too."""
    _run_command(lambda opened: _list(opened, json=json))


@group.command(
    epilog="""\b
Examples:
  postroom subscriptions check
  postroom subscriptions check --json"""
)
def check(mailbox: MailboxArgument = None, *, json: JsonOption = False) -> ExitCode:
    """Look at public address, handshake and every channel. Exit code 1 when one fails; nothing is changed."""
    return _run_command(lambda opened: _check(opened, mailbox, json=json))


async def _create(opened: SubscriptionCommandContext, mailbox_name: str | None, *, json: bool) -> ExitCode:
    found = await _check_reachability(opened)
    wanted = await _select_mailboxes(opened, mailbox_name)
    if any(_has_failed(each) for each in found):
        _print_results(found, [], json=json)
        return ExitCode.FAILED
    missing = [each for each in wanted if await _find_live(opened, each) is None]
    there = [
        MailboxSubscriptionResult(str(each.id), each.provider, ok=True, words="is there already")
        for each in wanted
        if each not in missing
    ]
    return _print_summary(found, there + await _subscribe_mailboxes(opened, missing, "made"), json=json)


async def _renew(opened: SubscriptionCommandContext, mailbox_name: str | None, *, json: bool) -> ExitCode:
    return _print_summary(
        [],
        await _subscribe_mailboxes(opened, await _select_mailboxes(opened, mailbox_name), "renewed"),
        json=json,
    )


async def _check(opened: SubscriptionCommandContext, mailbox_name: str | None, *, json: bool) -> ExitCode:
    found = await _check_reachability(opened)
    outcomes = [await _check_mailbox(opened, each) for each in await _select_mailboxes(opened, mailbox_name)]
    return _print_summary(found, outcomes, json=json)


async def _list(opened: SubscriptionCommandContext, *, json: bool) -> ExitCode:
    from postroom.cli import output
    from postroom.store import mailboxes, subscriptions

    async with opened.engine.database.transaction(opened.organization) as connection:
        known = {each.id: each for each in await mailboxes.list_all(connection)}
        rows = await subscriptions.list_all(connection)
    if json:
        output.print_json([_to_json(row, known[row.mailbox]) for row in rows])
    else:
        output.print_table(
            ("MAILBOX", "PROVIDER", "STATUS", "EXPIRES", "RENEWED", "LAST NOTIFIED"),
            [
                (
                    known[row.mailbox].address,
                    known[row.mailbox].provider,
                    row.status if row.confirmed_at else "asked for",
                    *(
                        moment and moment.isoformat(sep=" ", timespec="seconds")
                        for moment in (row.expires_at, row.last_renewed_at, row.last_notified_at)
                    ),
                )
                for row in rows
            ],
        )
    return ExitCode.OK


def _to_json(row: "Subscription", mailbox: "Mailbox") -> dict[str, object]:
    return {
        "id": row.id,
        "mailbox": row.mailbox,
        "provider": mailbox.provider,
        "status": row.status,
        "provider_subscription_id": row.provider_subscription_id,
        "confirmed_at": row.confirmed_at,
        "expires_at": row.expires_at,
        "last_renewed_at": row.last_renewed_at,
        "last_notified_at": row.last_notified_at,
        "replaced_at": row.replaced_at,
    }


# What everything stands on


async def _check_reachability(opened: SubscriptionCommandContext) -> "list[DoctorCheck]":
    """Settings, public address, handshake: without these no provider can tell us anything."""
    from postroom.cli.doctor_checks import DoctorCheck, DoctorCheckState
    from postroom.wiring import remotes

    url = opened.engine.settings.public_url
    if url is None:
        remedy = "Set POSTROOM_PUBLIC_URL to the https address under which providers reach the web process."
        return [DoctorCheck("public url", DoctorCheckState.FAIL, "is not set", remedy)]
    reached = await _check_public_address(url)
    fault = await remotes.validate_notification_url(opened.engine.client, url)
    if fault is None:
        return [reached, DoctorCheck("handshake", DoctorCheckState.OK, f"{url} answers as providers want it")]
    remedy = "Start `postroom serve` behind it; check DNS, certificate, proxy and firewall."
    return [reached, DoctorCheck("handshake", DoctorCheckState.FAIL, f"{url}: {fault}", remedy)]


async def _check_public_address(url: str) -> "DoctorCheck":
    """As far as can be told from here: an address that is not of the internet is reached by no provider."""
    import socket
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    from postroom.cli.doctor_checks import DoctorCheck, DoctorCheckState
    from postroom.config import LOOPBACK

    host = urlsplit(url).hostname or ""
    if host in LOOPBACK:
        return DoctorCheck(
            "public url", DoctorCheckState.WARN, f"{url} is this machine: for development with a simulator"
        )
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError:
        remedy = "Register the name, or set POSTROOM_PUBLIC_URL to one that is."
        return DoctorCheck("public url", DoctorCheckState.FAIL, f"the name {host} is not known", remedy)
    if not any(ip_address(each[4][0]).is_global for each in found):
        remedy = "Make sure that the name has a public address outside of this network."
        return DoctorCheck("public url", DoctorCheckState.WARN, f"{host} has a private address here", remedy)
    return DoctorCheck("public url", DoctorCheckState.OK, f"{host} has a public address")


def _has_failed(check: "DoctorCheck") -> bool:
    from postroom.cli.doctor_checks import DoctorCheckState

    return check.state is DoctorCheckState.FAIL


# Mailboxes


async def _select_mailboxes(opened: SubscriptionCommandContext, mailbox_name: str | None) -> "list[Mailbox]":
    from postroom.errors import OperatorError
    from postroom.store import mailboxes

    async with opened.engine.database.transaction(opened.organization) as connection:
        found = await (
            mailboxes.find(connection, mailbox_name) if mailbox_name else mailboxes.list_all(connection)
        )
    connected = [each for each in found if each.disconnected_at is None]
    if mailbox_name and not connected:
        raise OperatorError("There is no such mailbox. `postroom subscriptions list` shows those there are.")
    return connected


async def _find_live(opened: SubscriptionCommandContext, mailbox: "Mailbox") -> "Subscription | None":
    from postroom.store import subscriptions

    async with opened.engine.database.transaction(opened.organization) as connection:
        rows = await subscriptions.list_by_mailbox(connection, mailbox.id)
    return next((row for row in rows if row.is_live and row.seconds_left > 0), None)


async def _check_mailbox(opened: SubscriptionCommandContext, mailbox: "Mailbox") -> MailboxSubscriptionResult:
    """A channel in the database and at the provider, where that lists them."""
    from postroom.errors import PostroomError

    live = await _find_live(opened, mailbox)
    words = f"stands until {live.expires_at:%Y-%m-%d %H:%M} UTC" if live else "has no channel"
    ok = live is not None
    if live is not None and live.provider_subscription_id is not None:
        try:
            listed = await opened.engine.remote(mailbox).list_subscriptions()
        except PostroomError as error:
            ok, words = False, str(error)
        else:
            ok = live.provider_subscription_id in [each.provider_subscription_id for each in listed]
            words = words if ok else "is gone at the provider; `postroom subscriptions renew` makes it anew"
    return MailboxSubscriptionResult(str(mailbox.id), mailbox.provider, ok, words)


async def _subscribe_mailboxes(
    opened: SubscriptionCommandContext, wanted: "Sequence[Mailbox]", done: str
) -> list[MailboxSubscriptionResult]:
    """Make the work due, do it here as any worker would, and say how it ended."""
    from postroom.store import subscriptions, work
    from postroom.store.work import WorkRequest

    async with opened.engine.database.transaction(opened.organization) as connection:
        await work.restart(
            connection,
            [WorkRequest(opened.organization, WorkKind.SUBSCRIBE, str(each.id)) for each in wanted],
        )
    outcomes: list[MailboxSubscriptionResult] = []
    async with _run_subscribe_worker(opened):
        for each in wanted:
            async with opened.engine.database.transaction(opened.organization) as connection:
                found = await subscriptions.get_progress(connection, each.id, WorkKind.SUBSCRIBE)
            waited = 0.0
            while not found.settled and waited < WAIT_SECONDS:
                await asyncio.sleep(0.1)
                waited += 0.1
                async with opened.engine.database.transaction(opened.organization) as connection:
                    found = await subscriptions.get_progress(connection, each.id, WorkKind.SUBSCRIBE)
            ok = found.is_live and found.settled
            words = done if ok else found.error or "did not end in time; workers go on with it"
            outcomes.append(MailboxSubscriptionResult(str(each.id), each.provider, ok, words))
    return outcomes


@asynccontextmanager
async def _run_subscribe_worker(opened: SubscriptionCommandContext) -> AsyncGenerator[None]:
    """A worker for this kind alone, while the block runs. Others may be quicker; leases keep them apart."""
    from postroom import worker

    stop = asyncio.Event()
    handlers = {WorkKind.SUBSCRIBE: opened.engine.handlers[WorkKind.SUBSCRIBE]}
    limits = worker.worker_limits(opened.engine.settings)
    running = asyncio.create_task(worker.run(opened.engine.database, handlers, limits, stop))
    try:
        yield
    finally:
        stop.set()
        await running


# Output


def _print_summary(
    found: "Sequence[DoctorCheck]", outcomes: Sequence[MailboxSubscriptionResult], *, json: bool
) -> ExitCode:
    _print_results(found, outcomes, json=json)
    bad = any(_has_failed(each) for each in found) or any(not each.ok for each in outcomes)
    if not json:
        good = sum(each.ok for each in outcomes)
        told = f"{good} of {len(outcomes)} mailboxes have their push channel."
        typer.echo(
            f"{'FAILED' if bad else 'Success'}: {told if outcomes else 'no mailbox is connected yet.'}"
        )
    return ExitCode.FAILED if bad else ExitCode.OK


def _print_results(
    found: "Sequence[DoctorCheck]", outcomes: Sequence[MailboxSubscriptionResult], *, json: bool
) -> None:
    from postroom.cli import output

    if json:
        output.print_json(
            {"checks": [asdict(each) for each in found], "mailboxes": [asdict(each) for each in outcomes]}
        )
        return
    for each in found:
        typer.echo(f"{each.state:<4}  {each.name:<10}  {each.found}")
        if each.remedy:
            typer.echo(f"      {'':<10}  {each.remedy}")
    for outcome in outcomes:
        typer.echo(
            f"{'ok' if outcome.ok else 'fail':<4}  {outcome.provider:<10}  {outcome.mailbox}: {outcome.words}"
        )


def _run_command(act: Callable[[SubscriptionCommandContext], Coroutine[Any, Any, ExitCode]]) -> ExitCode:
    from postroom.cli import startup

    settings = startup.load_command_settings("subscriptions")
    with startup.database_url(settings) as url:
        return interrupts.run_async(_open_and_run(settings, url, act))


async def _open_and_run(
    settings: "Settings", url: str, act: Callable[[SubscriptionCommandContext], Coroutine[Any, Any, ExitCode]]
) -> ExitCode:
    from postroom.cli import startup
    from postroom.store import database, health
    from postroom.wiring.engine import open_engine

    await startup.require_ready_database(url)
    name = health.process_name("subscriptions")
    async with (
        database.open_database(url, pool_size=5, name=name) as opened,
        open_engine(settings, opened) as engine,
    ):
        return await act(SubscriptionCommandContext(engine, engine.organization))
