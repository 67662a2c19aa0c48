"""The class `ServerSettings`: database, web process, webhooks and notices, sign-in. `Settings` adds the rest.

Also declares how a setting is described.
"""

from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from postroom.config import validators
from postroom.config.setting_types import AbsolutePath, Network, PostgresqlUrl, SecretText, WebUrl
from postroom.model import Secret

PREFIX: Final = "POSTROOM_"


def setting(meaning: str, expects: str, default: Any, **limits: Any) -> Any:
    """Declare a setting.

    `expects` describes a valid value; the error for an invalid one ends with it.
    """
    return Field(default, description=meaning, json_schema_extra={"expects": expects}, **limits)


_POSTGRESQL_URL: Final = "a URL such as postgresql://user:password@host:5432/database"


class ServerSettings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", arbitrary_types_allowed=True
    )

    home: AbsolutePath | None = setting(
        "Directory of the embedded database and local files. Default: the user's data directory",
        "the absolute path of a directory",
        None,
    )
    database_url: PostgresqlUrl | None = setting(
        "URL of your own PostgreSQL server, version 15 or newer. Default: the embedded server",
        _POSTGRESQL_URL,
        None,
    )
    database_owner_url: PostgresqlUrl | None = setting(
        "URL of the same database for migrations, backups and psql. Default: POSTROOM_DATABASE_URL",
        _POSTGRESQL_URL,
        None,
    )
    database_direct_url: PostgresqlUrl | None = setting(
        "URL of the same database past a connection pooler. Default: POSTROOM_DATABASE_URL",
        _POSTGRESQL_URL,
        None,
    )
    database_pool_size: int = setting(
        "Maximum number of database connections per process", "a whole number from 4 to 500", 10, ge=4, le=500
    )
    database_wait_seconds: float = setting(
        "Seconds to wait for the database at start", "a number from 0 to 3600", 60, ge=0, le=3600
    )
    host: str = setting(
        "IP address the web process listens on",
        "an IP address of this machine, such as 127.0.0.1 or 0.0.0.0",
        "127.0.0.1",
    )
    port: int = setting(
        "Port the web process listens on; 0 picks a free one",
        "a whole number from 0 to 65535",
        8025,
        ge=0,
        le=65535,
    )
    public_url: WebUrl | None = setting(
        "URL at which providers and browsers reach the web process",
        "an https URL such as https://post.example.org, or http on a loopback host for development",
        None,
    )
    trusted_proxies: Annotated[
        tuple[Network, ...] | None, NoDecode, BeforeValidator(validators.parse_networks)
    ] = setting(
        "Reverse proxies in front of the web process whose X-Forwarded-For and X-Forwarded-Proto are trusted",
        "networks such as 10.0.0.0/8 or single IP addresses, separated by commas",
        None,
    )
    organization: UUID = setting(
        "Organization that pages and commands act for; created on first use",
        "a UUID such as 6f1c2d3e-0000-4000-8000-000000000001",
        UUID("00000000-0000-4000-8000-000000000001"),
    )
    metrics_token: SecretText | None = setting(
        "Bearer token required to read /metrics. Default: readable from this machine only",
        "a long random string",
        None,
    )
    traces_url: str | None = setting(
        "OTLP/HTTP endpoint that receives traces. Default: tracing is off",
        "a URL such as http://127.0.0.1:4318/v1/traces",
        None,
        pattern=r"^https?://[^/@\s]+(/\S*)?$",
    )
    webhook_networks: Annotated[
        tuple[Network, ...] | None, NoDecode, BeforeValidator(validators.parse_networks)
    ] = setting(
        "Private networks that outgoing webhooks, and notices to Slack and Teams, may reach",
        "networks such as 10.0.0.0/8 or single IP addresses, separated by commas",
        None,
    )
    smtp_from: str | None = setting(
        "Sender of notices by email",
        "an address such as postroom@example.org or Postroom <postroom@example.org>",
        None,
        pattern=r"^([^<>@\r\n]{1,100} <[^\s<>@]+@[^\s<>@]+>|[^\s<>@]+@[^\s<>@]+)$",
    )
    smtp_url: Annotated[SecretText, AfterValidator(validators.validate_smtp_url)] | None = setting(
        "Mail server that sends notices by email. Default: notices are not sent by email",
        "a URL such as smtps://user:password@mail.example.org:465, smtp:// for STARTTLS, or smtp+plain://",
        None,
    )
    api_per_minute: int = setting(
        "Maximum number of API calls per key and minute, for each web process",
        "a whole number from 1 to 1000000",
        6000,
        ge=1,
        le=1_000_000,
    )
    session_hours: float = setting(
        "Hours until an idle member is signed out",
        "a number from 0.1 to 720",
        12,
        ge=0.1,
        le=720,
    )
    oidc_issuer: WebUrl | None = setting(
        "OpenID Connect issuer that members may sign in with, besides links and passwords",
        "an https URL such as https://login.example.org/realms/staff",
        None,
    )
    oidc_client_id: str | None = setting(
        "Client ID of this Postroom at that OpenID provider", "the client ID shown by the provider", None
    )
    oidc_client_secret: SecretText | None = setting(
        "Client secret of this Postroom at that OpenID provider",
        "the client secret shown by the provider",
        None,
        validate_default=True,
    )
    oidc_trust_addresses: bool = setting(
        "Accept addresses that the OpenID provider does not mark as verified (Entra never does)."
        " Safe only where users cannot choose their own address",
        "true or false",
        False,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read only the environment. Searching files for each setting would double the time."""
        del settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings

    @field_validator("database_owner_url", "database_direct_url")
    @classmethod
    def _require_database_url_too(cls, value: Secret | None, info: ValidationInfo) -> Secret | None:
        if value is not None and info.data.get("database_url") is None:
            raise ValueError("must be set together with POSTROOM_DATABASE_URL")
        return value

    @field_validator("oidc_client_secret")
    @classmethod
    def _require_complete_openid_client(cls, value: Secret | None, info: ValidationInfo) -> Secret | None:
        client = [info.data.get("oidc_issuer"), info.data.get("oidc_client_id"), value]
        if any(client) and not all(client):
            raise ValueError("must be set together with POSTROOM_OIDC_ISSUER and POSTROOM_OIDC_CLIENT_ID")
        return value
