"""`postroom config`: what the settings are and where each comes from."""

from dataclasses import asdict
from typing import Annotated

import typer

group = typer.Typer(
    name="config",
    help="Show the settings.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom config show""",
)


@group.command(
    epilog="""\b
Examples:
  postroom config show
  postroom config show --json | jq '.[] | select(.source == "environment")'"""
)
def show(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print every setting with its value and source, secrets masked; or list what is wrong with them."""
    from postroom import config
    from postroom.cli import output, startup

    settings = config.load()
    shown = config.describe_settings(settings.model_copy(update={"home": startup.resolve_home(settings)}))
    if json:
        output.print_json([asdict(each) for each in shown])
    else:
        rows = [(each.name, each.value, each.source, each.meaning) for each in shown]
        output.print_table(("SETTING", "VALUE", "SOURCE", "MEANING"), rows)
