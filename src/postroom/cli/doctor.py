"""`postroom doctor`: looks at everything Postroom stands on and says what to do about what is wrong."""

from dataclasses import asdict
from typing import Annotated

import typer

from postroom.cli.exits import Exit

EXAMPLES = """\b
Examples:
  postroom doctor
  postroom doctor --json | jq '.[] | select(.state != "ok")'"""


def doctor(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> Exit:
    """Check what Postroom stands on and say what to do about it. Exit code 1 when a check fails."""
    from postroom.cli import checks, output

    done: list[checks.Check] = []
    for check in checks.run():
        done.append(check)
        if not json:
            typer.echo(f"{check.state:<4}  {check.name:<10}  {check.found}")
            if check.remedy and check.state is not checks.State.OK:
                typer.echo(f"      {'':<10}  {check.remedy}")
    if json:
        output.as_json([asdict(check) for check in done])
    return Exit.FAILED if any(check.state is checks.State.FAIL for check in done) else Exit.OK
