"""Validates what a person or a program enters as an application's own credential."""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from postroom.errors import InvalidField
from postroom.model import AppCredential, ProviderName, Secret

# Whether an application of the provider is a service account, known by its key.
HAS_SERVICE_ACCOUNTS: Final[Mapping[ProviderName, bool]] = {
    ProviderName.GMAIL: True,
    ProviderName.OUTLOOK: False,
}


@dataclass(frozen=True, slots=True)
class CredentialInput:
    """The key of a service account; or tenant, client and either a secret or a certificate with its key."""

    key: str | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    certificate: str | None = None


class _ServiceAccountKey(msgspec.Struct):
    client_id: str
    client_email: str
    private_key: str
    private_key_id: str


def build_credential(provider: ProviderName, given: CredentialInput) -> AppCredential:
    """The credential of an application. Raises InvalidField if something is missing, wrong or too much."""
    if HAS_SERVICE_ACCOUNTS[provider]:
        if given.key is None or any(astuple(replace(given, key=None))):
            raise InvalidField(
                "Gmail needs the JSON key of a service account, and no other credential.", field="provider"
            )
        return _parse_key(given.key)
    if given.key is not None:
        raise InvalidField("The key of a service account opens Gmail mailboxes only.", field="provider")
    if not (given.tenant_id and given.client_id):
        raise InvalidField(
            "Microsoft 365 needs the tenant and the client ID of the application.", field="tenant_id"
        )
    if bool(given.client_secret) == bool(given.certificate):
        raise InvalidField(
            "Microsoft 365 needs either a client secret or a certificate.", field="client_secret"
        )
    _check_application(given.tenant_id, given.client_id)
    if given.certificate:
        _check_certificate(given.certificate)
        certificate = Secret(given.certificate)
        return AppCredential(given.tenant_id.lower(), given.client_id, certificate=certificate)
    secret = Secret((given.client_secret or "").strip())
    return AppCredential(given.tenant_id.lower(), given.client_id, secret)


def check_folder(provider: ProviderName, folder: str | None) -> None:
    if folder is not None and HAS_SERVICE_ACCOUNTS[provider]:
        raise InvalidField("A folder applies to Microsoft 365 only.", field="folder")
    if folder is not None and not re.fullmatch(r"[A-Za-z0-9_=-]{1,255}", folder):
        raise InvalidField(
            "The folder must be a well-known name such as Inbox or Archive, or a folder ID.", field="folder"
        )


def _check_application(tenant_id: str, client_id: str) -> None:
    is_shared = tenant_id.lower() in {"common", "organizations", "consumers"}
    if is_shared or not re.fullmatch(r"[A-Za-z0-9.-]{1,255}", tenant_id):
        raise InvalidField("The tenant must be the ID or the domain of one tenant.", field="tenant_id")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", client_id):
        raise InvalidField("The client ID must be the application (client) ID, a GUID.", field="client_id")


def _parse_key(text: str) -> AppCredential:
    try:
        key = msgspec.json.decode(text, type=_ServiceAccountKey)
        serialization.load_pem_private_key(key.private_key.encode(), password=None)
    except (msgspec.DecodeError, ValueError, TypeError):
        raise InvalidField(
            "The key must be the JSON key file of a Google service account, with its private key.",
            field="key",
        ) from None
    return AppCredential(None, key.client_id, certificate=Secret(text))


def _check_certificate(text: str) -> None:
    try:
        x509.load_pem_x509_certificate(text.encode())
        serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError):
        raise InvalidField(
            "The PEM must contain a certificate and its unencrypted private key.", field="certificate"
        ) from None
