"""`postroom vault`: list, rotate and remove encryption keys.

`flow.storage.key_rotation` encrypts stored values again.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption

if TYPE_CHECKING:
    from postroom.config import Settings

group = typer.Typer(
    name="vault",
    help="List, rotate and remove the encryption keys of the vault.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom vault status
  postroom vault rotate""",
)
_STATE_NAMES: Final = {"seals": "current", "opens": "old", "missing": "missing"}


@group.command(
    epilog="""\b
Examples:
  postroom vault status
  postroom vault status --json | jq '.keys[] | select(.values == 0)'"""
)
def status(*, json: JsonOption = False) -> ExitCode:
    """List keys and the number of values each encrypts.

    Exit code 1 if a key is missing.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.flow.storage import key_rotation as rotation
    from postroom.wiring import secrets

    settings = config.load()
    keys = secrets.build_vault_keys(settings)
    used = startup.run_with_settings(settings, lambda database: rotation.list_key_uses(database, keys))
    parameters = startup.run_with_settings(settings, rotation.count_ssm_parameters)
    if json:
        listed = [asdict(key) for key in used]
        output.print_json(
            {"vault": settings.vault, "source": keys.source, "keys": listed, "parameters": parameters}
        )
    else:
        output.print_table(
            ("KEY", "STATE", "VALUES"), [(key.id, _STATE_NAMES[key.state], key.values) for key in used]
        )
        typer.echo(f"Keys in {keys.source}; credentials in AWS SSM: {parameters}.")
    return ExitCode.FAILED if any(key.state is rotation.KeyState.MISSING for key in used) else ExitCode.OK


@group.command(
    epilog="""\b
Examples:
  postroom vault rotate
  postroom vault rotate --finish"""
)
def rotate(
    *,
    finish: Annotated[
        bool, typer.Option("--finish", help="Create no new key; re-encrypt values that still use older keys.")
    ] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Create a new key and re-encrypt everything with it. Postroom may keep running.

    If POSTROOM_VAULT_KEYS is set, its first key is used and none is created. Exit code 1 if older keys are
    still needed.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.flow.storage import key_rotation as rotation
    from postroom.wiring import secrets

    settings = config.load()
    keys = secrets.build_vault_keys(settings)
    result = startup.run_with_settings(
        settings, lambda database: rotation.rotate(database, keys, new_key=not finish)
    )
    if json:
        output.print_json(asdict(result))
    else:
        typer.echo(f"Values encrypted with key {result.key_id}: {result.sealed}.")
        if result.left:
            typer.echo(
                f"Values still encrypted with older keys: {result.left}."
                " A process uses other keys, or a key is missing."
                " See `postroom vault status`, then run `postroom vault rotate --finish`."
            )
        if result.unused:
            typer.echo(f"Keys no longer used: {', '.join(result.unused)}. {_describe_removal(settings)}")
    return ExitCode.FAILED if result.left else ExitCode.OK


@group.command(
    epilog="""\b
Examples:
  postroom vault forget-key 3f9c01ab
  postroom vault forget-key 3f9c01ab 77aa02cd"""
)
def forget_key(
    key_ids: Annotated[
        list[str], typer.Argument(metavar="KEY", help="Key IDs, as listed by `postroom vault status`.")
    ],
) -> None:
    """Permanently remove old keys from the key file.

    Database backups that need them become unusable.
    """
    from postroom import config
    from postroom.cli import startup
    from postroom.errors import OperatorError
    from postroom.flow.storage import key_rotation as rotation
    from postroom.vault import KeyFile
    from postroom.wiring import secrets

    settings = config.load()
    keys = secrets.build_vault_keys(settings)
    if not isinstance(keys, KeyFile):
        raise OperatorError(f"The keys are not in a key file. {_describe_removal(settings)}")
    startup.run_with_settings(settings, lambda database: rotation.remove_keys(database, keys, key_ids))
    typer.echo(f"Removed: {', '.join(key_ids)}.")


def _describe_removal(settings: "Settings") -> str:
    if settings.vault_keys is not None:
        return "Remove them from POSTROOM_VAULT_KEYS in every process."
    return "Remove them with `postroom vault forget-key`, after ten minutes or later."
