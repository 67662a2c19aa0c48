"""`postroom mailboxes`: connect them, see how they are, pause, resume, disconnect."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar
from uuid import uuid4

import typer

from postroom import interrupts
from postroom.cli import app_credentials as applications
from postroom.cli import progress
from postroom.cli.exit_codes import ExitCode
from postroom.errors import OperatorError, PermanentError, SettingsError
from postroom.model import ContentPolicy, OrganizationId, ProviderName, WorkKind

if TYPE_CHECKING:
    from uuid import UUID

    from postroom.config import Settings
    from postroom.engine import Engine
    from postroom.store.database import Connection
    from postroom.store.mailboxes import Mailbox

Result = TypeVar("Result")

group = typer.Typer(
    name="mailboxes",
    help="Mailboxes: connect, list, show, pause, resume, disconnect, policy, backfill.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom mailboxes connect gmail
  postroom mailboxes list""",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Named = Annotated[
    str, typer.Argument(metavar="MAILBOX", help="Its address, its id, or the beginning of its id.")
]
POLL_SECONDS = 0.5


class MailboxCommandContext(NamedTuple):
    """What a command works with."""

    engine: "Engine"
    organization: OrganizationId


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes connect gmail
  postroom mailboxes connect outlook --policy documents
  postroom mailboxes connect outlook --app-only --tenant 72f9…1a --client-id 0b1c…9d \\
      --mailbox invoices@example.org --secret-file /run/secrets/postroom"""
)
def connect(
    provider: Annotated[ProviderName, typer.Argument(help="Where the mailbox is.")],
    policy: Annotated[
        ContentPolicy | None,
        typer.Option(help="How much is kept. [default: as it is, else full]", show_default=False),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Accept only this address; else whoever signs in.", show_default=False)
    ] = None,
    *,
    app_only: Annotated[
        bool, typer.Option("--app-only", help="With an application's own credential; nobody signs in.")
    ] = False,
    tenant: Annotated[str | None, typer.Option(help="App-only: the id of the tenant.")] = None,
    client_id: Annotated[str | None, typer.Option(help="App-only: the application's id.")] = None,
    mailbox: Annotated[str | None, typer.Option(help="App-only: the address of the mailbox.")] = None,
    secret_file: Annotated[Path | None, typer.Option(help="App-only: file with the client secret.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="App-only: PEM file with the certificate and its private key.")
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            help="App-only: the folder, by well-known name or id. [default: as it is, else Inbox]",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> ExitCode:
    """Connect a mailbox: by its owner's sign-in in a browser, or app-only.

    By sign-in, a link is printed and, where there is a screen, opened; then this waits for the result.
    A mailbox that is connected already is connected again, and goes on where it stopped.
    """
    given = applications.AppOnlyOptions(tenant, client_id, mailbox, secret_file, certificate, folder)
    if not app_only:
        if any(each is not None for each in given):
            raise SettingsError("These options are for app-only mailboxes. Add --app-only.")
        return run_command(lambda at: _connect_by_sign_in(at, provider, policy, address, json=json))
    if provider is not ProviderName.OUTLOOK:
        raise SettingsError(
            "App-only is for outlook: Gmail mailboxes are connected by their owner's consent."
        )
    if address is not None:
        raise SettingsError("--address is for a sign-in. App-only takes the address as --mailbox.")
    return _connect_app_only(given, policy, json=json)


@group.command(
    "list",
    epilog="""\b
Examples:
  postroom mailboxes list
  postroom mailboxes list --json | jq '.[] | select(.health != "active")'""",
)
def list_(*, json: Json = False) -> None:
    """List the mailboxes and how they are."""

    async def act(at: MailboxCommandContext) -> "list[Mailbox]":
        from postroom.store import mailboxes

        async with at.engine.database.transaction(at.organization) as connection:
            return await mailboxes.list_all(connection)

    from postroom.cli import output

    found = run_command(act)
    if json:
        output.print_json([_to_json(each) for each in found])
        return
    rows = [
        (
            str(each.id)[:8],
            each.address,
            each.provider,
            each.policy,
            describe_state(each),
            each.last_synced_at,
        )
        for each in found
    ]
    output.print_table(("ID", "ADDRESS", "PROVIDER", "POLICY", "STATE", "LAST SYNC"), rows)


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes show ann@example.org
  postroom mailboxes show 5f0c --json"""
)
def show(named: Named, *, json: Json = False) -> ExitCode:
    """Show one mailbox: health, last sync, notification, error and audit, how to reconnect."""

    async def act(at: MailboxCommandContext) -> ExitCode:
        mailbox = await find_mailbox(at, named)
        more = {"reconnect": await _describe_reconnect(at, mailbox), **await _read_mirror_state(at, mailbox)}
        return _print_mailbox(mailbox, json=json, more=more)

    return run_command(act)


@group.command(epilog="\b\nExamples:\n  postroom mailboxes pause ann@example.org")
def pause(named: Named, *, json: Json = False) -> ExitCode:
    """Fetch nothing from a mailbox until it is resumed. Its subscription and its place are kept."""

    async def act(at: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(at, named)
        changed = await lifecycle.pause(at.engine.connect, at.organization, mailbox.id)
        words = "Paused." if changed else "It is paused or disconnected already."
        return _print_mailbox(await find_mailbox(at, str(mailbox.id)), json=json, words=words)

    return run_command(act)


@group.command(epilog="\b\nExamples:\n  postroom mailboxes resume ann@example.org")
def resume(named: Named, *, json: Json = False) -> ExitCode:
    """Let a mailbox go on where it stopped: one that is paused, or one that waits after an error."""

    async def act(at: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(at, named)
        changed = await lifecycle.resume(at.engine.connect, at.organization, mailbox.id)
        words = "Resumed." if changed else "It was not paused. What it waits for is tried now."
        return _print_mailbox(await find_mailbox(at, str(mailbox.id)), json=json, words=words)

    return run_command(act)


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes policy ann@example.org metadata
  postroom mailboxes policy 5f0c full"""
)
def policy(
    named: Named,
    kept: Annotated[ContentPolicy, typer.Argument(help="How much is kept from now on.")],
    *,
    json: Json = False,
) -> ExitCode:
    """Keep more or less of a mailbox: less is purged at once, more is fetched by its next syncs.

    More than its owner allowed needs a new sign-in.
    """

    async def act(at: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(at, named)
        changed = await lifecycle.set_policy(at.engine.connect, at.organization, mailbox.id, kept)
        words = "Changed." if changed else "It was so already."
        return _print_mailbox(await find_mailbox(at, str(mailbox.id)), json=json, words=words)

    return run_command(act)


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes disconnect ann@example.org
  postroom mailboxes disconnect 5f0c --purge --yes"""
)
def disconnect(
    named: Named,
    *,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the mail that was kept, too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a purge.")] = False,
    json: Json = False,
) -> ExitCode:
    """End a connection: no more notifications, access given back and erased. The mail stays, or goes."""
    if purge and not yes:
        if not sys.stdin.isatty():
            raise SettingsError("A purge deletes mail for ever. Add --yes to do it without being asked.")
        typer.confirm("Delete the mailbox and all its mail here, for ever?", abort=True)

    async def act(at: MailboxCommandContext) -> ExitCode:
        from postroom.cli import output
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(at, named)
        await lifecycle.disconnect(
            at.engine.connect, at.engine.tokens, at.organization, mailbox.id, purge=purge
        )
        if json:
            output.print_json({"id": mailbox.id, "disconnected": True, "purged": purge})
        else:
            typer.echo("Disconnected, and its mail deleted." if purge else "Disconnected. Its mail is kept.")
        return ExitCode.OK

    return run_command(act)


def describe_state(mailbox: "Mailbox") -> str:
    """One word for a list."""
    if mailbox.disconnected_at:
        return "disconnected"
    return "paused" if mailbox.paused_at else mailbox.health


def run_command(act: Callable[[MailboxCommandContext], Awaitable[Result]]) -> Result:
    from postroom.cli import startup

    settings = startup.load_command_settings("cli")
    with startup.database_url(settings) as url:
        return interrupts.run_async(_open_and_run(settings, url, act))


async def _open_and_run(
    settings: "Settings", url: str, act: Callable[[MailboxCommandContext], Awaitable[Result]]
) -> Result:
    from postroom.cli import startup
    from postroom.flow.mailboxes import connect as flow
    from postroom.store import database, health
    from postroom.wiring.engine import open_engine

    await startup.require_ready_database(url)
    organization = OrganizationId(settings.organization)
    async with (
        database.open_database(url, pool_size=8, name=health.process_name("cli")) as opened,
        open_engine(settings, opened, url=startup.web_url(settings)) as engine,
    ):
        await flow.ensure_organization(opened, organization)
        return await act(MailboxCommandContext(engine, organization))


async def _describe_reconnect(at: MailboxCommandContext, mailbox: "Mailbox") -> str:
    """How it is connected again."""
    from postroom.store import mailboxes

    async with at.engine.database.transaction(at.organization) as connection:
        app_only = mailbox.id in await mailboxes.list_app_only_ids(connection)
    if app_only or mailbox.provider not in at.engine.connect.sign_ins:
        return f"postroom mailboxes connect {mailbox.provider} --app-only …"
    return f"{at.engine.connect.url}/oauth/{mailbox.provider}/authorize?mailbox={mailbox.id}"


async def _read_mirror_state(at: MailboxCommandContext, mailbox: "Mailbox") -> dict[str, Any]:
    """How its mirror is: what a listing has shown, what waits for another attempt, the last audit."""
    from postroom.store import audits, failures, sync_progress

    async with at.engine.database.transaction(at.organization) as connection:
        progress = await sync_progress.get_progress(connection, mailbox.id, WorkKind.SYNC)
        failing = await failures.count_open(connection, mailbox.id)
        audit = await audits.get_latest(connection, mailbox.id)
    found = None
    if audit is not None:
        found = (
            f"{audit.completed_at}: {audit.listed} listed, {audit.missing} missing, {audit.extra} extra,"
            f" {audit.different} different"
        )
    listing = f"{progress.listed} of about {progress.expected}" if progress.listing else "complete"
    return {"listing": listing, "failures": failing, "last_audit": found}


async def find_mailbox(at: MailboxCommandContext, named: str) -> "Mailbox":
    async with at.engine.database.transaction(at.organization) as connection:
        return await find_one(connection, named)


async def find_one(connection: "Connection", named: str) -> "Mailbox":
    """The mailbox of this address, or whose id begins so."""
    from postroom.store import mailboxes

    found = await mailboxes.find(connection, named)
    if not found:
        raise PermanentError("There is no such mailbox. `postroom mailboxes list` shows all.")
    if len(found) > 1:
        raise PermanentError(
            "Several mailboxes are called so. Give the id, as `postroom mailboxes list` has it."
        )
    return found[0]


def _connect_app_only(
    given: applications.AppOnlyOptions, policy: ContentPolicy | None, *, json: bool
) -> ExitCode:
    credential, address, folder = applications.read_options(given)

    async def act(at: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import connect as flow

        done = await flow.connect_app_only(
            at.engine.connect, at.organization, credential, address=address, folder=folder, policy=policy
        )
        return _print_mailbox(
            done.mailbox, json=json, words="Connected." if done.is_new else "Connected again."
        )

    return run_command(act)


async def _connect_by_sign_in(
    at: MailboxCommandContext,
    provider: ProviderName,
    policy: ContentPolicy | None,
    address: str | None,
    *,
    json: bool,
) -> ExitCode:
    from postroom.flow.mailboxes import invitations
    from postroom.flow.mailboxes.connect import LOGIN_SECONDS
    from postroom.flow.mailboxes.invitations import Invitation
    from postroom.flow.mailboxes.login_refusals import ConnectRequest

    if provider not in at.engine.connect.sign_ins:
        raise SettingsError(
            f"Nobody can sign in at {provider} yet. Set what docs/how-to says:"
            " POSTROOM_GOOGLE_CLIENT_ID, _SECRET and POSTROOM_PUBSUB_TOPIC, or POSTROOM_MICROSOFT_CLIENT_ID"
            " and _SECRET."
        )
    login = uuid4()
    link = invitations.build_url(
        at.engine.connect, Invitation(at.organization, provider, ConnectRequest(policy, address), login)
    )
    progress.print_status("Open this link in a browser and allow the access; it is good for ten minutes.")
    typer.echo(link, err=json)
    await _warn_without_web_process(at)
    _open_browser(link)
    try:
        async with asyncio.timeout(2 * LOGIN_SECONDS):
            return await _wait_for_login(at, login, json=json)
    except TimeoutError:
        raise OperatorError("Nobody signed in. Run the command again for a new link.") from None


async def _warn_without_web_process(at: MailboxCommandContext) -> None:
    from postroom.store import health

    if not (await health.read_health(at.engine.database)).of_role("web"):
        progress.print_status(
            "No web process is connected, and the link leads to it: start one with `postroom serve`."
        )


def _open_browser(link: str) -> None:
    """Only where there is a screen: a browser in a terminal is no help."""
    import webbrowser

    from postroom import config

    if config.has_display() and sys.stdout.isatty():
        webbrowser.open(link)


async def _wait_for_login(at: MailboxCommandContext, login: "UUID", *, json: bool) -> ExitCode:
    """The ledger tells how the login ended."""
    from postroom.store import ledger

    while True:
        async with at.engine.database.transaction(at.organization) as connection:
            told = await ledger.list_by_entity(connection, "login", str(login))
        if told and told[0].event_type == "LOGIN_COMPLETED":
            mailbox = await find_mailbox(at, str(told[0].payload["mailbox"]))
            return _print_mailbox(mailbox, json=json, words="Connected.")
        if told:
            reason = str(told[0].payload["reason"]).replace("_", " ")
            raise PermanentError(f"Nothing was connected ({reason}); the page in the browser says why.")
        await asyncio.sleep(POLL_SECONDS)


def _print_mailbox(
    mailbox: "Mailbox", *, json: bool, words: str | None = None, more: dict[str, Any] | None = None
) -> ExitCode:
    from postroom.cli import output

    plain = _to_json(mailbox) | (more or {})
    if json:
        output.print_json(plain)
        return ExitCode.OK
    if words:
        typer.echo(words)
    output.print_table(("FIELD", "VALUE"), [(name.replace("_", " "), value) for name, value in plain.items()])
    return ExitCode.OK


def _to_json(mailbox: "Mailbox") -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(mailbox), "state": describe_state(mailbox)}
