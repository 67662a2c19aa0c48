"""`postroom config`: show the settings and where their values come from."""

from dataclasses import asdict

import typer

from postroom.cli.options import JsonOption

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
def show(*, json: JsonOption = False) -> None:
    """Print every setting with its value and source. Secrets are masked."""
    from postroom import config
    from postroom.cli import output, startup

    settings = config.load()
    views = config.describe_settings(settings.model_copy(update={"home": startup.resolve_home(settings)}))
    if json:
        output.print_json([asdict(view) for view in views])
    else:
        rows = [(view.name, view.value, view.source, view.meaning) for view in views]
        output.print_table(("SETTING", "VALUE", "SOURCE", "MEANING"), rows)
