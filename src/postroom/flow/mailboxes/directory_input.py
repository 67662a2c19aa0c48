"""Validates what a person or a program enters to add a directory."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from postroom.errors import InvalidField
from postroom.flow.mailboxes import app_credential_input
from postroom.flow.mailboxes.app_credential_input import HAS_SERVICE_ACCOUNTS, CredentialInput
from postroom.flow.mailboxes.directories import NewDirectory
from postroom.model import ProviderName
from postroom.store.directories import DirectorySettings, UserSelection

MAX_SELECTORS: Final = 100
MAX_SELECTOR_LENGTH: Final = 320


def build_directory(
    name: str,
    provider: ProviderName,
    credential: CredentialInput,
    admin_address: str | None,
    settings: DirectorySettings,
) -> NewDirectory:
    """The directory that was entered, in lower case. Raises InvalidField."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
        raise InvalidField(
            "The name must consist of at most 40 characters from a-z, 0-9 and -.", field="name"
        )
    if HAS_SERVICE_ACCOUNTS[provider] != bool(admin_address):
        raise InvalidField(
            "The address of an administrator is required for Gmail, and applies to it only.",
            field="admin_address",
        )
    if admin_address and not re.fullmatch(r"[^@\s\0]{1,64}@[A-Za-z0-9.-]{1,255}", admin_address.strip()):
        raise InvalidField("The administrator must be one email address.", field="admin_address")
    if not 0 <= settings.max_leaver_percent <= 100:
        raise InvalidField(
            "The limit of users who may leave must be 0 to 100 percent.", field="max_leaver_percent"
        )
    app_credential_input.check_folder(provider, settings.folder)
    selection = settings.selection
    cleaned = UserSelection(
        _clean(selection.groups, "groups"),
        _clean(selection.domains, "domains"),
        _clean(selection.patterns, "patterns"),
        _clean(selection.excluded_patterns, "excluded_patterns"),
    )
    return NewDirectory(
        name,
        provider,
        app_credential_input.build_credential(provider, credential),
        admin_address.strip().lower() if admin_address else None,
        replace(settings, selection=cleaned),
    )


def _clean(values: Iterable[str], field: str) -> tuple[str, ...]:
    found = tuple(value.strip().lower() for value in values if value.strip())
    is_bad = any(len(value) > MAX_SELECTOR_LENGTH or not value.isprintable() for value in found)
    if is_bad or len(found) > MAX_SELECTORS:
        raise InvalidField(
            f"The selection takes at most {MAX_SELECTORS} {field.replace('_', ' ')},"
            f" of at most {MAX_SELECTOR_LENGTH} printable characters each.",
            field=field,
        )
    return found
