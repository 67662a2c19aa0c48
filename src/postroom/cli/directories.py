"""`postroom directories`: connect the users of a Google Workspace or Microsoft 365 tenant.

The steps are in `flow.mailboxes.directories` and `flow.mailboxes.directory_sync`.
"""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from postroom.cli import app_credentials as applications
from postroom.cli.exit_codes import ExitCode
from postroom.cli.mailboxes import MailboxCommandContext, run_command
from postroom.cli.options import JsonOption
from postroom.errors import InvalidField, OperatorError
from postroom.model import ContentPolicy, ProviderName

if TYPE_CHECKING:
    from postroom.flow.mailboxes.directories import DirectoryPreview, NewDirectory
    from postroom.store.directories import Directory

group = typer.Typer(
    name="directories",
    help="Connect the users of a Google Workspace or Microsoft 365 tenant, and keep up with changes.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom directories add sales gmail --key-file key.json --admin admin@example.org --group sales@example.org
  postroom directories preview sales""",
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the directory.")]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="ADDRESS", help="Select the members of a group.")
]
DomainOption = Annotated[
    list[str] | None, typer.Option("--domain", metavar="DOMAIN", help="Select addresses of a domain.")
]
MatchOption = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="PATTERN", help="Select addresses that match, such as sales-*@*."),
]
ExcludeOption = Annotated[
    list[str] | None, typer.Option("--exclude", metavar="PATTERN", help="Exclude addresses that match.")
]
DirectoryPolicyOption = Annotated[ContentPolicy, typer.Option(help="Content policy.")]
LeaversOption = Annotated[
    Literal["keep", "pause", "disconnect"],
    typer.Option(help="Action for the mailbox of a user who leaves; stored mail stays."),
]
MaxLeaversOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=100,
        metavar="PERCENT",
        help="Stop and ask for confirmation if a larger share of the users leaves.",
    ),
]
AdminOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Gmail: administrator who may read the directory.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show who would be connected, and store nothing.")
]


@group.command(
    epilog="""\b
Examples:
  postroom directories add sales gmail --key-file key.json --admin admin@example.org \\
      --group sales@example.org --dry-run
  postroom directories add all outlook --tenant 72f9…1a --client-id 0b1c…9d --secret-file secret \\
      --domain example.org --exclude 'test-*' --leavers disconnect"""
)
def add(
    name: NameArgument,
    provider: Annotated[ProviderName, typer.Argument(metavar="PROVIDER", help="Provider of the mailboxes.")],
    *,
    groups: GroupOption = None,
    domains: DomainOption = None,
    patterns: MatchOption = None,
    excluded: ExcludeOption = None,
    policy: DirectoryPolicyOption = ContentPolicy.FULL,
    leavers: LeaversOption = "pause",
    max_leavers: MaxLeaversOption = 10,
    admin: AdminOption = None,
    key_file: applications.KeyFileOption = None,
    tenant: applications.TenantOption = None,
    client_id: applications.ClientIdOption = None,
    secret_file: applications.SecretFileOption = None,
    certificate: applications.CertificateOption = None,
    folder: applications.FolderOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> ExitCode:
    """Add a directory, or change the one with this name, and connect its users.

    Workers connect the users, subscribe to their mail, and update the directory as people join and leave.
    Groups, domains and patterns must all match; without any, every user is selected.
    """
    from postroom.flow.mailboxes import directory_input
    from postroom.store.directories import DirectorySettings, LeaverAction, UserSelection

    options = applications.AppOnlyOptions(tenant, client_id, None, secret_file, certificate, folder, key_file)
    selection = UserSelection(*(tuple(values or ()) for values in (groups, domains, patterns, excluded)))
    settings = DirectorySettings(selection, policy, folder, LeaverAction(leavers), max_leavers)
    try:
        wanted = directory_input.build_directory(
            name, provider, applications.read_input(options), admin, settings
        )
    except InvalidField as error:
        raise applications.to_option_error(error) from None
    return run_command(lambda context: _add(context, wanted, dry_run=dry_run, json=json))


async def _add(
    context: MailboxCommandContext, wanted: "NewDirectory", *, dry_run: bool, json: bool
) -> ExitCode:
    from postroom.cli import progress
    from postroom.flow.mailboxes import directories

    with progress.spinner("Listing the directory"):
        found = await directories.preview_wanted(context.engine.directories, context.organization, wanted)
    if not dry_run:
        await directories.add(context.engine.directories, context.organization, wanted)
    note = "Nothing was stored." if dry_run else "Added. Workers connect these users now."
    return _print_preview(found, json=json, note=note)


@group.command(
    epilog="""\b
Examples:
  postroom directories preview sales
  postroom directories preview sales --json | jq '.users[] | select(.outcome == "leave")'"""
)
def preview(name: NameArgument, *, json: JsonOption = False) -> ExitCode:
    """Show what the next sync of a directory would do. Changes nothing."""

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.cli import progress
        from postroom.flow.mailboxes import directories

        directory = await _find(context, name)
        with progress.spinner("Listing the directory"):
            found = await directories.preview(context.engine.directories, directory)
        return _print_preview(found, json=json)

    return run_command(act)


@group.command(
    epilog="""\b
Examples:
  postroom directories sync sales
  postroom directories sync sales --confirm-leavers 40"""
)
def sync(
    name: NameArgument,
    *,
    confirm_leavers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="COUNT", help="Allow up to this many users to leave, even above the limit."
        ),
    ] = None,
) -> None:
    """Sync a directory now instead of at the scheduled time. A worker runs the sync."""

    async def act(context: MailboxCommandContext) -> None:
        from postroom.flow.mailboxes import directories

        directory = await _find(context, name)
        await directories.request_sync(
            context.engine.directories, directory, confirmed_leavers=confirm_leavers
        )

    run_command(act)
    typer.echo(f"Due now. Run `postroom directories show {name}` for the result.")


@group.command(
    "list",
    epilog="""\b
Examples:
  postroom directories list
  postroom directories list --json""",
)
def list_(*, json: JsonOption = False) -> None:
    """List directories, with the number of users in each state."""

    async def act(context: MailboxCommandContext) -> "list[tuple[Directory, dict[str, int]]]":
        from postroom.store import directories, directory_users

        async with context.engine.database.transaction(context.organization) as connection:
            found = await directories.list_all(connection)
            counts = await directory_users.count_states(connection)
        return [(directory, counts.get(directory.id, {})) for directory in found]

    from postroom.cli import output

    found = run_command(act)
    if json:
        output.print_json([_to_json(directory, counts) for directory, counts in found])
        return
    rows = [
        (
            directory.name,
            directory.provider,
            counts.get("connected", 0),
            counts.get("joining", 0) + counts.get("leaving", 0),
            counts.get("skipped", 0),
            directory.listed_at,
            directory.stop_reason or directory.last_error,
        )
        for directory, counts in found
    ]
    output.print_table(("NAME", "PROVIDER", "CONNECTED", "WAITING", "SKIPPED", "LISTED", "PROBLEM"), rows)


@group.command(
    epilog="""\b
Examples:
  postroom directories show sales
  postroom directories show sales --json | jq '.users[] | select(.state == "skipped")'"""
)
def show(name: NameArgument, *, json: JsonOption = False) -> ExitCode:
    """Show a directory and its users. Exit code 1 if a person must act."""

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.cli import output
        from postroom.store import directory_users

        directory = await _find(context, name)
        async with context.engine.database.transaction(context.organization) as connection:
            users = await directory_users.list_by_directory(connection, directory.id)
        counts = Counter(user.state.value for user in users)
        problem = directory.stop_reason or directory.last_error
        if json:
            listed = [{"address": user.address, "state": user.state, "reason": user.reason} for user in users]
            output.print_json({**_to_json(directory, counts), "users": listed})
        else:
            output.print_table(
                ("ADDRESS", "STATE", "REASON"), [(user.address, user.state, user.reason) for user in users]
            )
            typer.echo(_describe_counts(counts))
            if problem:
                typer.echo(problem)
            if directory.stop_reason:
                typer.echo(f"To allow it: postroom directories sync {name} --confirm-leavers COUNT")
        return ExitCode.FAILED if problem else ExitCode.OK

    return run_command(act)


@group.command(epilog="\b\nExamples:\n  postroom directories remove sales --yes")
def remove(
    name: NameArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> ExitCode:
    """Disconnect all mailboxes of a directory and delete its credential. Stored mail stays."""

    async def act(context: MailboxCommandContext) -> ExitCode:
        from postroom.flow.mailboxes import directories

        directory = await _find(context, name)
        if not yes and not typer.confirm(f"Disconnect all mailboxes of {name}?"):
            return ExitCode.FAILED
        await directories.remove(context.engine.directories, directory)
        typer.echo("Removed. Workers disconnect its mailboxes now.")
        return ExitCode.OK

    return run_command(act)


async def _find(context: MailboxCommandContext, name: str) -> "Directory":
    from postroom.store import directories

    async with context.engine.database.transaction(context.organization) as connection:
        found = await directories.find(connection, name)
    if found is None:
        raise OperatorError("No such directory. Run `postroom directories list` to see all.")
    return found


def _to_json(directory: "Directory", counts: dict[str, int]) -> dict[str, object]:
    settings = directory.settings
    return {
        "id": directory.id,
        "name": directory.name,
        "provider": directory.provider,
        "groups": settings.selection.groups,
        "domains": settings.selection.domains,
        "patterns": settings.selection.patterns,
        "excluded_patterns": settings.selection.excluded_patterns,
        "policy": settings.policy,
        "leavers": settings.leaver_action,
        "max_leaver_percent": settings.max_leaver_percent,
        "listed_at": directory.listed_at,
        "listed_users": directory.listed_users,
        "stopped_at": directory.stopped_at,
        "stop_reason": directory.stop_reason,
        "last_error": directory.last_error,
        "counts": dict(counts),
    }


def _describe_counts(counts: dict[str, int]) -> str:
    words = [f"{count} {word}" for word, count in sorted(counts.items())]
    total = sum(counts.values())
    return f"{total} {'user' if total == 1 else 'users'}: {', '.join(words)}." if words else "No users yet."


def _print_preview(found: "DirectoryPreview", *, json: bool, note: str = "") -> ExitCode:
    from postroom.cli import output

    counts = Counter(user.outcome for user in found.users)
    if json:
        users = [{"address": u.address, "outcome": u.outcome, "reason": u.reason} for u in found.users]
        output.print_json({"counts": dict(counts), "stop_reason": found.stop_reason, "users": users})
    else:
        output.print_table(
            ("ADDRESS", "OUTCOME", "REASON"),
            [(user.address, user.outcome, user.reason) for user in found.users],
        )
        typer.echo(_describe_counts({str(outcome): count for outcome, count in counts.items()}))
        typer.echo(found.stop_reason or note)
    return ExitCode.FAILED if found.stop_reason else ExitCode.OK
