"""`postroom audit`: compare a mailbox with its provider, print or repair the differences.

`flow.mail.audit` compares and requests the repair, which this command runs as a sync.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import progress
from postroom.cli.command_worker import run_worker
from postroom.cli.exit_codes import ExitCode
from postroom.cli.mailboxes import (
    MailboxCommandContext,
    find_mailbox,
    run_command,
)
from postroom.cli.options import JsonOption, MailboxArgument
from postroom.model import WorkKind

if TYPE_CHECKING:
    from postroom.flow.mail.audit import AuditFindings
    from postroom.store.mailboxes import Mailbox

EXAMPLES = """\b
Examples:
  postroom audit ann@example.org
  postroom audit ann@example.org --content
  postroom audit 5f0c --repair"""
MAX_IDS_SHOWN = 10


def audit(
    mailbox_name: MailboxArgument,
    *,
    content: Annotated[
        bool, typer.Option("--content", help="Fetch every message again and compare its full content.")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Sync the messages that differ.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Compare a mailbox with its provider message by message.

    Reports missing, extra and different messages. Exit code 1 if any difference remains.
    """
    return run_command(
        lambda context: _run_audit(context, mailbox_name, content=content, repair=repair, json=json)
    )


async def _run_audit(
    context: MailboxCommandContext, mailbox_name: str, *, content: bool, repair: bool, json: bool
) -> ExitCode:
    from postroom.flow.mail import audit as flow

    mailbox = await find_mailbox(context, mailbox_name)
    depth = flow.AuditDepth.CONTENTS if content else flow.AuditDepth.STATES
    sync = context.engine.sync
    with progress.spinner("Comparing"):
        findings = await flow.audit_mailbox(sync, mailbox, depth)
    repaired = 0
    if repair and findings.all_keys:
        repaired = len(findings.all_keys)
        await _repair(context, mailbox, findings)
        with progress.spinner("Comparing again"):
            findings = await flow.audit_mailbox(sync, mailbox, depth)
    _print_findings(findings, repaired - len(findings.all_keys) if repaired else None, json=json)
    return ExitCode.FAILED if findings.all_keys else ExitCode.OK


async def _repair(context: MailboxCommandContext, mailbox: "Mailbox", findings: "AuditFindings") -> None:
    from postroom.cli.sync import follow_progress
    from postroom.flow.mail import audit as flow

    async with context.engine.database.transaction(context.organization) as connection:
        await flow.repair(connection, context.organization, mailbox.id, findings)
    async with run_worker(context.engine, WorkKind.SYNC):
        await follow_progress(context, mailbox)


def _print_findings(findings: "AuditFindings", repaired: int | None, *, json: bool) -> None:
    from postroom.cli import output

    kinds = {"missing": findings.missing, "extra": findings.extra, "different": findings.different}
    if json:
        output.print_json({"listed": findings.listed, **kinds, "repaired": repaired or 0})
        return
    rows = [("listed", findings.listed, "")]
    for name, keys in kinds.items():
        more = f" and {len(keys) - MAX_IDS_SHOWN} more" if len(keys) > MAX_IDS_SHOWN else ""
        rows.append((name, len(keys), " ".join(keys[:MAX_IDS_SHOWN]) + more))
    output.print_table(("ITEM", "COUNT", "IDS"), rows)
    if repaired is not None:
        typer.echo(f"Repaired: {repaired}.")
    elif findings.all_keys:
        typer.echo("Run `postroom audit … --repair` to repair the differences.")
