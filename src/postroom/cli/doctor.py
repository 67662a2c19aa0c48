"""`postroom doctor`: looks at everything Postroom stands on and says what to do about what is wrong."""

from dataclasses import asdict
from typing import Annotated

import typer

from postroom.cli.exit_codes import ExitCode

EXAMPLES = """\b
Examples:
  postroom doctor
  postroom doctor --json | jq '.[] | select(.state != "ok")'"""


def doctor(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> ExitCode:
    """Check what Postroom stands on and say what to do about it. Exit code 1 when a check fails."""
    from postroom.cli import doctor_checks, output

    done: list[doctor_checks.DoctorCheck] = []
    for check in doctor_checks.run_checks():
        done.append(check)
        if not json:
            typer.echo(f"{check.state:<4}  {check.name:<10}  {check.found}")
            if check.remedy and check.state is not doctor_checks.DoctorCheckState.OK:
                typer.echo(f"      {'':<10}  {check.remedy}")
    if json:
        output.print_json([asdict(check) for check in done])
    return (
        ExitCode.FAILED
        if any(check.state is doctor_checks.DoctorCheckState.FAIL for check in done)
        else ExitCode.OK
    )
