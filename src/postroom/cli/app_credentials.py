"""Defines, reads and validates the app-only options of `postroom mailboxes connect`.

`mailboxes` has the command itself and its other options.
"""

import re
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import typer

from postroom.errors import OperatorError, SettingsError
from postroom.model import AppCredential, ProviderName, Secret

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


class _ServiceAccountFile(msgspec.Struct):
    client_id: str
    client_email: str
    private_key: str
    private_key_id: str


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
        return _read_google_options(options)
    if options.key_file is not None:
        raise SettingsError("--key-file applies to Gmail. Give --secret-file or --certificate.")
    if options.tenant is None or options.client_id is None or options.mailbox is None:
        raise SettingsError("--app-only requires --tenant, --client-id and --mailbox.")
    if (options.secret_file is None) == (options.certificate is None):
        raise SettingsError("--app-only requires either --secret-file or --certificate.")
    _check_address(options.mailbox)
    return _read_microsoft_credential(options), options.mailbox.lower(), options.folder


def read_credential(options: AppOnlyOptions, provider: ProviderName) -> AppCredential:
    """Validate the options of a credential that opens many mailboxes, and read it."""
    if provider is ProviderName.GMAIL:
        if options.key_file is None or any(option is not None for option in options._replace(key_file=None)):
            raise SettingsError("For gmail, give --key-file, and no other credential or folder.")
        client_id, key_file = _read_key_file(options.key_file)
        return AppCredential(None, client_id, certificate=key_file)
    is_complete = options.tenant is not None and options.client_id is not None
    if not is_complete or (options.secret_file is None) == (options.certificate is None):
        raise SettingsError("For outlook, give --tenant, --client-id, and --secret-file or --certificate.")
    return _read_microsoft_credential(options)


def _read_microsoft_credential(options: AppOnlyOptions) -> AppCredential:
    assert options.tenant
    assert options.client_id
    if not re.fullmatch(r"[A-Za-z0-9.-]{1,255}", options.tenant) or options.tenant in {
        "common",
        "organizations",
        "consumers",
    }:
        raise SettingsError("--tenant must be the ID or the domain of one tenant.")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", options.client_id):
        raise SettingsError("--client-id must be the application (client) ID, a GUID.")
    if options.folder is not None and not re.fullmatch(r"[A-Za-z0-9_=-]{1,255}", options.folder):
        raise SettingsError("--folder must be a well-known name such as Inbox or Archive, or a folder ID.")
    secret = Secret(_read_text(options.secret_file).strip()) if options.secret_file else None
    pem = _read_certificate(options.certificate) if options.certificate else None
    return AppCredential(options.tenant.lower(), options.client_id, secret, pem)


def _read_google_options(options: AppOnlyOptions) -> tuple[AppCredential, str, str | None]:
    if options.key_file is None or options.mailbox is None:
        raise SettingsError("--app-only requires --key-file and --mailbox for Gmail.")
    if any(option is not None for option in options._replace(key_file=None, mailbox=None)):
        raise SettingsError("For Gmail, --app-only takes --key-file and --mailbox only.")
    _check_address(options.mailbox)
    client_id, key_file = _read_key_file(options.key_file)
    return AppCredential(None, client_id, certificate=key_file), options.mailbox.lower(), None


def _check_address(address: str) -> None:
    if not re.fullmatch(r"[^@\s/?#]{1,64}@[A-Za-z0-9.-]{1,255}", address):
        raise SettingsError("--mailbox must be one email address.")


def _read_key_file(path: Path) -> tuple[str, Secret]:
    """Return the client ID of a service account and its whole key file."""
    from cryptography.hazmat.primitives import serialization

    text = _read_text(path)
    try:
        key = msgspec.json.decode(text, type=_ServiceAccountFile)
        serialization.load_pem_private_key(key.private_key.encode(), password=None)
    except (msgspec.DecodeError, ValueError, TypeError):
        raise OperatorError(
            f"{path} must be the JSON key file of a Google service account, with its private key."
        ) from None
    return key.client_id, Secret(text)


def _read_text(path: Path) -> str:
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


def _read_certificate(path: Path) -> Secret:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    text = _read_text(path)
    try:
        x509.load_pem_x509_certificate(text.encode())
        serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError):
        raise OperatorError(
            f"{path} must contain a certificate and its unencrypted private key, both in PEM."
        ) from None
    return Secret(text)
