"""`postroom demo`: everything in a home of its own, with sample work, so that there is something to see."""

from pathlib import Path

from postroom.cli.serve import Port
from postroom.errors import SchemaError

EXAMPLES = """\b
Examples:
  postroom demo
  postroom demo --port 8025"""


def demo(port: Port = 0) -> None:
    """Run everything on sample work, in the directory .demo here, and print the address when it is ready."""
    from postroom import config
    from postroom.cli import opening, up

    # A demonstration never touches a database of yours.
    home = Path.cwd() / ".demo"
    settings = opening.settings_for("demo", ignoring=["database_url", "host"], home=home, port=port)
    environment = config.environment_with(home=home, database_url=None, host=None)
    try:
        up.run(settings, environment, workers=2, sample=True)
    except SchemaError as error:
        raise SchemaError(f"{error} Or remove {home}, and the demonstration begins anew.") from error
