"""The command line: parse, call one function, print. Heavy imports wait until a command needs them."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from postroom import __version__
from postroom.cli import (
    api_keys,
    audit,
    blobs,
    config,
    db,
    demo,
    doctor,
    documents,
    exit_codes,
    ledger,
    mailboxes,
    members,
    orders,
    parked_work,
    pipelines,
    purge,
    search,
    serve,
    subscriptions,
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
    help="Mail in, exactly once: Gmail and Microsoft 365 mailboxes mirrored, and proven complete.",
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
app.add_typer(mailboxes.group)
app.add_typer(members.group)
app.add_typer(api_keys.group)
app.add_typer(webhooks.group)
app.add_typer(documents.group)
app.add_typer(pipelines.group)
app.add_typer(orders.group)
app.add_typer(parked_work.group)
app.add_typer(db.group)
app.add_typer(config.group)
app.add_typer(vault.group)
app.add_typer(subscriptions.group)
app.add_typer(ledger.group)
app.add_typer(blobs.group)
app.add_typer(purge.group)
app.command(epilog=search.EXAMPLES)(search.search)


def _print_version(asked: bool) -> None:  # noqa: FBT001  typer hands a flag to its callback by position
    if asked:
        typer.echo(f"postroom {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Mail in, exactly once: Gmail and Microsoft 365 mailboxes mirrored, and proven complete."""
    del version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. A foreseeable error is one line on stderr, never a traceback."""
    try:
        # Not by `app()`, which would turn Ctrl-C and a broken pipe into exit codes of its own.
        command = typer.main.get_command(app)
        with command.make_context(
            "postroom", list(sys.argv[1:] if arguments is None else arguments)
        ) as context:
            code = command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ended:
        return ended.exit_code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  each kind has its exit code
        return _report_error(error)
    return code if isinstance(code, int) else ExitCode.OK


def _report_error(error: BaseException) -> ExitCode:
    match error:
        case PostroomError():
            return _print_error(str(error), exit_codes.exit_code_for(error))
        case ExceptionGroup() if error.split(PostroomError)[1] is None:
            # Tasks side by side failed, each of them foreseeably; the first one tells why.
            return _report_error(error.exceptions[0])
        case typer.TyperException():
            return _report_usage_error(error)
        case KeyboardInterrupt() | typer.Abort():
            return ExitCode.INTERRUPTED
        case UnicodeEncodeError() if error.reason == "surrogates not allowed":
            # File names may be any bytes. Other arguments go to the database, which takes text.
            return _print_error("An argument is not text in UTF-8.", ExitCode.USAGE)
        case BrokenPipeError():
            # The reader has what it wanted (`postroom … | head`); the last flush must not complain again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.BROKEN_PIPE
        case _:
            from postroom.logs import describe_location

            # Class and place help; the words of a stranger's error might be personal.
            what = f"{type(error).__name__} at {describe_location(error.__traceback__)}"
            return _print_error(f"{what}. This is a mistake in Postroom; please report it.", ExitCode.BUG)


def _report_usage_error(error: typer.TyperException) -> ExitCode:
    context: typer.Context | None = getattr(error, "ctx", None)
    message = error.format_message()
    if message.startswith("Usage:"):  # a group without a command: its help is the answer
        typer.echo(message, err=True)
        return ExitCode.USAGE
    command = context.command_path if context is not None else "postroom"
    return _print_error(f"{message.rstrip('.')}. See `{command} --help`.", ExitCode.USAGE)


def _print_error(message: str, code: ExitCode) -> ExitCode:
    # Only the first line is marked: those that follow may be statements to paste.
    typer.echo(f"error: {message}", err=True)
    return code
