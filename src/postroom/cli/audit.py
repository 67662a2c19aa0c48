"""`postroom audit`: compare a mailbox at its provider with the store, message by message."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import progress
from postroom.cli.exit_codes import ExitCode
from postroom.cli.mailboxes import Json, MailboxCommandContext, Named, find_mailbox, run_command
from postroom.cli.sync import run_sync_worker

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
    named: Named,
    *,
    content: Annotated[
        bool, typer.Option("--content", help="Fetch every message again, and compare all of it.")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Fetch or settle what differs.")] = False,
    json: Json = False,
) -> ExitCode:
    """List a mailbox at its provider and report what is missing, extra or different in the store.

    Exit code 1 when anything is, and is not repaired.
    """
    return run_command(lambda at: _run_audit(at, named, content=content, repair=repair, json=json))


async def _run_audit(
    at: MailboxCommandContext, named: str, *, content: bool, repair: bool, json: bool
) -> ExitCode:
    from postroom.flow.mail import audit as flow

    mailbox = await find_mailbox(at, named)
    depth = flow.AuditDepth.CONTENTS if content else flow.AuditDepth.STATES
    context = at.engine.sync
    with progress.spinner("Comparing"):
        found = await flow.audit_mailbox(context, mailbox, depth)
    repaired = 0
    if repair and found.all_keys:
        repaired = len(found.all_keys)
        await _repair(at, mailbox, found)
        with progress.spinner("Comparing again"):
            found = await flow.audit_mailbox(context, mailbox, depth)
    _print_findings(found, repaired - len(found.all_keys) if repaired else None, json=json)
    return ExitCode.FAILED if found.all_keys else ExitCode.OK


async def _repair(at: MailboxCommandContext, mailbox: "Mailbox", found: "AuditFindings") -> None:
    from postroom.cli.sync import follow_progress
    from postroom.flow.mail import audit as flow

    async with at.engine.database.transaction(at.organization) as connection:
        await flow.repair(connection, at.organization, mailbox.id, found)
    async with run_sync_worker(at):
        await follow_progress(at, mailbox)


def _print_findings(found: "AuditFindings", repaired: int | None, *, json: bool) -> None:
    from postroom.cli import output

    kinds = {"missing": found.missing, "extra": found.extra, "different": found.different}
    if json:
        output.print_json({"listed": found.listed, **kinds, "repaired": repaired or 0})
        return
    rows = [("listed", found.listed, "")]
    for name, keys in kinds.items():
        more = f" and {len(keys) - MAX_IDS_SHOWN} more" if len(keys) > MAX_IDS_SHOWN else ""
        rows.append((name, len(keys), " ".join(keys[:MAX_IDS_SHOWN]) + more))
    output.print_table(("WHAT", "COUNT", "IDS"), rows)
    if repaired is not None:
        typer.echo(f"Repaired: {repaired}.")
    elif found.all_keys:
        typer.echo("`postroom audit … --repair` mends it.")
