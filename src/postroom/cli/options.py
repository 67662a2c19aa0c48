"""Arguments and options that several commands share."""

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MailboxArgument = Annotated[str, typer.Argument(metavar="MAILBOX", help="Address, ID or start of the ID.")]
