"""Validators of single settings. The settings that use them are in `settings`.

Each raises ValueError with the end of a sentence about the value.
"""

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from postroom.model import Secret, decode_key, has_ambiguous_credentials, parse_sealing_keys

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_BUCKET: Final = re.compile(r"(?:s3|gs)://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](?:/[A-Za-z0-9!_.'()=-]+)*/?")


def to_secret(value: object) -> object:
    return Secret(value) if isinstance(value, str) else value


def validate_postgresql_url(value: Secret) -> Secret:
    if has_ambiguous_credentials(value.reveal()):
        raise ValueError("has an @ or a / in its user or password; percent-encode them as %40 or %2F")
    try:
        parts = urlsplit(value.reveal())
        usable = (
            parts.scheme in {"postgresql", "postgres"}
            and parts.path.strip("/") != ""
            and all(_has_usable_port(host) for host in parts.netloc.rpartition("@")[2].split(","))
        )
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("is not the URL of a PostgreSQL database")
    return value


def _has_usable_port(host: str) -> bool:
    """Whether one `host:port` of a database URL has no port, or a usable one. Raises ValueError for text."""
    return urlsplit(f"//{host}").port != 0


def validate_vault_keys(value: Secret) -> Secret:
    parse_sealing_keys(value.reveal().split(","))
    return value


def validate_ledger_key(value: Secret) -> Secret:
    for key in value.reveal().split(","):
        decode_key(key)
    return value


def validate_parameter_prefix(value: str) -> str:
    # AWS reserves parameter names that begin with these words.
    if value.lower().startswith(("/aws", "/ssm")):
        raise ValueError("begins with a word reserved by AWS")
    return value


def validate_blob_location(value: str) -> str:
    if value != "disk" and not _BUCKET.fullmatch(value):
        raise ValueError("is not a blob location")
    return value.rstrip("/")


def validate_queue(value: str) -> str:
    kind, _, address = value.partition(":")
    if value == "postgres":
        return value
    parts = urlsplit(address)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if kind != "sqs" or not secure or not parts.path.strip("/") or value.endswith(".fifo"):
        raise ValueError("is not a supported queue")
    return value


def validate_smtp_url(value: Secret) -> Secret:
    if has_ambiguous_credentials(value.reveal()):
        raise ValueError("has an @ or a / in its user or password; percent-encode them as %40 or %2F")
    try:
        parts = urlsplit(value.reveal())
        usable = (
            parts.scheme in {"smtps", "smtp", "smtp+plain"}
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.path.strip("/") or parts.query or parts.fragment)
        )
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("is not the URL of a mail server")
    return value


def validate_archive_location(value: str) -> str:
    return value if value == "none" else validate_blob_location(value)


def parse_networks(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
    except ValueError:
        raise ValueError("is not a list of networks") from None


def validate_absolute_path(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("is a relative path")
    return value


def validate_web_url(value: str) -> str:
    return _validate_url(value, LOOPBACK.__contains__)


def validate_bucket_endpoint(value: str) -> str:
    """A web URL, or http to a name without a dot: a container on the same private network."""
    return _validate_url(value, lambda host: host in LOOPBACK or not re.search("[.:]", host))


def _validate_url(value: str, may_use_http: Callable[[str], bool]) -> str:
    parts = urlsplit(value)
    if parts.username is not None or parts.query or parts.fragment or not parts.hostname:
        raise ValueError("is not a plain URL (host and path, without user, query or fragment)")
    if parts.scheme != "https" and not (parts.scheme == "http" and may_use_http(parts.hostname)):
        raise ValueError("is not an https URL, which providers require")
    return value.rstrip("/")
