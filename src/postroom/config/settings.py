"""Every setting: its type, its limits, its meaning, and what a right value looks like."""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from postroom.config import validators
from postroom.model import Secret

PREFIX: Final = "POSTROOM_"
Network = IPv4Network | IPv6Network
LOOPBACK: Final = validators.LOOPBACK


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
    NOTIFY = "notify"  # idle workers are woken at once; the poll is the net
    POLL = "poll"  # the poll interval is the brake


class VaultKind(StrEnum):
    LOCAL = "local"  # sealed in the database, with keys of ours
    SSM = "ssm"  # parameters of AWS Systems Manager


def _secret(value: object) -> object:
    return Secret(value) if isinstance(value, str) else value


def _setting(meaning: str, expects: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning and what a right value looks like: the remedy of a wrong one."""
    return Field(default, description=meaning, json_schema_extra={"expects": expects}, **limits)


_DAYS: Final = "a number of days from 1 to 36500"
_ENDPOINT_URL: Final = (
    "an https address, or http on a loopback host: another one is for simulators and proxies"
)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", arbitrary_types_allowed=True
    )

    home: Annotated[Path, AfterValidator(validators.validate_absolute_path)] | None = _setting(
        "where the embedded database and local files live", "an absolute path of a directory", None
    )
    database_url: (
        Annotated[Secret, BeforeValidator(_secret), AfterValidator(validators.validate_postgresql_url)] | None
    ) = _setting(
        "a PostgreSQL server of yours, 15 or newer, instead of the embedded one",
        "a URL such as postgresql://user:password@host:5432/database",
        None,
    )
    database_pool_size: int = _setting(
        "the most connections one process opens", "a whole number from 4 to 500", 10, ge=4, le=500
    )
    host: str = _setting(
        "the address the web process listens on",
        "an address of this machine such as 127.0.0.1 or 0.0.0.0",
        "127.0.0.1",
    )
    port: int = _setting(
        "the port the web process listens on; 0 takes a free one",
        "a whole number from 0 to 65535",
        8025,
        ge=0,
        le=65535,
    )
    public_url: Annotated[str, AfterValidator(validators.validate_web_url)] | None = _setting(
        "the address under which providers and browsers reach the web process",
        "an https address such as https://post.example.org, or http on a loopback host for development",
        None,
    )
    trusted_proxies: Annotated[
        tuple[Network, ...] | None, NoDecode, BeforeValidator(validators.parse_networks)
    ] = _setting(
        "proxies of yours in front of the web process, whose word on source address and https is taken",
        "networks such as 10.0.0.0/8 or single addresses, separated by commas",
        None,
    )
    organization: UUID = _setting(
        "the organization that pages and commands act for; it is made at first use",
        "a UUID such as 6f1c2d3e-0000-4000-8000-000000000001",
        UUID("00000000-0000-4000-8000-000000000001"),
    )
    metrics_token: Annotated[Secret, BeforeValidator(_secret)] | None = _setting(
        "what Prometheus shows to read /metrics; unset, only this machine may", "a long random word", None
    )
    traces_url: str | None = _setting(
        "where traces are sent by OTLP over HTTP; unset, none are made",
        "an address such as http://127.0.0.1:4318/v1/traces",
        None,
        pattern=r"^https?://[^/@\s]+(/\S*)?$",
    )
    webhook_networks: Annotated[
        tuple[Network, ...] | None, NoDecode, BeforeValidator(validators.parse_networks)
    ] = _setting(
        "networks of yours to which outgoing webhooks may go although they are not on the internet",
        "networks such as 10.0.0.0/8 or single addresses, separated by commas",
        None,
    )
    api_per_minute: int = _setting(
        "how many calls of the API one key may make in a minute, at each web process",
        "a whole number from 1 to 1000000",
        6000,
        ge=1,
        le=1_000_000,
    )
    session_hours: float = _setting(
        "how long a member stays signed in without doing anything",
        "a number from 0.1 to 720",
        12,
        ge=0.1,
        le=720,
    )
    oidc_issuer: Annotated[str, AfterValidator(validators.validate_web_url)] | None = _setting(
        "an OpenID provider with which members sign in, beside links and passwords",
        "its issuer, an https address such as https://login.example.org/realms/staff",
        None,
    )
    oidc_client_id: str | None = _setting(
        "this Postroom's client at that provider", "the client id that the provider shows", None
    )
    oidc_client_secret: Annotated[Secret, BeforeValidator(_secret)] | None = _setting(
        "the secret of that client",
        "the secret that the provider showed beside the client id",
        None,
        validate_default=True,
    )
    oidc_trust_addresses: bool = _setting(
        "take that provider's word for addresses that it does not call verified, as Entra never does;"
        " only where nobody can choose an address there",
        "true or false",
        False,
    )
    google_client_id: str | None = _setting(
        "the OAuth client of your Google Cloud project; without it no Gmail mailbox can be connected",
        "a client id such as 1234-abc.apps.googleusercontent.com",
        None,
    )
    google_client_secret: Annotated[Secret, BeforeValidator(_secret)] | None = _setting(
        "the secret of that client", "the secret that Google showed beside the client id", None
    )
    pubsub_topic: str | None = _setting(
        "the Pub/Sub topic to which Gmail publishes, in the same project",
        "a name such as projects/my-project/topics/gmail",
        None,
        pattern=r"^projects/[^/]+/topics/[^/]+$",
    )
    pubsub_subscription: str | None = _setting(
        "the Pub/Sub subscription that pushes to /webhooks/gmail; pushes of another are refused",
        "a name such as projects/my-project/subscriptions/postroom",
        None,
        pattern=r"^projects/[^/]+/subscriptions/[^/]+$",
    )
    pubsub_audience: str | None = _setting(
        "the audience of the token that Pub/Sub signs its pushes with",
        "the audience as set on the push subscription",
        None,
    )
    pubsub_service_account: str | None = _setting(
        "the service account that Pub/Sub signs its pushes as",
        "an address such as push@my-project.iam.gserviceaccount.com",
        None,
    )
    pubsub_token: Annotated[Secret, BeforeValidator(_secret)] | None = _setting(
        "the shared token in the address that Pub/Sub pushes to (?token=…)", "a long random word", None
    )
    microsoft_client_id: str | None = _setting(
        "your application at Microsoft Entra; without it no Outlook mailbox can be connected by sign-in",
        "the application (client) id, a GUID",
        None,
    )
    microsoft_client_secret: Annotated[Secret, BeforeValidator(_secret)] | None = _setting(
        "the secret of that application", "the value of a client secret, not its id", None
    )
    microsoft_tenant: str = _setting(
        "whose accounts may sign in",
        "organizations, common, consumers, or the id of one tenant",
        "organizations",
        pattern=r"^[A-Za-z0-9.-]+$",
    )
    google_accounts_url: Annotated[str, AfterValidator(validators.validate_web_url)] = _setting(
        "where Google's consent page is", _ENDPOINT_URL, "https://accounts.google.com"
    )
    google_token_url: Annotated[str, AfterValidator(validators.validate_web_url)] = _setting(
        "where Google's token endpoint is", _ENDPOINT_URL, "https://oauth2.googleapis.com"
    )
    google_certs_url: Annotated[str, AfterValidator(validators.validate_web_url)] = _setting(
        "where Google publishes its signing keys", _ENDPOINT_URL, "https://www.googleapis.com"
    )
    gmail_url: Annotated[str, AfterValidator(validators.validate_web_url)] = _setting(
        "where the Gmail API is", _ENDPOINT_URL, "https://gmail.googleapis.com"
    )
    gmail_quota: str = _setting(
        "what Google lets your project ask of one mailbox in a minute",
        "new (projects made since May 2026), old, or the units a minute, such as 12000",
        "new",
        pattern=r"^(new|old|[1-9][0-9]{3,8})$",
    )
    microsoft_login_url: Annotated[str, AfterValidator(validators.validate_web_url)] = _setting(
        "where Microsoft's sign-in is", _ENDPOINT_URL, "https://login.microsoftonline.com"
    )
    graph_url: Annotated[str, AfterValidator(validators.validate_web_url)] = _setting(
        "where Microsoft Graph is", _ENDPOINT_URL, "https://graph.microsoft.com"
    )
    ca_file: Annotated[Path, AfterValidator(validators.validate_absolute_path)] | None = _setting(
        "the certificate authorities that providers' certificates must come from, instead of the system's",
        "the absolute path of a PEM file",
        None,
    )
    vault: VaultKind = _setting(
        "where the grants of mailboxes are kept: sealed in the database, or in AWS SSM",
        "local or ssm",
        VaultKind.LOCAL,
    )
    vault_keys: (
        Annotated[Secret, BeforeValidator(_secret), AfterValidator(validators.validate_vault_keys)] | None
    ) = _setting(
        "the vault's keys, instead of the file vault.keys in the home; the first seals, all open",
        "id:key, or several separated by commas, each key 32 bytes in base64 (openssl rand -base64 32)",
        None,
    )
    ssm_prefix: Annotated[str, AfterValidator(validators.validate_parameter_prefix)] = _setting(
        "what the names of Postroom's parameters in AWS SSM begin with",
        "a path such as /postroom/production",
        "/postroom",
        pattern=r"^(/[A-Za-z0-9_.-]{1,64}){1,8}$",
    )
    ssm_kms_key: str | None = _setting(
        "the KMS key that encrypts these parameters; unset, the account's key for SSM",
        "a key id, an alias such as alias/postroom, or an ARN",
        None,
        pattern=r"^[A-Za-z0-9:/_-]{1,256}$",
    )
    blobs: Annotated[str, AfterValidator(validators.validate_blob_location)] = _setting(
        "where attachments and documents are kept: on this machine's disk, in S3 or in Google Cloud Storage",
        "disk, or a bucket such as s3://my-bucket/postroom or gs://my-bucket/postroom",
        "disk",
    )
    blobs_endpoint: Annotated[str, AfterValidator(validators.validate_web_url)] | None = _setting(
        "where that bucket is served, if not by Amazon or Google", _ENDPOINT_URL, None
    )
    pipelines: Annotated[Path, AfterValidator(validators.validate_absolute_path)] | None = _setting(
        "the file that declares the pipelines; unset, the two that ship: invoices and contract-notes",
        "the absolute path of a TOML file",
        None,
    )
    queue: Annotated[str, AfterValidator(validators.validate_queue)] = _setting(
        "what tells workers of documents that are due: the database, or a queue of Amazon SQS",
        "postgres, or a standard queue such as sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/postroom",
        "postgres",
    )
    archive: Annotated[str, AfterValidator(validators.validate_archive_location)] = _setting(
        "where completed documents are archived: on this machine's disk, in a bucket, or nowhere",
        "disk, none, or a bucket such as s3://my-bucket/postroom or gs://my-bucket/postroom",
        "disk",
    )
    archive_endpoint: Annotated[str, AfterValidator(validators.validate_web_url)] | None = _setting(
        "where the archive's bucket is served, if not by Amazon or Google", _ENDPOINT_URL, None
    )
    gcs_credentials_file: Annotated[Path, AfterValidator(validators.validate_absolute_path)] | None = (
        _setting(
            "the key of the service account that reaches a gs:// bucket; unset, what this machine may do",
            "the absolute path of a JSON file",
            None,
        )
    )
    blob_grace_hours: float = _setting(
        "how long bytes that nothing refers to are kept",
        "a number from 1 to 8760",
        24,
        ge=1,
        le=8760,
    )
    keep_events_days: float = _setting(
        "how long the feed that pages, webhooks and API clients follow can be read back",
        "a number from 1 to 3650",
        30,
        ge=1,
        le=3650,
    )
    keep_mail_events_days: float | None = _setting(
        "how long the changes of messages are kept; unset, for ever", _DAYS, None, ge=1, le=36500
    )
    keep_personal_days: float | None = _setting(
        "how long the ledger keeps its personal values; unset, for ever", _DAYS, None, ge=1, le=36500
    )
    keep_deleted_days: float | None = _setting(
        "how long a message is kept that was deleted in its mailbox; unset, for ever",
        _DAYS,
        None,
        ge=1,
        le=36500,
    )
    keep_metadata_days: float | None = _setting(
        "how long mail is kept of mailboxes with the policy metadata; unset, for ever",
        _DAYS,
        None,
        ge=1,
        le=36500,
    )
    keep_documents_days: float | None = _setting(
        "how long mail is kept of mailboxes with the policy documents; unset, for ever",
        _DAYS,
        None,
        ge=1,
        le=36500,
    )
    keep_full_days: float | None = _setting(
        "how long mail is kept of mailboxes with the policy full; unset, for ever",
        _DAYS,
        None,
        ge=1,
        le=36500,
    )
    subscription_renew_hours: float = _setting(
        "how long before its end a subscription at Microsoft is renewed",
        "a number from 1 to 144",
        24,
        ge=1,
        le=144,
    )
    watch_renew_hours: float = _setting(
        "how often a watch at Gmail is renewed", "a number from 1 to 144", 24, ge=1, le=144
    )
    gmail_sweep_minutes: float = _setting(
        "how often a Gmail mailbox is read when no push arrives", "a number from 1 to 1440", 5, ge=1, le=1440
    )
    outlook_sweep_minutes: float = _setting(
        "how often a Microsoft 365 mailbox is read when no push arrives",
        "a number from 1 to 1440",
        15,
        ge=1,
        le=1440,
    )
    backfill_days: float = _setting(
        "how much mail from before the connection is fetched",
        "a number of days from 0 to 36500",
        30,
        ge=0,
        le=36500,
    )
    audit_days: float = _setting(
        "how often a mailbox is compared with its provider, message by message",
        "a number of days from 0.05 to 3650",
        7,
        ge=0.05,
        le=3650,
    )
    ledger_key: (
        Annotated[Secret, BeforeValidator(_secret), AfterValidator(validators.validate_ledger_key)] | None
    ) = _setting(
        "the key that signs the ledger's seals, instead of the file ledger.key in the home",
        "32 bytes in base64 (openssl rand -base64 32)",
        None,
    )
    simulator_url: Annotated[str, AfterValidator(validators.validate_web_url)] | None = _setting(
        "where the simulator of a demonstration is controlled; `postroom demo` sets it, and nobody else",
        "an http address on a loopback host",
        None,
    )
    log_level: LogLevel = _setting(
        "the least severe log lines that are written (commands that end: error, unless set)",
        "debug, info, warning or error",
        LogLevel.INFO,
    )
    log_format: LogFormat = _setting(
        "JSON lines or readable text; auto is text on a terminal", "auto, json or text", LogFormat.AUTO
    )
    concurrency: int = _setting(
        "how many pieces of work one worker process runs at a time",
        "a whole number from 1 to 1000",
        8,
        ge=1,
        le=1000,
    )
    wake: WakeMode = _setting(
        "whether idle workers are woken at once or find due work by the poll alone",
        "notify or poll",
        WakeMode.NOTIFY,
    )
    poll_seconds: float = _setting(
        "how often an idle worker looks for due work", "a number from 0.1 to 3600", 5, ge=0.1, le=3600
    )
    lease_seconds: float = _setting(
        "how long a piece of work belongs to a worker that gives no sign of life",
        "a number from 1 to 86400",
        60,
        ge=1,
        le=86400,
    )
    stop_seconds: float = _setting(
        "how long a stopping process may finish what it has begun",
        "a number from 0 to 3600",
        20,
        ge=0,
        le=3600,
    )
    max_attempts: int = _setting(
        "how often a piece of work is tried before it waits for a person",
        "a whole number from 1 to 1000",
        10,
        ge=1,
        le=1000,
    )
    backoff_first_seconds: float = _setting(
        "how long the second attempt waits after the first failed; each further wait is twice as long",
        "a number above 0, at most 86400",
        5,
        gt=0,
        le=86400,
    )
    backoff_max_seconds: float = _setting(
        "the longest wait between two attempts",
        "a number up to 604800, not below POSTROOM_BACKOFF_FIRST_SECONDS",
        3600,
        gt=0,
        le=604800,
    )

    llm: str = _setting(
        "the language model that reads documents; nothing leaves the machine with none",
        "none, or a vendor and its model such as anthropic:claude-haiku-5-5 or openai:gpt-5",
        "none",
        pattern=r"^(none|(anthropic|openai):\S+)$",
    )
    llm_base_url: Annotated[str, AfterValidator(validators.validate_web_url)] | None = _setting(
        "where the language model is, instead of at its vendor", _ENDPOINT_URL, None
    )
    llm_key: Annotated[Secret, BeforeValidator(_secret)] | None = _setting(
        "the key of the language model's vendor", "the key that the vendor showed", None
    )
    llm_usd_per_day: float = _setting(
        "what an organization may spend on the language model in a day; then documents are read offline",
        "a number from 0 to 100000",
        5,
        ge=0,
        le=100_000,
    )
    llm_timeout_seconds: float = _setting(
        "how long an answer of the language model is waited for",
        "a number above 0, at most 600",
        60,
        gt=0,
        le=600,
    )

    @field_validator("pubsub_service_account")
    @classmethod
    def _audience_and_sender_go_together(cls, value: str | None, info: ValidationInfo) -> str | None:
        if (value is None) != (info.data.get("pubsub_audience") is None):
            raise ValueError("goes together with POSTROOM_PUBSUB_AUDIENCE")
        return value

    @field_validator("oidc_client_secret")
    @classmethod
    def _an_openid_provider_needs_all_three(cls, value: Secret | None, info: ValidationInfo) -> Secret | None:
        given = [info.data.get("oidc_issuer"), info.data.get("oidc_client_id"), value]
        if any(given) and not all(given):
            raise ValueError("goes together with POSTROOM_OIDC_ISSUER and POSTROOM_OIDC_CLIENT_ID")
        return value

    @field_validator("backoff_max_seconds")
    @classmethod
    def _longest_wait_is_not_shorter_than_the_first(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("backoff_first_seconds", value):
            raise ValueError("is shorter than the first wait")
        return value
