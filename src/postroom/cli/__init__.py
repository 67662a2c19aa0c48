"""The command line: the command tree, and how a command ends (error message, exit code).

Commands parse their options, call one function and print the result. They import heavy modules only when run.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from postroom import __version__, interrupts
from postroom.cli import (
    api_keys,
    audit,
    blobs,
    capacity,
    config,
    db,
    demo,
    directories,
    doctor,
    documents,
    exit_codes,
    export,
    failures,
    ledger,
    mailboxes,
    mcp,
    members,
    messages,
    notices,
    orders,
    organization,
    parked_work,
    pipelines,
    purge,
    records,
    search,
    serve,
    subscriptions,
    suppliers,
    sync,
    up,
    vault,
    webhooks,
    work,
)
from postroom.cli.exit_codes import ExitCode
from postroom.errors import PostroomError

app = typer.Typer(
    name="postroom",
    help="Mirror Gmail and Microsoft 365 mailboxes exactly once, and turn attachments into records.",
    epilog=exit_codes.HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.command(epilog=up.EXAMPLES)(up.up)
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.command(epilog=work.EXAMPLES)(work.work)
app.command(epilog=doctor.EXAMPLES)(doctor.doctor)
app.command(epilog=sync.EXAMPLES)(sync.sync)
app.command(epilog=audit.EXAMPLES)(audit.audit)
app.command(epilog=mcp.EXAMPLES)(mcp.mcp)
app.command(epilog=export.EXAMPLES)(export.export)
app.command(epilog=capacity.EXAMPLES)(capacity.capacity)
app.add_typer(mailboxes.group)
app.add_typer(directories.group)
app.add_typer(members.group)
app.add_typer(api_keys.group)
app.add_typer(webhooks.group)
app.add_typer(notices.group)
app.add_typer(messages.group)
app.add_typer(documents.group)
app.add_typer(records.group)
app.add_typer(suppliers.group)
app.add_typer(pipelines.group)
app.add_typer(orders.group)
app.add_typer(organization.group)
app.add_typer(parked_work.group)
app.add_typer(failures.group)
app.add_typer(db.group)
app.add_typer(config.group)
app.add_typer(vault.group)
app.add_typer(subscriptions.group)
app.add_typer(ledger.group)
app.add_typer(blobs.group)
app.add_typer(purge.group)
app.command(epilog=search.EXAMPLES, context_settings=search.CONTEXT_SETTINGS)(search.search)


def _print_version(requested: bool) -> None:  # noqa: FBT001  typer passes a flag to its callback by position
    if requested:
        typer.echo(f"postroom {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Mirror Gmail and Microsoft 365 mailboxes exactly once, and turn attachments into records."""
    del version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Foreseen errors print one line on stderr, no traceback.
    """
    code = _run(arguments)
    return ExitCode.INTERRUPTED if interrupts.was_received() else code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        # `app()` would map Ctrl-C and a broken pipe to exit codes of its own.
        command = typer.main.get_command(app)
        with command.make_context(
            "postroom", list(sys.argv[1:] if arguments is None else arguments)
        ) as context:
            code = command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ended:
        return ended.exit_code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  every class has an exit code
        # After Ctrl-C, other errors are its consequence: say nothing.
        return ExitCode.INTERRUPTED if interrupts.was_received() else _report_error(error)
    return code if isinstance(code, int) else ExitCode.OK


def _report_error(error: BaseException) -> ExitCode:
    match error:
        case PostroomError():
            return _print_error(str(error), exit_codes.exit_code_for(error))
        case ExceptionGroup() if error.split(PostroomError)[1] is None:
            # Several members of a group failed with foreseen errors: the first one explains it.
            return _report_error(error.exceptions[0])
        case typer.TyperException():
            return _report_usage_error(error)
        case KeyboardInterrupt() | typer.Abort():
            return ExitCode.INTERRUPTED
        case UnicodeEncodeError() if error.reason == "surrogates not allowed":
            # File names may hold any bytes. Other arguments go to the database, which takes only text.
            return _print_error("An argument is not valid UTF-8. Enter it as UTF-8 text.", ExitCode.USAGE)
        case BrokenPipeError():
            # The reader has left (`postroom … | head`): keep the last flush from failing again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.BROKEN_PIPE
        case _:
            from postroom.logs import describe_location

            # Class and location only: the message of a library's error may contain personal data.
            defect = f"{type(error).__name__} at {describe_location(error.__traceback__)}"
            return _print_error(f"{defect}. This is a bug in Postroom; please report it.", ExitCode.BUG)


def _report_usage_error(error: typer.TyperException) -> ExitCode:
    context: typer.Context | None = getattr(error, "ctx", None)
    message = error.format_message()
    if message.startswith("Usage:"):  # a group without a command prints its help
        typer.echo(message, err=True)
        return ExitCode.USAGE
    command = context.command_path if context is not None else "postroom"
    return _print_error(f"{message.rstrip('.')}. See `{command} --help`.", ExitCode.USAGE)


def _print_error(message: str, code: ExitCode) -> ExitCode:
    # Only the first line gets the prefix: the lines after it may be statements to paste.
    typer.echo(f"error: {message}", err=True)
    return code
