"""Defines and reads the options of an application's own credential.

`mailboxes` and `directories` have the commands; `flow.mailboxes.app_credential_input` validates.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from postroom.errors import InvalidField, OperatorError, SettingsError
from postroom.model import AppCredential, ProviderName

if TYPE_CHECKING:
    from postroom.flow.mailboxes.app_credential_input import CredentialInput

_MAX_FILE_BYTES: Final = 64 * 1024
TenantOption = Annotated[str | None, typer.Option(metavar="TENANT", help="App-only: tenant ID or domain.")]
ClientIdOption = Annotated[str | None, typer.Option(metavar="ID", help="App-only: application (client) ID.")]
AddressOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="App-only: address of the mailbox.")
]
SecretFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="App-only: file with the client secret.")
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="App-only: PEM file with the certificate and its private key."),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="App-only, Gmail: JSON key file of a service account."),
]
FolderOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="App-only: folder, by well-known name or ID [default: unchanged; Inbox for new mailboxes]",
        show_default=False,
    ),
]


class AppOnlyOptions(NamedTuple):
    tenant: str | None
    client_id: str | None
    mailbox: str | None
    secret_file: Path | None
    certificate: Path | None
    folder: str | None
    key_file: Path | None = None


def read_options(
    options: AppOnlyOptions, provider: ProviderName = ProviderName.OUTLOOK
) -> tuple[AppCredential, str, str | None]:
    """Validate the options; return the credential, the address and the folder."""
    if provider is ProviderName.GMAIL:
        if options.key_file is None or options.mailbox is None:
            raise SettingsError("--app-only requires --key-file and --mailbox for Gmail.")
        if any(option is not None for option in options._replace(key_file=None, mailbox=None)):
            raise SettingsError("For Gmail, --app-only takes --key-file and --mailbox only.")
    elif options.key_file is not None:
        raise SettingsError("--key-file applies to Gmail. Give --secret-file or --certificate.")
    elif options.tenant is None or options.client_id is None or options.mailbox is None:
        raise SettingsError("--app-only requires --tenant, --client-id and --mailbox.")
    elif (options.secret_file is None) == (options.certificate is None):
        raise SettingsError("--app-only requires either --secret-file or --certificate.")
    _check_address(options.mailbox)
    return read_credential(options, provider), options.mailbox.lower(), options.folder


def read_credential(options: AppOnlyOptions, provider: ProviderName) -> AppCredential:
    """Read the files of a credential, and validate them and the folder."""
    from postroom.flow.mailboxes import app_credential_input

    try:
        app_credential_input.check_folder(provider, options.folder)
        return app_credential_input.build_credential(provider, read_input(options))
    except InvalidField as error:
        raise to_option_error(error) from None


def to_option_error(error: InvalidField) -> OperatorError:
    """The same error for a command. A file with the wrong content is no wrong use of the command."""
    kind = OperatorError if error.field in {"key", "certificate"} else SettingsError
    return kind(str(error))


def read_input(options: AppOnlyOptions) -> "CredentialInput":
    from postroom.flow.mailboxes.app_credential_input import CredentialInput

    return CredentialInput(
        key=_read_text(options.key_file),
        tenant_id=options.tenant,
        client_id=options.client_id,
        client_secret=_read_text(options.secret_file),
        certificate=_read_text(options.certificate),
    )


def _check_address(address: str) -> None:
    if not re.fullmatch(r"[^@\s/?#]{1,64}@[A-Za-z0-9.-]{1,255}", address):
        raise SettingsError("--mailbox must be one email address.")


def _read_text(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_FILE_BYTES)
    except UnicodeDecodeError:
        raise OperatorError(f"{path} is not a text file in UTF-8. Check the path.") from None
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be read: {(error.strerror or 'no reason given').lower()}."
            " Check the path and its permissions."
        ) from None
    if not text.strip():
        raise OperatorError(f"{path} is empty. Check the path.")
    return text
