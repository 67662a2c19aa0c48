"""The class `Settings`: name, type, limits, default and description of each setting.

The package `config` loads it from the environment; its types are in `setting_types`, checks in `validators`.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, ValidationInfo, field_validator

from postroom.config import validators
from postroom.config.server_settings import ServerSettings, setting
from postroom.config.setting_types import (
    AbsolutePath,
    BucketEndpoint,
    LogFormat,
    LogLevel,
    PubSubDelivery,
    SecretText,
    VaultKind,
    WakeMode,
    WebUrl,
)

LOOPBACK: Final = validators.LOOPBACK


def _retention(meaning: str) -> Any:
    return setting(meaning, "a number of days from 1 to 36500", None, ge=1, le=36500)


_ENDPOINT_URL: Final = "an https URL, or http on a loopback host; change it for a simulator or a proxy only"
_BUCKET_ENDPOINT: Final = "an https URL, or http on a loopback host or a host name without a dot"


class Settings(ServerSettings):
    google_client_id: str | None = setting(
        "OAuth client ID of your Google Cloud project; required to connect Gmail mailboxes",
        "a client ID such as 1234-abc.apps.googleusercontent.com",
        None,
    )
    google_client_secret: SecretText | None = setting(
        "OAuth client secret of your Google Cloud project", "the client secret shown by Google", None
    )
    pubsub_topic: str | None = setting(
        "Pub/Sub topic that Gmail publishes to, in the same project",
        "a name such as projects/my-project/topics/gmail",
        None,
        pattern=r"^projects/[^/]+/topics/[^/]+$",
    )
    pubsub_subscription: str | None = setting(
        "Pub/Sub subscription that delivers notifications; pushes from other subscriptions are rejected",
        "a name such as projects/my-project/subscriptions/postroom",
        None,
        pattern=r"^projects/[^/]+/subscriptions/[^/]+$",
    )
    pubsub_audience: str | None = setting(
        "Audience of the token in signed Pub/Sub pushes",
        "the audience configured on the push subscription",
        None,
    )
    pubsub_service_account: str | None = setting(
        "Service account that signs Pub/Sub pushes",
        "an address such as push@my-project.iam.gserviceaccount.com",
        None,
    )
    pubsub_token: SecretText | None = setting(
        "Shared token in the push URL of Pub/Sub (?token=…)", "a long random string", None
    )
    pubsub_key: SecretText | None = setting(
        "Service account that pulls notifications: the content of its JSON key file",
        "the content of a JSON key file",
        None,
    )
    pubsub_delivery: PubSubDelivery = setting(
        "How notifications of Gmail arrive: Pub/Sub pushes them to the public URL (push), or workers pull"
        " them (pull)",
        "push or pull",
        PubSubDelivery.PUSH,
    )
    microsoft_client_id: str | None = setting(
        "Application (client) ID in Microsoft Entra; required to connect Outlook mailboxes by sign-in",
        "the application (client) ID, a GUID",
        None,
    )
    microsoft_client_secret: SecretText | None = setting(
        "Client secret of the Microsoft Entra application", "the value of a client secret, not its ID", None
    )
    microsoft_tenant: str = setting(
        "Microsoft accounts that may sign in",
        "organizations, common, consumers, or the ID of one tenant",
        "organizations",
        pattern=r"^[A-Za-z0-9.-]+$",
    )
    google_accounts_url: WebUrl = setting(
        "Base URL of Google's consent page", _ENDPOINT_URL, "https://accounts.google.com"
    )
    google_token_url: WebUrl = setting(
        "Base URL of Google's token endpoint", _ENDPOINT_URL, "https://oauth2.googleapis.com"
    )
    google_certs_url: WebUrl = setting(
        "Base URL of Google's public signing keys", _ENDPOINT_URL, "https://www.googleapis.com"
    )
    pubsub_url: WebUrl = setting(
        "Base URL of Pub/Sub, from which notifications are pulled",
        _ENDPOINT_URL,
        "https://pubsub.googleapis.com",
    )
    google_directory_url: WebUrl = setting(
        "Base URL of Google's Admin SDK, which lists the users of a directory",
        _ENDPOINT_URL,
        "https://admin.googleapis.com",
    )
    gmail_url: WebUrl = setting("Base URL of the Gmail API", _ENDPOINT_URL, "https://gmail.googleapis.com")
    gmail_quota: str = setting(
        "Gmail quota table of your Google Cloud project: new, old, or a number of units per minute",
        "new (projects created since May 2026), old, or a number of units per minute such as 12000",
        "new",
        pattern=r"^(new|old|[1-9][0-9]{3,8})$",
    )
    microsoft_login_url: WebUrl = setting(
        "Base URL of Microsoft's sign-in", _ENDPOINT_URL, "https://login.microsoftonline.com"
    )
    graph_url: WebUrl = setting("Base URL of Microsoft Graph", _ENDPOINT_URL, "https://graph.microsoft.com")
    ca_file: AbsolutePath | None = setting(
        "Certificate authorities that providers and the mail server must chain to. Default: the system's",
        "the absolute path of a PEM file",
        None,
    )
    vault: VaultKind = setting(
        "Where mailbox credentials are stored: encrypted in the database (local), or in AWS SSM (ssm)",
        "local or ssm",
        VaultKind.LOCAL,
    )
    vault_keys: Annotated[SecretText, AfterValidator(validators.validate_vault_keys)] | None = setting(
        "Encryption keys of the vault; the first encrypts, all decrypt."
        " Default: the file vault.keys in the home directory",
        "id:key, or several separated by commas; each key is 32 bytes in base64 (openssl rand -base64 32)",
        None,
    )
    ssm_prefix: Annotated[str, AfterValidator(validators.validate_parameter_prefix)] = setting(
        "Prefix of Postroom's parameter names in AWS SSM",
        "a path such as /postroom/production",
        "/postroom",
        pattern=r"^(/[A-Za-z0-9_.-]{1,64}){1,8}$",
    )
    ssm_kms_key: str | None = setting(
        "KMS key that encrypts the SSM parameters. Default: the account's key for SSM",
        "a key ID, an alias such as alias/postroom, or an ARN",
        None,
        pattern=r"^[A-Za-z0-9:/_-]{1,256}$",
    )
    blobs: Annotated[str, AfterValidator(validators.validate_blob_location)] = setting(
        "Where attachments and documents are stored: local disk, S3 or Google Cloud Storage",
        "disk, or a bucket such as s3://my-bucket/postroom or gs://my-bucket/postroom",
        "disk",
    )
    blobs_endpoint: BucketEndpoint | None = setting(
        "Endpoint of an S3- or GCS-compatible server for blobs. Default: Amazon or Google",
        _BUCKET_ENDPOINT,
        None,
    )
    pipelines: AbsolutePath | None = setting(
        "Pipelines file. Default: the built-in pipelines invoices and contract-notes",
        "the absolute path of a TOML file",
        None,
    )
    queue: Annotated[str, AfterValidator(validators.validate_queue)] = setting(
        "Queue that assigns documents to workers: the database, or Amazon SQS",
        "postgres, or a standard queue such as sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/postroom",
        "postgres",
    )
    archive: Annotated[str, AfterValidator(validators.validate_archive_location)] = setting(
        "Where completed documents are archived: local disk, a bucket, or nowhere",
        "disk, none, or a bucket such as s3://my-bucket/postroom or gs://my-bucket/postroom",
        "disk",
    )
    archive_endpoint: BucketEndpoint | None = setting(
        "Endpoint of an S3- or GCS-compatible server for the archive. Default: Amazon or Google",
        _BUCKET_ENDPOINT,
        None,
    )
    gcs_credentials_file: AbsolutePath | None = setting(
        "Service account key for gs:// buckets. Default: the machine's own credentials",
        "the absolute path of a JSON file",
        None,
    )
    blob_grace_hours: float = setting(
        "Hours until an unreferenced blob is deleted",
        "a number from 1 to 8760",
        24,
        ge=1,
        le=8760,
    )
    organization_storage_gb: float | None = setting(
        "Gigabytes of files that an organization may store. Default: no limit",
        "a number above 0",
        None,
        gt=0,
    )
    sender_storage_gb: float | None = setting(
        "Gigabytes of attachments from one sender that an organization may store. Default: no limit",
        "a number above 0",
        None,
        gt=0,
    )
    keep_events_days: float = setting(
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
    subscription_renew_hours: float = setting(
        "Hours between renewals of a Microsoft Graph subscription",
        "a number from 1 to 144",
        24,
        ge=1,
        le=144,
    )
    watch_renew_hours: float = setting(
        "Hours between renewals of a Gmail watch", "a number from 1 to 144", 24, ge=1, le=144
    )
    gmail_sweep_minutes: float = setting(
        "Minutes between syncs of a Gmail mailbox when no push arrives",
        "a number from 1 to 1440",
        5,
        ge=1,
        le=1440,
    )
    outlook_sweep_minutes: float = setting(
        "Minutes between syncs of a Microsoft 365 mailbox when no push arrives",
        "a number from 1 to 1440",
        15,
        ge=1,
        le=1440,
    )
    unpushed_sweep_minutes: float = setting(
        "Minutes between syncs of a mailbox whose provider cannot notify this Postroom",
        "a number from 0.5 to 1440",
        1,
        ge=0.5,
        le=1440,
    )
    sweep_stretch: float = setting(
        "How many times longer than usual a mailbox may wait for its next sweep while its pushes are proven",
        "a number from 1 to 24",
        4,
        ge=1,
        le=24,
    )
    directory_sync_minutes: float = setting(
        "Minutes between two listings of a directory. Each connects new users and handles those who left",
        "a number from 5 to 1440",
        60,
        ge=5,
        le=1440,
    )
    backfill_days: float = setting(
        "Days of past mail to fetch when a mailbox is connected, counted from the connection",
        "a number from 0 to 36500",
        30,
        ge=0,
        le=36500,
    )
    audit_days: float = setting(
        "Days between audits of a mailbox", "a number from 0.05 to 3650", 7, ge=0.05, le=3650
    )
    audit_repair: bool = setting(
        "Repair the differences that scheduled audits find. false: only report them", "true or false", True
    )
    ledger_key: Annotated[SecretText, AfterValidator(validators.validate_ledger_key)] | None = setting(
        "Key of the ledger's MACs and seals. Default: the file ledger.key in the home directory",
        "32 bytes in base64 (openssl rand -base64 32); earlier keys may follow after commas",
        None,
    )
    ledger_heads_file: AbsolutePath | None = setting(
        "File to which each new head of a ledger is also appended", "the absolute path of a file", None
    )
    simulator_url: WebUrl | None = setting(
        "Control URL of the demo's simulator. Set by `postroom demo` only",
        "an http URL on a loopback host",
        None,
    )
    log_level: LogLevel = setting(
        "Minimum severity of log lines. Default for short-lived commands: error",
        "debug, info, warning or error",
        LogLevel.INFO,
    )
    log_format: LogFormat = setting(
        "Format of log lines: json, text, or auto (text on a terminal, else JSON)",
        "auto, json or text",
        LogFormat.AUTO,
    )
    concurrency: int = setting(
        "Number of work items one worker process runs at a time",
        "a whole number from 1 to 1000",
        8,
        ge=1,
        le=1000,
    )
    wake: WakeMode = setting(
        "How idle workers find due work: notified at once (notify), or by polling only (poll)",
        "notify or poll",
        WakeMode.NOTIFY,
    )
    poll_seconds: float = setting(
        "Seconds between polls of an idle worker", "a number from 0.1 to 3600", 5, ge=0.1, le=3600
    )
    lease_seconds: float = setting(
        "Seconds until the work of an unresponsive worker is leased to another",
        "a number from 1 to 86400",
        60,
        ge=1,
        le=86400,
    )
    stall_seconds: float = setting(
        "Seconds after which a stuck worker exits, so that it can be restarted",
        "a number from 1 to 86400",
        120,
        ge=1,
        le=86400,
    )
    stop_seconds: float = setting(
        "Seconds a stopping process may take to finish running work",
        "a number from 0 to 3600",
        20,
        ge=0,
        le=3600,
    )
    max_attempts: int = setting(
        "Attempts before a document fails, or unpacking is parked for the operator",
        "a whole number from 1 to 1000",
        10,
        ge=1,
        le=1000,
    )
    backoff_first_seconds: float = setting(
        "Seconds before the first retry; each further delay doubles",
        "a number above 0, at most 86400",
        5,
        gt=0,
        le=86400,
    )
    backoff_max_seconds: float = setting(
        "Maximum seconds between two attempts",
        "a number up to 604800, not below POSTROOM_BACKOFF_FIRST_SECONDS",
        3600,
        gt=0,
        le=604800,
    )

    llm: str = setting(
        "Language model that extracts fields from documents; with none, no document leaves the machine",
        "none, or a vendor and model such as anthropic:claude-haiku-5-5 or openai:gpt-5",
        "none",
        pattern=r"^(none|(anthropic|openai):\S+)$",
    )
    llm_base_url: WebUrl | None = setting(
        "Base URL of the language model. Default: the vendor's", _ENDPOINT_URL, None
    )
    llm_key: SecretText | None = setting(
        "API key for the language model", "the API key issued by the vendor", None
    )
    llm_usd_per_day: float = setting(
        "Daily language model budget per organization in US dollars; beyond it, documents are read offline",
        "a number from 0 to 100000",
        5,
        ge=0,
        le=100_000,
    )
    llm_timeout_seconds: float = setting(
        "Seconds to wait for the language model's response",
        "a number above 0, at most 600",
        60,
        gt=0,
        le=600,
    )

    @field_validator("pubsub_service_account")
    @classmethod
    def _require_audience_with_service_account(cls, value: str | None, info: ValidationInfo) -> str | None:
        if (value is None) != (info.data.get("pubsub_audience") is None):
            raise ValueError("must be set together with POSTROOM_PUBSUB_AUDIENCE")
        return value

    @field_validator("pubsub_delivery")
    @classmethod
    def _require_key_to_pull(cls, value: PubSubDelivery, info: ValidationInfo) -> PubSubDelivery:
        needed = (info.data.get("pubsub_subscription"), info.data.get("pubsub_key"))
        if value is PubSubDelivery.PULL and None in needed:
            raise ValueError("needs POSTROOM_PUBSUB_SUBSCRIPTION and POSTROOM_PUBSUB_KEY to pull")
        return value

    @field_validator("backoff_max_seconds")
    @classmethod
    def _require_max_backoff_above_first(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("backoff_first_seconds", value):
            raise ValueError("is below POSTROOM_BACKOFF_FIRST_SECONDS")
        return value
