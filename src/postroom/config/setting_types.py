"""The types of settings: choices, and values that are checked by `validators`."""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from postroom.config import validators
from postroom.model import Secret

Network = IPv4Network | IPv6Network
AbsolutePath = Annotated[Path, AfterValidator(validators.validate_absolute_path)]
WebUrl = Annotated[str, AfterValidator(validators.validate_web_url)]
BucketEndpoint = Annotated[str, AfterValidator(validators.validate_bucket_endpoint)]
SecretText = Annotated[Secret, BeforeValidator(validators.to_secret)]
PostgresqlUrl = Annotated[SecretText, AfterValidator(validators.validate_postgresql_url)]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    AUTO = "auto"  # text on a terminal, JSON elsewhere
    JSON = "json"
    TEXT = "text"


class WakeMode(StrEnum):
    NOTIFY = "notify"  # PostgreSQL wakes idle workers at once; polling finds what a lost notification missed
    POLL = "poll"  # the poll interval limits how often workers start


class VaultKind(StrEnum):
    LOCAL = "local"  # encrypted in the database with keys of the operator
    SSM = "ssm"  # stored as parameters in AWS Systems Manager


class PubSubDelivery(StrEnum):
    PUSH = "push"  # to the public URL
    PULL = "pull"  # by workers, which need no public URL
