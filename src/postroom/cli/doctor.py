"""`postroom doctor`: print the checks of Postroom's environment.

The checks are in `doctor_checks`.
"""

from dataclasses import asdict

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption

EXAMPLES = """\b
Examples:
  postroom doctor
  postroom doctor --json | jq '.[] | select(.state != "ok")'"""


def doctor(*, json: JsonOption = False) -> ExitCode:
    """Check Postroom's environment and print how to fix problems.

    Exit code 1 if a check fails.
    """
    from postroom.cli import doctor_checks, output

    checks: list[doctor_checks.DoctorCheck] = []
    for check in doctor_checks.run_checks():
        checks.append(check)
        if not json:
            typer.echo(f"{check.state:<4}  {check.name:<10}  {check.found}")
            if check.remedy and check.state is not doctor_checks.DoctorCheckState.OK:
                typer.echo(f"      {'':<10}  {check.remedy}")
    if json:
        output.print_json([asdict(check) for check in checks])
    return (
        ExitCode.FAILED
        if any(check.state is doctor_checks.DoctorCheckState.FAIL for check in checks)
        else ExitCode.OK
    )
