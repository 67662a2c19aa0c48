"""The class `Settings`: name, type, limits, default and description of each setting.

The package `config` loads it from the environment; its types are in `setting_types`, checks in `validators`.
"""

from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from postroom.config import validators
from postroom.config.setting_types import (
    AbsolutePath,
    LogFormat,
    LogLevel,
    Network,
    PostgresqlUrl,
    SecretText,
    VaultKind,
    WakeMode,
    WebUrl,
)
from postroom.model import Secret

PREFIX: Final = "POSTROOM_"
LOOPBACK: Final = validators.LOOPBACK


def _setting(meaning: str, expects: str, default: Any, **limits: Any) -> Any:
    """Declare a setting.

    `expects` describes a valid value; the error for an invalid one ends with it.
    """
    return Field(default, description=meaning, json_schema_extra={"expects": expects}, **limits)


def _retention(meaning: str) -> Any:
    return _setting(meaning, "a number of days from 1 to 36500", None, ge=1, le=36500)


_ENDPOINT_URL: Final = "an https URL, or http on a loopback host; change it for a simulator or a proxy only"
_POSTGRESQL_URL: Final = "a URL such as postgresql://user:password@host:5432/database"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", arbitrary_types_allowed=True
    )

    home: AbsolutePath | None = _setting(
        "Directory of the embedded database and local files. Default: the user's data directory",
        "the absolute path of a directory",
        None,
    )
    database_url: PostgresqlUrl | None = _setting(
        "URL of your own PostgreSQL server, version 15 or newer. Default: the embedded server",
        _POSTGRESQL_URL,
        None,
    )
    database_owner_url: PostgresqlUrl | None = _setting(
        "URL of the same database for migrations, backups and psql. Default: POSTROOM_DATABASE_URL",
        _POSTGRESQL_URL,
        None,
    )
    database_direct_url: PostgresqlUrl | None = _setting(
        "URL of the same database past a connection pooler. Default: POSTROOM_DATABASE_URL",
        _POSTGRESQL_URL,
        None,
    )
    database_pool_size: int = _setting(
        "Maximum number of database connections per process", "a whole number from 4 to 500", 10, ge=4, le=500
    )
    database_wait_seconds: float = _setting(
        "Seconds to wait for the database at start", "a number from 0 to 3600", 60, ge=0, le=3600
    )
    host: str = _setting(
        "IP address the web process listens on",
        "an IP address of this machine, such as 127.0.0.1 or 0.0.0.0",
        "127.0.0.1",
    )
    port: int = _setting(
        "Port the web process listens on; 0 picks a free one",
        "a whole number from 0 to 65535",
        8025,
        ge=0,
        le=65535,
    )
    public_url: WebUrl | None = _setting(
        "URL at which providers and browsers reach the web process",
        "an https URL such as https://post.example.org, or http on a loopback host for development",
        None,
    )
    trusted_proxies: Annotated[
        tuple[Network, ...] | None, NoDecode, BeforeValidator(validators.parse_networks)
    ] = _setting(
        "Reverse proxies in front of the web process whose X-Forwarded-For and X-Forwarded-Proto are trusted",
        "networks such as 10.0.0.0/8 or single IP addresses, separated by commas",
        None,
    )
    organization: UUID = _setting(
        "Organization that pages and commands act for; created on first use",
        "a UUID such as 6f1c2d3e-0000-4000-8000-000000000001",
        UUID("00000000-0000-4000-8000-000000000001"),
    )
    metrics_token: SecretText | None = _setting(
        "Bearer token required to read /metrics. Default: readable from this machine only",
        "a long random string",
        None,
    )
    traces_url: str | None = _setting(
        "OTLP/HTTP endpoint that receives traces. Default: tracing is off",
        "a URL such as http://127.0.0.1:4318/v1/traces",
        None,
        pattern=r"^https?://[^/@\s]+(/\S*)?$",
    )
    webhook_networks: Annotated[
        tuple[Network, ...] | None, NoDecode, BeforeValidator(validators.parse_networks)
    ] = _setting(
        "Private networks that outgoing webhooks may reach",
        "networks such as 10.0.0.0/8 or single IP addresses, separated by commas",
        None,
    )
    api_per_minute: int = _setting(
        "Maximum number of API calls per key and minute, for each web process",
        "a whole number from 1 to 1000000",
        6000,
        ge=1,
        le=1_000_000,
    )
    session_hours: float = _setting(
        "Hours until an idle member is signed out",
        "a number from 0.1 to 720",
        12,
        ge=0.1,
        le=720,
    )
    oidc_issuer: WebUrl | None = _setting(
        "OpenID Connect issuer that members may sign in with, besides links and passwords",
        "an https URL such as https://login.example.org/realms/staff",
        None,
    )
    oidc_client_id: str | None = _setting(
        "Client ID of this Postroom at that OpenID provider", "the client ID shown by the provider", None
    )
    oidc_client_secret: SecretText | None = _setting(
        "Client secret of this Postroom at that OpenID provider",
        "the client secret shown by the provider",
        None,
        validate_default=True,
    )
    oidc_trust_addresses: bool = _setting(
        "Accept addresses that the OpenID provider does not mark as verified (Entra never does)."
        " Safe only where users cannot choose their own address",
        "true or false",
        False,
    )
    google_client_id: str | None = _setting(
        "OAuth client ID of your Google Cloud project; required to connect Gmail mailboxes",
        "a client ID such as 1234-abc.apps.googleusercontent.com",
        None,
    )
    google_client_secret: SecretText | None = _setting(
        "OAuth client secret of your Google Cloud project", "the client secret shown by Google", None
    )
    pubsub_topic: str | None = _setting(
        "Pub/Sub topic that Gmail publishes to, in the same project",
        "a name such as projects/my-project/topics/gmail",
        None,
        pattern=r"^projects/[^/]+/topics/[^/]+$",
    )
    pubsub_subscription: str | None = _setting(
        "Pub/Sub subscription that pushes to /webhooks/gmail; pushes from other subscriptions are rejected",
        "a name such as projects/my-project/subscriptions/postroom",
        None,
        pattern=r"^projects/[^/]+/subscriptions/[^/]+$",
    )
    pubsub_audience: str | None = _setting(
        "Audience of the token that signs Pub/Sub pushes",
        "the audience configured on the push subscription",
        None,
    )
    pubsub_service_account: str | None = _setting(
        "Service account that signs Pub/Sub pushes",
        "an address such as push@my-project.iam.gserviceaccount.com",
        None,
    )
    pubsub_token: SecretText | None = _setting(
        "Shared token in the push URL of Pub/Sub (?token=…)", "a long random string", None
    )
    microsoft_client_id: str | None = _setting(
        "Application (client) ID in Microsoft Entra; required to connect Outlook mailboxes by sign-in",
        "the application (client) ID, a GUID",
        None,
    )
    microsoft_client_secret: SecretText | None = _setting(
        "Client secret of the Microsoft Entra application", "the value of a client secret, not its ID", None
    )
    microsoft_tenant: str = _setting(
        "Microsoft accounts that may sign in",
        "organizations, common, consumers, or the ID of one tenant",
        "organizations",
        pattern=r"^[A-Za-z0-9.-]+$",
    )
    google_accounts_url: WebUrl = _setting(
        "Base URL of Google's consent page", _ENDPOINT_URL, "https://accounts.google.com"
    )
    google_token_url: WebUrl = _setting(
        "Base URL of Google's token endpoint", _ENDPOINT_URL, "https://oauth2.googleapis.com"
    )
    google_certs_url: WebUrl = _setting(
        "Base URL of Google's public signing keys", _ENDPOINT_URL, "https://www.googleapis.com"
    )
    gmail_url: WebUrl = _setting("Base URL of the Gmail API", _ENDPOINT_URL, "https://gmail.googleapis.com")
    gmail_quota: str = _setting(
        "Gmail quota table of your Google Cloud project: new, old, or a number of units per minute",
        "new (projects created since May 2026), old, or a number of units per minute such as 12000",
        "new",
        pattern=r"^(new|old|[1-9][0-9]{3,8})$",
    )
    microsoft_login_url: WebUrl = _setting(
        "Base URL of Microsoft's sign-in", _ENDPOINT_URL, "https://login.microsoftonline.com"
    )
    graph_url: WebUrl = _setting("Base URL of Microsoft Graph", _ENDPOINT_URL, "https://graph.microsoft.com")
    ca_file: AbsolutePath | None = _setting(
        "Certificate authorities that providers' certificates must chain to. Default: the system's",
        "the absolute path of a PEM file",
        None,
    )
    vault: VaultKind = _setting(
        "Where mailbox credentials are stored: encrypted in the database (local), or in AWS SSM (ssm)",
        "local or ssm",
        VaultKind.LOCAL,
    )
    vault_keys: Annotated[SecretText, AfterValidator(validators.validate_vault_keys)] | None = _setting(
        "Encryption keys of the vault; the first encrypts, all decrypt."
        " Default: the file vault.keys in the home directory",
        "id:key, or several separated by commas; each key is 32 bytes in base64 (openssl rand -base64 32)",
        None,
    )
    ssm_prefix: Annotated[str, AfterValidator(validators.validate_parameter_prefix)] = _setting(
        "Prefix of Postroom's parameter names in AWS SSM",
        "a path such as /postroom/production",
        "/postroom",
        pattern=r"^(/[A-Za-z0-9_.-]{1,64}){1,8}$",
    )
    ssm_kms_key: str | None = _setting(
        "KMS key that encrypts the SSM parameters. Default: the account's key for SSM",
        "a key ID, an alias such as alias/postroom, or an ARN",
        None,
        pattern=r"^[A-Za-z0-9:/_-]{1,256}$",
    )
    blobs: Annotated[str, AfterValidator(validators.validate_blob_location)] = _setting(
        "Where attachments and documents are stored: local disk, S3 or Google Cloud Storage",
        "disk, or a bucket such as s3://my-bucket/postroom or gs://my-bucket/postroom",
        "disk",
    )
    blobs_endpoint: WebUrl | None = _setting(
        "Endpoint of an S3- or GCS-compatible server for blobs. Default: Amazon or Google",
        _ENDPOINT_URL,
        None,
    )
    pipelines: AbsolutePath | None = _setting(
        "Pipelines file. Default: the built-in pipelines invoices and contract-notes",
        "the absolute path of a TOML file",
        None,
    )
    queue: Annotated[str, AfterValidator(validators.validate_queue)] = _setting(
        "Queue that assigns documents to workers: the database, or Amazon SQS",
        "postgres, or a standard queue such as sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/postroom",
        "postgres",
    )
    archive: Annotated[str, AfterValidator(validators.validate_archive_location)] = _setting(
        "Where completed documents are archived: local disk, a bucket, or nowhere",
        "disk, none, or a bucket such as s3://my-bucket/postroom or gs://my-bucket/postroom",
        "disk",
    )
    archive_endpoint: WebUrl | None = _setting(
        "Endpoint of an S3- or GCS-compatible server for the archive. Default: Amazon or Google",
        _ENDPOINT_URL,
        None,
    )
    gcs_credentials_file: AbsolutePath | None = _setting(
        "Service account key for gs:// buckets. Default: the machine's own credentials",
        "the absolute path of a JSON file",
        None,
    )
    blob_grace_hours: float = _setting(
        "Hours until an unreferenced blob is deleted",
        "a number from 1 to 8760",
        24,
        ge=1,
        le=8760,
    )
    organization_storage_gb: float | None = _setting(
        "Gigabytes of files that an organization may store. Default: no limit",
        "a number above 0",
        None,
        gt=0,
    )
    keep_events_days: float = _setting(
        "Days that events stay in the feed of pages, webhooks and API clients",
        "a number from 1 to 3650",
        30,
        ge=1,
        le=3650,
    )
    keep_mail_events_days: float | None = _retention("Days that mail events are kept. Default: forever")
    keep_personal_days: float | None = _retention(
        "Days that the ledger keeps personal values. Default: forever"
    )
    keep_deleted_days: float | None = _retention(
        "Days that a message is kept after its deletion in the mailbox. Default: forever"
    )
    keep_metadata_days: float | None = _retention(
        "Days that mail is kept in mailboxes with the content policy metadata. Default: forever"
    )
    keep_documents_days: float | None = _retention(
        "Days that mail is kept in mailboxes with the content policy documents. Default: forever"
    )
    keep_full_days: float | None = _retention(
        "Days that mail is kept in mailboxes with the content policy full. Default: forever"
    )
    subscription_renew_hours: float = _setting(
        "Hours between renewals of a Microsoft Graph subscription",
        "a number from 1 to 144",
        24,
        ge=1,
        le=144,
    )
    watch_renew_hours: float = _setting(
        "Hours between renewals of a Gmail watch", "a number from 1 to 144", 24, ge=1, le=144
    )
    gmail_sweep_minutes: float = _setting(
        "Minutes between syncs of a Gmail mailbox when no push arrives",
        "a number from 1 to 1440",
        5,
        ge=1,
        le=1440,
    )
    outlook_sweep_minutes: float = _setting(
        "Minutes between syncs of a Microsoft 365 mailbox when no push arrives",
        "a number from 1 to 1440",
        15,
        ge=1,
        le=1440,
    )
    backfill_days: float = _setting(
        "Days of past mail to fetch when a mailbox is connected, counted from the connection",
        "a number from 0 to 36500",
        30,
        ge=0,
        le=36500,
    )
    audit_days: float = _setting(
        "Days between audits of a mailbox", "a number from 0.05 to 3650", 7, ge=0.05, le=3650
    )
    audit_repair: bool = _setting(
        "Repair the differences that scheduled audits find. false: only report them", "true or false", True
    )
    ledger_key: Annotated[SecretText, AfterValidator(validators.validate_ledger_key)] | None = _setting(
        "Key of the ledger's MACs and seals. Default: the file ledger.key in the home directory",
        "32 bytes in base64 (openssl rand -base64 32); earlier keys may follow after commas",
        None,
    )
    ledger_heads_file: AbsolutePath | None = _setting(
        "File to which each new head of a ledger is also appended", "the absolute path of a file", None
    )
    simulator_url: WebUrl | None = _setting(
        "Control URL of the demo's simulator. Set by `postroom demo` only",
        "an http URL on a loopback host",
        None,
    )
    log_level: LogLevel = _setting(
        "Minimum severity of log lines. Default for commands that end by themselves: error",
        "debug, info, warning or error",
        LogLevel.INFO,
    )
    log_format: LogFormat = _setting(
        "Format of log lines: json, text, or auto (text on a terminal, else JSON)",
        "auto, json or text",
        LogFormat.AUTO,
    )
    concurrency: int = _setting(
        "Number of work items one worker process runs at a time",
        "a whole number from 1 to 1000",
        8,
        ge=1,
        le=1000,
    )
    wake: WakeMode = _setting(
        "How idle workers find due work: notified at once (notify), or by polling only (poll)",
        "notify or poll",
        WakeMode.NOTIFY,
    )
    poll_seconds: float = _setting(
        "Seconds between polls of an idle worker", "a number from 0.1 to 3600", 5, ge=0.1, le=3600
    )
    lease_seconds: float = _setting(
        "Seconds until the work of an unresponsive worker is leased to another",
        "a number from 1 to 86400",
        60,
        ge=1,
        le=86400,
    )
    stall_seconds: float = _setting(
        "Seconds after which a worker that is stuck ends itself, so that it can be restarted",
        "a number from 1 to 86400",
        120,
        ge=1,
        le=86400,
    )
    stop_seconds: float = _setting(
        "Seconds a stopping process may take to finish running work",
        "a number from 0 to 3600",
        20,
        ge=0,
        le=3600,
    )
    max_attempts: int = _setting(
        "Attempts before failing work is parked for the operator",
        "a whole number from 1 to 1000",
        10,
        ge=1,
        le=1000,
    )
    backoff_first_seconds: float = _setting(
        "Seconds before the first retry; each further delay doubles",
        "a number above 0, at most 86400",
        5,
        gt=0,
        le=86400,
    )
    backoff_max_seconds: float = _setting(
        "Maximum seconds between two attempts",
        "a number up to 604800, not below POSTROOM_BACKOFF_FIRST_SECONDS",
        3600,
        gt=0,
        le=604800,
    )

    llm: str = _setting(
        "Language model that extracts fields from documents; with none, no document leaves the machine",
        "none, or a vendor and model such as anthropic:claude-haiku-5-5 or openai:gpt-5",
        "none",
        pattern=r"^(none|(anthropic|openai):\S+)$",
    )
    llm_base_url: WebUrl | None = _setting(
        "Base URL of the language model. Default: the vendor's", _ENDPOINT_URL, None
    )
    llm_key: SecretText | None = _setting(
        "API key for the language model", "the API key issued by the vendor", None
    )
    llm_usd_per_day: float = _setting(
        "Daily language model budget per organization in US dollars; beyond it, documents are read offline",
        "a number from 0 to 100000",
        5,
        ge=0,
        le=100_000,
    )
    llm_timeout_seconds: float = _setting(
        "Seconds to wait for the language model's response",
        "a number above 0, at most 600",
        60,
        gt=0,
        le=600,
    )

    @field_validator("database_owner_url", "database_direct_url")
    @classmethod
    def _require_database_url_too(cls, value: Secret | None, info: ValidationInfo) -> Secret | None:
        if value is not None and info.data.get("database_url") is None:
            raise ValueError("must be set together with POSTROOM_DATABASE_URL")
        return value

    @field_validator("pubsub_service_account")
    @classmethod
    def _require_audience_with_service_account(cls, value: str | None, info: ValidationInfo) -> str | None:
        if (value is None) != (info.data.get("pubsub_audience") is None):
            raise ValueError("must be set together with POSTROOM_PUBSUB_AUDIENCE")
        return value

    @field_validator("oidc_client_secret")
    @classmethod
    def _require_complete_openid_client(cls, value: Secret | None, info: ValidationInfo) -> Secret | None:
        client = [info.data.get("oidc_issuer"), info.data.get("oidc_client_id"), value]
        if any(client) and not all(client):
            raise ValueError("must be set together with POSTROOM_OIDC_ISSUER and POSTROOM_OIDC_CLIENT_ID")
        return value

    @field_validator("backoff_max_seconds")
    @classmethod
    def _require_max_backoff_above_first(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("backoff_first_seconds", value):
            raise ValueError("is below POSTROOM_BACKOFF_FIRST_SECONDS")
        return value
