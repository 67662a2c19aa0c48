"""`postroom mcp`: let an assistant read mail and records, over the Model Context Protocol.

The tools are in `mcp_server`.
"""

from pathlib import Path
from typing import Annotated

import typer

from postroom.errors import OperatorError

EXAMPLES = """\b
Examples:
  postroom api-keys create assistant --record-calls > assistant.key
  postroom mcp --key-file assistant.key
  postroom mcp --key-file assistant.key --url https://postroom.example.com"""


def mcp(
    key_file: Annotated[
        Path,
        typer.Option(metavar="FILE", help="File with an API key created with --record-calls."),
    ],
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL of the web process [default: the one on this machine]"),
    ] = None,
    max_characters: Annotated[
        int,
        typer.Option(
            min=2000, max=200_000, metavar="COUNT", help="Maximum number of characters in a response."
        ),
    ] = 20_000,
) -> None:
    """Serve read-only tools to an assistant over MCP.

    The assistant starts this command and speaks the Model Context Protocol on its standard input and output.
    It reads what the key may read, and the ledger records each call.
    """
    from postroom.cli import startup

    settings = startup.load_command_settings("mcp")
    try:
        from postroom import mcp_server
    except ImportError:  # also if a version is installed that lacks what we need
        raise OperatorError(
            "The MCP server requires the library mcp. Run `pip install 'postroom[mcp]'`."
        ) from None
    try:
        key = key_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text"
        raise OperatorError(f"Cannot read the key file {key_file}: {cause}. Check the path.") from None
    mcp_server.serve(url or startup.web_url(settings), key, max_characters=max_characters)
