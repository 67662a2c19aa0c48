"""`postroom notices`: add, list, test and remove the destinations of notices.

`flow.outbound` does the work.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption
from postroom.errors import OperatorError, PermanentError, SettingsError
from postroom.model import OrganizationId, Secret
from postroom.notice_types import NoticeKind, NoticeMedium

if TYPE_CHECKING:
    from postroom.flow.outbound.send_notices import NoticeContext
    from postroom.notice_types import NoticeResult
    from postroom.store.database import Database
    from postroom.store.notices import NoticeDestination

group = typer.Typer(
    name="notices",
    help="Manage where notices to people are sent: email, Slack or Microsoft Teams.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom notices add email ap@example.com --quiet 19:00-07:00 --time-zone Europe/Berlin
  postroom notices list""",
)
DestinationArgument = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="ID, start of the ID, or name.")
]
UrlFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For slack and teams: file with the webhook URL, which is a secret."),
]
ReviewHoursOption = Annotated[
    float,
    typer.Option(
        min=0.25, max=8760, metavar="HOURS", help="Hours until a document that needs review is overdue."
    ),
]


@group.command(
    epilog="""\b
Examples:
  postroom notices add email ap@example.com ops@example.com --kind review_queue --review-hours 8
  postroom notices add slack --url-file slack-url.txt --quiet 19:00-07:00 --time-zone Europe/Berlin
  postroom notices add teams --url-file teams-url.txt --name 'Finance team'"""
)
def add(
    medium: Annotated[NoticeMedium, typer.Argument(metavar="MEDIUM", help="How notices are sent.")],
    addresses: Annotated[
        list[str] | None, typer.Argument(metavar="[ADDRESS]...", help="Recipients, for email.")
    ] = None,
    url_file: UrlFileOption = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the destination.")] = "",
    kind: Annotated[
        list[NoticeKind] | None, typer.Option(help="Notice kind; repeatable [default: all]")
    ] = None,
    review_hours: ReviewHoursOption = 24,
    quiet: Annotated[
        str | None, typer.Option(metavar="FROM-UNTIL", help="Quiet hours, such as 19:00-07:00.")
    ] = None,
    time_zone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone of the quiet hours.")] = "UTC",
    *,
    json: JsonOption = False,
) -> None:
    """Add a destination. Its first notice announces all current problems, later ones the changes."""
    url = _read_url(url_file)
    start, _, end = (quiet or "").partition("-")

    async def act(database: "Database", organization: OrganizationId) -> "NoticeDestination":
        from postroom.flow.outbound import notices
        from postroom.flow.outbound.notices import DestinationInput
        from postroom.store.notices import NoticeSelection

        selection = NoticeSelection(kind or (), review_hours, start or None, end or None, time_zone)
        given = DestinationInput(name, addresses or (), url, selection)
        return await notices.add(_build_context(database), organization, medium, given)

    from postroom.cli import output, startup

    added = startup.run_for_organization(act)
    if json:
        output.print_json(asdict(added))
    else:
        typer.echo(f"Added {str(added.id)[:8]}. Run `postroom notices test {str(added.id)[:8]}` to try it.")


@group.command("list", epilog="\b\nExamples:\n  postroom notices list\n  postroom notices list --json")
def list_(*, json: JsonOption = False) -> None:
    """List destinations with the result of their last notice."""

    async def act(database: "Database", organization: OrganizationId) -> "list[NoticeDestination]":
        from postroom.store import notices

        async with database.transaction(organization) as connection:
            return await notices.list_all(connection)

    from postroom.cli import output, startup

    destinations = startup.run_for_organization(act)
    if json:
        output.print_json([asdict(each) for each in destinations])
        return
    rows = [
        (
            str(each.id)[:8],
            each.name,
            each.medium,
            " ".join(each.kinds) or "all",
            f"{each.quiet_from}-{each.quiet_until} {each.time_zone}" if each.quiet_from else None,
            "failing" if each.failing_since else "quiet" if each.is_quiet else "ok",
            each.last_error,
        )
        for each in destinations
    ]
    output.print_table(("ID", "NAME", "MEDIUM", "NOTICES", "QUIET", "STATE", "LAST ERROR"), rows)


@group.command(epilog="\b\nExamples:\n  postroom notices test 5f0c")
def test(destination_name: DestinationArgument) -> ExitCode:
    """Send a test notice now, even in quiet hours, and print the result."""

    async def act(database: "Database", organization: OrganizationId) -> "NoticeResult":
        from postroom.flow.outbound import send_notices

        found = await _find_destination(database, organization, destination_name)
        return await send_notices.send_test(_build_context(database), organization, found)

    from postroom.cli import startup

    result = startup.run_for_organization(act)
    if result.sent:
        typer.echo(f"Sent, but {result.error}." if result.error else "Sent.")
        return ExitCode.OK
    typer.echo(f"Not sent: {result.error}.", err=True)
    return ExitCode.FAILED


@group.command(epilog="\b\nExamples:\n  postroom notices remove 5f0c")
def remove(destination_name: DestinationArgument) -> None:
    """Remove a destination."""

    async def act(database: "Database", organization: OrganizationId) -> None:
        from postroom.flow.outbound import notices

        found = await _find_destination(database, organization, destination_name)
        await notices.remove(_build_context(database), organization, found)

    from postroom.cli import startup

    startup.run_for_organization(act)
    typer.echo("Removed.")


async def _find_destination(
    database: "Database", organization: OrganizationId, name: str
) -> "NoticeDestination":
    from postroom.store import notices

    async with database.transaction(organization) as connection:
        known = await notices.list_all(connection)
    matches = [each for each in known if str(each.id).startswith(name.lower()) or each.name == name]
    if len(matches) != 1:
        problem = "Several destinations match" if matches else "No such destination"
        raise PermanentError(f"{problem}. Run `postroom notices list` to see all.")
    return matches[0]


def _read_url(path: Path | None) -> Secret | None:
    if path is None:
        return None
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise OperatorError(f"{path} cannot be read as text. Check the path and its permissions.") from None
    if not text:
        raise SettingsError(f"{path} is empty. Write the webhook URL to it.")
    return Secret(text)


def _build_context(database: "Database") -> "NoticeContext":
    from postroom import config
    from postroom.wiring import outbound, secrets

    settings = config.load()
    url = settings.public_url or ""
    return outbound.build_notice_context(settings, database, secrets.build_sealer(settings), url)
