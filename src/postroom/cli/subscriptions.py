"""`postroom subscriptions`: create, renew, list and check subscriptions.

`create` and `renew` enqueue work and run a worker for it; its steps are in `flow.mailboxes.subscribe`. The
checks are here.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import uuid4

import typer

from postroom import interrupts
from postroom.cli.command_worker import run_worker
from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption
from postroom.model import ProviderName, WorkKind

if TYPE_CHECKING:
    from postroom.cli.doctor_check import DoctorCheck
    from postroom.config import Settings
    from postroom.engine import Engine
    from postroom.model import OrganizationId
    from postroom.store.mailboxes import Mailbox
    from postroom.store.subscriptions import Subscription

Result = TypeVar("Result")
WAIT_SECONDS = 90

group = typer.Typer(
    name="subscriptions",
    help="Manage subscriptions, which notify Postroom of new mail.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom subscriptions list
  postroom subscriptions check""",
)
MailboxOrAllArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MAILBOX",
        help="Address, ID or start of the ID of one mailbox [default: all mailboxes]",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class SubscriptionCommandContext:
    """What the commands of this group need."""

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
def create(mailbox: MailboxOrAllArgument = None, *, json: JsonOption = False) -> ExitCode:
    """Create missing subscriptions.

    Checks the public URL and the push handshake first. Workers do this automatically. This command needs
    no running worker, and shows immediately whether it works. Exit code 1 if anything failed.
    """
    return _run_command(lambda context: _create(context, mailbox, json=json))


@group.command(
    epilog="""\b
Examples:
  postroom subscriptions renew
  postroom subscriptions renew jane@example.org"""
)
def renew(mailbox: MailboxOrAllArgument = None, *, json: JsonOption = False) -> ExitCode:
    """Renew subscriptions now.

    Those that are gone or use another URL are recreated.
    """
    return _run_command(lambda context: _renew(context, mailbox, json=json))


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom subscriptions list
  postroom subscriptions list --json | jq '.[] | select(.status != "active")'""",
)
def list_all(*, json: JsonOption = False) -> None:
    """List all subscriptions, including recently replaced ones."""
    _run_command(lambda context: _list(context, json=json))


@group.command(
    epilog="""\b
Examples:
  postroom subscriptions check
  postroom subscriptions check --json"""
)
def check(mailbox: MailboxOrAllArgument = None, *, json: JsonOption = False) -> ExitCode:
    """Check that pushes arrive: public URL, handshake, subscriptions.

    Sends a test push to the public URL for each Microsoft 365 mailbox, and renews the watch of each Gmail
    mailbox, which makes Gmail send a push. Exit code 1 if a check fails.
    """
    return _run_command(lambda context: _check(context, mailbox, json=json))


async def _create(context: SubscriptionCommandContext, mailbox_name: str | None, *, json: bool) -> ExitCode:
    checks = await _check_reachability(context)
    if context.engine.subscribe.unpushed == frozenset(ProviderName):
        checks.append(_fail_without_public_url())
    mailboxes = [
        mailbox
        for mailbox in await _select_mailboxes(context, mailbox_name)
        if mailbox.provider not in context.engine.subscribe.unpushed
    ]
    if any(map(_has_failed, checks)):
        _print_results(checks, [], json=json)
        return ExitCode.FAILED
    missing = [mailbox for mailbox in mailboxes if await _find_live(context, mailbox) is None]
    existing = [
        MailboxSubscriptionResult(str(mailbox.id), mailbox.provider, ok=True, words="exists already")
        for mailbox in mailboxes
        if mailbox not in missing
    ]
    return _print_summary(
        checks, existing + await _subscribe_mailboxes(context, missing, "created"), json=json
    )


async def _renew(context: SubscriptionCommandContext, mailbox_name: str | None, *, json: bool) -> ExitCode:
    return _print_summary(
        [],
        await _subscribe_mailboxes(context, await _select_mailboxes(context, mailbox_name), "renewed"),
        json=json,
    )


async def _check(context: SubscriptionCommandContext, mailbox_name: str | None, *, json: bool) -> ExitCode:
    checks = await _check_reachability(context)
    can_push = not any(map(_has_failed, checks))
    results = [
        await _check_mailbox(context, mailbox, can_push=can_push)
        for mailbox in await _select_mailboxes(context, mailbox_name)
    ]
    return _print_summary(checks, results, json=json)


async def _list(context: SubscriptionCommandContext, *, json: bool) -> ExitCode:
    from postroom.cli import output
    from postroom.store import mailboxes, subscriptions

    async with context.engine.database.transaction(context.organization) as connection:
        by_id = {mailbox.id: mailbox for mailbox in await mailboxes.list_all(connection)}
        rows = await subscriptions.list_all(connection)
    if json:
        output.print_json([_to_json(row, by_id[row.mailbox]) for row in rows])
    else:
        output.print_table(
            ("MAILBOX", "PROVIDER", "STATUS", "EXPIRES", "RENEWED", "LAST NOTIFIED"),
            [
                (
                    by_id[row.mailbox].address,
                    by_id[row.mailbox].provider,
                    row.status if row.confirmed_at else "requested",
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


# Reachability


async def _check_reachability(context: SubscriptionCommandContext) -> "list[DoctorCheck]":
    """Check how notifications arrive, and the public URL and its handshake if there is one."""
    from postroom.cli import notification_checks
    from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState

    settings = context.engine.settings
    gmail = notification_checks.check_gmail(settings)
    checks = [*([gmail] if gmail else []), notification_checks.check_outlook(settings)]
    url = settings.public_url
    if url is None:
        return checks
    checks.append(await _check_public_address(url))
    notification_url = f"{context.engine.subscribe.prefix(ProviderName.OUTLOOK)}{uuid4()}"
    fault = await context.engine.url_checker.find_handshake_fault(notification_url)
    if fault is None:
        checks.append(DoctorCheck("handshake", DoctorCheckState.OK, f"{url} answers as providers require"))
    else:
        remedy = "Start `postroom serve` there; check DNS, certificate, proxy and firewall."
        checks.append(DoctorCheck("handshake", DoctorCheckState.FAIL, f"{url}: {fault}", remedy))
    return checks + await _check_push_proof(context)


def _fail_without_public_url() -> "DoctorCheck":
    from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState

    remedy = "Set POSTROOM_PUBLIC_URL to the https URL at which providers reach the web process."
    return DoctorCheck("public url", DoctorCheckState.FAIL, "not set", remedy)


async def _check_push_proof(context: SubscriptionCommandContext) -> "list[DoctorCheck]":
    """Check what Gmail pushes are verified with: the settings, and that the signing keys can be fetched."""
    from postroom.cli import notification_checks
    from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState
    from postroom.errors import PostroomError

    settings = context.engine.settings
    check = notification_checks.check_push_proof(settings)
    if check is None or check.state is DoctorCheckState.FAIL or settings.pubsub_audience is None:
        return [check] if check else []
    try:
        for provider in context.engine.providers.values():
            await provider.push.refresh_keys()
    except PostroomError as error:
        remedy = f"Allow this machine to reach {settings.google_certs_url}."
        return [DoctorCheck("push proof", DoctorCheckState.FAIL, f"no signing keys: {error}", remedy)]
    return [check]


async def _check_public_address(url: str) -> "DoctorCheck":
    """Check that the host resolves to a public IP address, as seen from this machine."""
    import socket
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState
    from postroom.config import LOOPBACK

    host = urlsplit(url).hostname or ""
    if host in LOOPBACK:
        return DoctorCheck(
            "public url", DoctorCheckState.WARN, f"{url} is this machine: works with a simulator only"
        )
    try:
        resolved = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError:
        remedy = "Add a DNS record, or set POSTROOM_PUBLIC_URL to a name that resolves."
        return DoctorCheck("public url", DoctorCheckState.FAIL, f"{host} does not resolve", remedy)
    if not any(ip_address(entry[4][0]).is_global for entry in resolved):
        remedy = "Make sure that the name resolves to a public IP address outside this network."
        return DoctorCheck(
            "public url", DoctorCheckState.WARN, f"{host} resolves to a private IP address here", remedy
        )
    return DoctorCheck("public url", DoctorCheckState.OK, f"{host} resolves to a public IP address")


def _has_failed(check: "DoctorCheck") -> bool:
    from postroom.cli.doctor_check import DoctorCheckState

    return check.state is DoctorCheckState.FAIL


# Mailboxes


async def _select_mailboxes(context: SubscriptionCommandContext, mailbox_name: str | None) -> "list[Mailbox]":
    from postroom.errors import OperatorError
    from postroom.store import mailboxes

    async with context.engine.database.transaction(context.organization) as connection:
        matches = await (
            mailboxes.find(connection, mailbox_name) if mailbox_name else mailboxes.list_all(connection)
        )
    connected = [mailbox for mailbox in matches if mailbox.disconnected_at is None]
    if mailbox_name and not connected:
        raise OperatorError("No such mailbox. Run `postroom mailboxes list` to see all.")
    return connected


async def _find_live(context: SubscriptionCommandContext, mailbox: "Mailbox") -> "Subscription | None":
    from postroom.store import subscriptions

    async with context.engine.database.transaction(context.organization) as connection:
        rows = await subscriptions.list_by_mailbox(connection, mailbox.id)
    return next((row for row in rows if row.is_live and row.seconds_left > 0), None)


async def _check_mailbox(
    context: SubscriptionCommandContext, mailbox: "Mailbox", *, can_push: bool
) -> MailboxSubscriptionResult:
    """Check the subscription in the database, at the provider where possible, and with a push."""
    from postroom.cli import push_checks
    from postroom.errors import PostroomError

    if mailbox.provider in context.engine.subscribe.unpushed:
        words = "is swept; its provider cannot notify this Postroom"
        return MailboxSubscriptionResult(str(mailbox.id), mailbox.provider, ok=True, words=words)
    live = await _find_live(context, mailbox)
    words = f"active until {live.expires_at:%Y-%m-%d %H:%M} UTC" if live else "has no subscription"
    ok = live is not None
    if live is not None:
        try:
            ok = await context.engine.remote(mailbox).find_subscription(live.remote_subscription) is not None
        except PostroomError as error:
            ok, words = False, str(error)
        else:
            words = words if ok else "no longer exists at the provider; run `postroom subscriptions renew`"
    if ok and live is not None and can_push:
        push = await push_checks.check_push(context.engine, mailbox, live)
        ok, words = push.ok, f"{words}; {push.words}"
    return MailboxSubscriptionResult(str(mailbox.id), mailbox.provider, ok, words)


async def _subscribe_mailboxes(
    context: SubscriptionCommandContext, mailboxes: "Sequence[Mailbox]", verb: str
) -> list[MailboxSubscriptionResult]:
    """Enqueue subscribe work, run it as a worker would, and return the results."""
    from postroom.store import subscriptions, work
    from postroom.store.work import WorkRequest

    async with context.engine.database.transaction(context.organization) as connection:
        await work.restart(
            connection,
            [WorkRequest(context.organization, WorkKind.SUBSCRIBE, str(mailbox.id)) for mailbox in mailboxes],
        )
    results: list[MailboxSubscriptionResult] = []
    async with run_worker(context.engine, WorkKind.SUBSCRIBE):
        for mailbox in mailboxes:
            async with context.engine.database.transaction(context.organization) as connection:
                progress = await subscriptions.get_progress(connection, mailbox.id, WorkKind.SUBSCRIBE)
            waited = 0.0
            while not progress.settled and waited < WAIT_SECONDS:
                await asyncio.sleep(0.1)
                waited += 0.1
                async with context.engine.database.transaction(context.organization) as connection:
                    progress = await subscriptions.get_progress(connection, mailbox.id, WorkKind.SUBSCRIBE)
            ok = progress.is_live and progress.settled
            words = verb if ok else progress.error or "timed out; workers will continue"
            results.append(MailboxSubscriptionResult(str(mailbox.id), mailbox.provider, ok, words))
    return results


# Output


def _print_summary(
    checks: "Sequence[DoctorCheck]", results: Sequence[MailboxSubscriptionResult], *, json: bool
) -> ExitCode:
    _print_results(checks, results, json=json)
    has_failed = any(map(_has_failed, checks)) or any(not result.ok for result in results)
    if not json:
        subscribed = sum(result.ok for result in results)
        count = f"{subscribed} of {len(results)} mailboxes have a subscription, or need none."
        summary = count if results else "no mailbox is connected yet."
        typer.echo(f"{'FAILED' if has_failed else 'Success'}: {summary}")
    return ExitCode.FAILED if has_failed else ExitCode.OK


def _print_results(
    checks: "Sequence[DoctorCheck]", results: Sequence[MailboxSubscriptionResult], *, json: bool
) -> None:
    from postroom.cli import output

    if json:
        output.print_json({"checks": [*map(asdict, checks)], "mailboxes": [*map(asdict, results)]})
        return
    for check in checks:
        typer.echo(f"{check.state:<4}  {check.name:<10}  {check.found}")
        if check.remedy:
            typer.echo(f"      {'':<10}  {check.remedy}")
    for result in results:
        typer.echo(
            f"{'ok' if result.ok else 'fail':<4}  {result.provider:<10}  {result.mailbox}: {result.words}"
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
    from postroom.wiring.database import open_process_database
    from postroom.wiring.engine import open_engine

    await startup.require_ready_database(url)
    async with (
        open_process_database(settings, url, "subscriptions", pool_size=5) as opened,
        open_engine(settings, opened) as engine,
    ):
        return await act(SubscriptionCommandContext(engine, engine.organization))
