"""`postroom mailboxes`: connect, list, show, pause, resume, disconnect, and set the content policy.

Also opens the engine and finds the named mailbox for other commands. `flow.mailboxes` does the work.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import typer

from postroom import interrupts
from postroom.cli import app_credentials as applications
from postroom.cli import progress
from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption, MailboxArgument
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
    help="Connect, list and manage mailboxes.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom mailboxes connect gmail
  postroom mailboxes list""",
)
PolicyOption = Annotated[
    ContentPolicy | None,
    typer.Option(
        help="How much of the mail to keep [default: unchanged; full for new mailboxes]", show_default=False
    ),
]
POLL_SECONDS = 0.5
_SIGN_IN_NOT_CONFIGURED: Final = {
    ProviderName.GMAIL: (
        "Sign-in at Google is not configured. Set POSTROOM_GOOGLE_CLIENT_ID, POSTROOM_GOOGLE_CLIENT_SECRET"
        " and POSTROOM_PUBSUB_TOPIC; see docs/how-to/google.md."
    ),
    ProviderName.OUTLOOK: (
        "Sign-in at Microsoft is not configured. Set POSTROOM_MICROSOFT_CLIENT_ID and"
        " POSTROOM_MICROSOFT_CLIENT_SECRET; see docs/how-to/microsoft.md."
    ),
}


class MailboxCommandContext(NamedTuple):
    """What the commands of this group need."""

    engine: "Engine"
    organization: OrganizationId


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes connect gmail
  postroom mailboxes connect outlook --policy documents
  postroom mailboxes connect outlook --app-only --tenant 72f9…1a --client-id 0b1c…9d \\
      --mailbox invoices@example.org --secret-file /run/secrets/postroom
  postroom mailboxes connect gmail --app-only --key-file key.json --mailbox invoices@example.org"""
)
def connect(
    provider: Annotated[ProviderName, typer.Argument(metavar="PROVIDER", help="Provider of the mailbox.")],
    policy: PolicyOption = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Accept this address only [default: any address]", show_default=False
        ),
    ] = None,
    *,
    app_only: Annotated[
        bool, typer.Option("--app-only", help="Use an application credential instead of a sign-in.")
    ] = False,
    tenant: applications.TenantOption = None,
    client_id: applications.ClientIdOption = None,
    mailbox: applications.AddressOption = None,
    secret_file: applications.SecretFileOption = None,
    certificate: applications.CertificateOption = None,
    folder: applications.FolderOption = None,
    key_file: applications.KeyFileOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Connect a mailbox by sign-in or with an application credential.

    The owner signs in with a browser: this prints a link, opens it if there is a display, and waits for the
    result. Connecting a mailbox again renews its access; its sync continues where it stopped.
    """
    options = applications.AppOnlyOptions(
        tenant, client_id, mailbox, secret_file, certificate, folder, key_file
    )
    if not app_only:
        if any(option is not None for option in options):
            raise SettingsError("An option was given that requires --app-only. Add --app-only.")
        return run_command(lambda context: _connect_by_sign_in(context, provider, policy, address, json=json))
    if address is not None:
        raise SettingsError("--address applies to a sign-in. With --app-only, give the address as --mailbox.")
    return _connect_app_only(provider, options, policy, json=json)


@group.command(
    "list",
    epilog="""\b
Examples:
  postroom mailboxes list
  postroom mailboxes list --json | jq '.[] | select(.health != "active")'""",
)
def list_(*, json: JsonOption = False) -> None:
    """List mailboxes and their state."""

    async def act(context: MailboxCommandContext) -> "list[Mailbox]":
        from postroom.store import mailboxes

        async with context.engine.database.transaction(context.organization) as connection:
            return await mailboxes.list_all(connection)

    from postroom.cli import output

    mailboxes = run_command(act)
    if json:
        output.print_json([_to_json(mailbox) for mailbox in mailboxes])
        return
    rows = [
        (
            str(mailbox.id)[:8],
            mailbox.address,
            mailbox.provider,
            mailbox.policy,
            describe_state(mailbox),
            mailbox.health_cause,
            mailbox.last_synced_at,
        )
        for mailbox in mailboxes
    ]
    output.print_table(("ID", "ADDRESS", "PROVIDER", "POLICY", "STATE", "CAUSE", "LAST SYNC"), rows)


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes show ann@example.org
  postroom mailboxes show 5f0c --json"""
)
def show(mailbox_name: MailboxArgument, *, json: JsonOption = False) -> ExitCode:
    """Show a mailbox: state, last error, audit, and how to reconnect."""

    async def act(context: MailboxCommandContext) -> ExitCode:
        mailbox = await find_mailbox(context, mailbox_name)
        more = {
            **await _read_problem(context, mailbox),
            "reconnect": await _describe_reconnect(context, mailbox),
            **await _read_mirror_state(context, mailbox),
        }
        return _print_mailbox(mailbox, json=json, more=more)

    return run_command(act)


@group.command(epilog="\b\nExamples:\n  postroom mailboxes pause ann@example.org")
def pause(mailbox_name: MailboxArgument, *, json: JsonOption = False) -> ExitCode:
    """Pause a mailbox: fetch nothing until it is resumed.

    Its subscription and cursor are kept.
    """

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(context, mailbox_name)
        changed = await lifecycle.pause(context.engine.connect, context.organization, mailbox.id)
        note = "Paused." if changed else "Already paused or disconnected."
        return _print_mailbox(await find_mailbox(context, str(mailbox.id)), json=json, note=note)

    return run_command(act)


@group.command(epilog="\b\nExamples:\n  postroom mailboxes resume ann@example.org")
def resume(mailbox_name: MailboxArgument, *, json: JsonOption = False) -> ExitCode:
    """Resume a paused mailbox, or retry a failed one. The sync continues where it stopped."""

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(context, mailbox_name)
        changed = await lifecycle.resume(context.engine.connect, context.organization, mailbox.id)
        note = "Resumed." if changed else "Not paused; retrying now."
        return _print_mailbox(await find_mailbox(context, str(mailbox.id)), json=json, note=note)

    return run_command(act)


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes policy ann@example.org metadata
  postroom mailboxes policy 5f0c full"""
)
def policy(
    mailbox_name: MailboxArgument,
    content_policy: Annotated[
        ContentPolicy, typer.Argument(metavar="POLICY", help="How much of the mail to keep.")
    ],
    *,
    json: JsonOption = False,
) -> ExitCode:
    """Change how much of a mailbox is kept.

    Lowering the policy deletes content immediately; raising it fetches content with the next syncs. To store
    more than the owner consented to, reconnect the mailbox.
    """

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(context, mailbox_name)
        changed = await lifecycle.set_policy(
            context.engine.connect, context.organization, mailbox.id, content_policy
        )
        note = "Changed." if changed else "Unchanged: the mailbox already has this policy."
        return _print_mailbox(await find_mailbox(context, str(mailbox.id)), json=json, note=note)

    return run_command(act)


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes disconnect ann@example.org
  postroom mailboxes disconnect 5f0c --purge --yes"""
)
def disconnect(
    mailbox_name: MailboxArgument,
    *,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete the stored mail.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Purge without confirmation.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Disconnect a mailbox.

    Removes its subscription, and revokes and deletes its grant. Stored mail is kept unless --purge is given.
    """
    if purge and not yes:
        if not sys.stdin.isatty():
            raise SettingsError(
                "--purge deletes mail permanently and must be confirmed. Without a terminal, add --yes."
            )
        typer.confirm("Permanently delete this mailbox and all its stored mail?", abort=True)

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.cli import output
        from postroom.flow.mailboxes import lifecycle

        mailbox = await find_mailbox(context, mailbox_name)
        await lifecycle.disconnect(
            context.engine.connect, context.engine.tokens, context.organization, mailbox.id, purge=purge
        )
        if json:
            output.print_json({"id": mailbox.id, "disconnected": True, "purged": purge})
        else:
            typer.echo("Disconnected; its mail was deleted." if purge else "Disconnected; its mail is kept.")
        return ExitCode.OK

    return run_command(act)


def describe_state(mailbox: "Mailbox") -> str:
    """Summarize the state of a mailbox in one word."""
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
    from postroom.wiring.database import open_process_database
    from postroom.wiring.engine import open_engine

    await startup.require_ready_database(url)
    organization = OrganizationId(settings.organization)
    async with (
        open_process_database(settings, url, "cli", pool_size=8) as opened,
        open_engine(settings, opened, url=startup.web_url(settings)) as engine,
    ):
        await flow.ensure_organization(opened, organization)
        return await act(MailboxCommandContext(engine, organization))


async def _describe_reconnect(context: MailboxCommandContext, mailbox: "Mailbox") -> str:
    """Return the command or link that connects the mailbox again."""
    from postroom.store import mailboxes

    async with context.engine.database.transaction(context.organization) as connection:
        app_only = mailbox.id in await mailboxes.list_app_only_ids(connection)
    if app_only or mailbox.provider not in context.engine.connect.sign_ins:
        return f"postroom mailboxes connect {mailbox.provider} --app-only …"
    return context.engine.connect.reconnect_url(mailbox)


async def _read_problem(context: MailboxCommandContext, mailbox: "Mailbox") -> dict[str, Any]:
    """Read what the cause of a problem means, what to do about it, and when Postroom tries again."""
    from postroom.flow.mailboxes import mailbox_health
    from postroom.store.views import mailbox_status

    if mailbox.health_cause is None:
        return {}
    description = mailbox_health.DESCRIPTIONS[mailbox.health_cause]
    async with context.engine.database.transaction(context.organization) as connection:
        status = (await mailbox_status.list_by_mailbox(connection)).get(mailbox.id)
    return {
        "problem": description.meaning,
        "remedy": description.remedy,
        "failed_attempts": status.failed_attempts if status else None,
        "next_attempt_at": status.next_attempt_at if status else None,
    }


async def _read_mirror_state(context: MailboxCommandContext, mailbox: "Mailbox") -> dict[str, Any]:
    """Read listing progress, the number of open failures, and the last audit."""
    from postroom.store import audits, failures, sync_progress

    async with context.engine.database.transaction(context.organization) as connection:
        progress = await sync_progress.get_progress(connection, mailbox.id, WorkKind.SYNC)
        failing = await failures.count_open(connection, mailbox.id)
        audit = await audits.get_latest(connection, mailbox.id)
    last_audit = None
    if audit is not None:
        last_audit = f"{audit.completed_at}: {audit.listed} listed, {audit.missing} missing,"
        last_audit += f" {audit.extra} extra, {audit.different} different"
        if audit.repair_started_at is not None:
            last_audit += f", repair started {audit.repair_started_at}"
    listing = f"{progress.listed} of about {progress.expected}" if progress.listing else "complete"
    return {"listing": listing, "failures": failing, "last_audit": last_audit}


async def find_mailbox(context: MailboxCommandContext, mailbox_name: str) -> "Mailbox":
    async with context.engine.database.transaction(context.organization) as connection:
        return await find_one(connection, mailbox_name)


async def find_one(connection: "Connection", mailbox_name: str) -> "Mailbox":
    """Find the mailbox with this address, or whose ID starts like this."""
    from postroom.store import mailboxes

    matches = await mailboxes.find(connection, mailbox_name)
    if not matches:
        raise PermanentError("No such mailbox. Run `postroom mailboxes list` to see all.")
    if len(matches) > 1:
        raise PermanentError("Several mailboxes match. Give the ID shown by `postroom mailboxes list`.")
    return matches[0]


def _connect_app_only(
    provider: ProviderName,
    options: applications.AppOnlyOptions,
    policy: ContentPolicy | None,
    *,
    json: bool,
) -> ExitCode:
    credential, address, folder = applications.read_options(options, provider)

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import connect as flow

        result = await flow.connect_app_only(
            context.engine.connect,
            context.organization,
            credential,
            address=address,
            provider=provider,
            folder=folder,
            policy=policy,
        )
        return _print_mailbox(
            result.mailbox, json=json, note="Connected." if result.is_new else "Reconnected."
        )

    return run_command(act)


async def _connect_by_sign_in(
    context: MailboxCommandContext,
    provider: ProviderName,
    policy: ContentPolicy | None,
    address: str | None,
    *,
    json: bool,
) -> ExitCode:
    from postroom.flow.mailboxes import invitations
    from postroom.flow.mailboxes.connect import LOGIN_SECONDS
    from postroom.flow.mailboxes.connect_request import ConnectRequest
    from postroom.flow.mailboxes.invitations import Invitation

    if provider not in context.engine.connect.sign_ins:
        raise SettingsError(_SIGN_IN_NOT_CONFIGURED[provider])
    login = uuid4()
    link = invitations.build_url(
        context.engine.connect,
        Invitation(context.organization, provider, ConnectRequest(policy, address), login),
    )
    progress.print_status("Open this link in a browser and grant access. It expires in ten minutes.")
    typer.echo(link, err=json)
    await _warn_without_web_process(context)
    _open_browser(link)
    try:
        async with asyncio.timeout(2 * LOGIN_SECONDS):
            return await _wait_for_login(context, login, json=json)
    except TimeoutError:
        raise OperatorError(
            "Timed out waiting for the sign-in. Run the command again for a new link."
        ) from None


async def _warn_without_web_process(context: MailboxCommandContext) -> None:
    from postroom.store import health

    if not (await health.read_health(context.engine.database)).list_processes("web"):
        progress.print_status(
            "Warning: no web process is running, so the link will not work. Start one with `postroom serve`."
        )


def _open_browser(link: str) -> None:
    """Open the link if there is a display: a text browser is no help."""
    import webbrowser

    from postroom import config

    if config.has_display() and sys.stdout.isatty():
        webbrowser.open(link)


async def _wait_for_login(context: MailboxCommandContext, login: "UUID", *, json: bool) -> ExitCode:
    """Wait until the ledger records how the login ended."""
    from postroom.store import ledger

    while True:
        async with context.engine.database.transaction(context.organization) as connection:
            entries = await ledger.list_by_entity(connection, "login", str(login))
        if entries and entries[0].event_type == "LOGIN_COMPLETED":
            mailbox = await find_mailbox(context, str(entries[0].payload["mailbox"]))
            return _print_mailbox(mailbox, json=json, note="Connected.")
        if entries:
            reason = str(entries[0].payload["reason"]).replace("_", " ")
            raise PermanentError(
                f"The mailbox was not connected ({reason}). The page in the browser says what to do."
            )
        await asyncio.sleep(POLL_SECONDS)


def _print_mailbox(
    mailbox: "Mailbox", *, json: bool, note: str | None = None, more: dict[str, Any] | None = None
) -> ExitCode:
    from postroom.cli import output

    fields = _to_json(mailbox) | (more or {})
    if json:
        output.print_json(fields)
        return ExitCode.OK
    if note:
        typer.echo(note)
    output.print_table(
        ("FIELD", "VALUE"), [(name.replace("_", " "), value) for name, value in fields.items()]
    )
    return ExitCode.OK


def _to_json(mailbox: "Mailbox") -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(mailbox), "state": describe_state(mailbox)}
