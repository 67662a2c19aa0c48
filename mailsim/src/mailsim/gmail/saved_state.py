"""What the saved state contains of Google: grants, keys, settings, watches, quotas, uploads and Pub/Sub."""

from typing import Any

from mailsim.gmail import filters
from mailsim.gmail.api import GmailApi
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.mailbox_settings import MailboxSettings
from mailsim.gmail.quota import QuotaMeter
from mailsim.gmail.resumable import ResumableUpload
from mailsim.gmail.watches import GmailWatch
from mailsim.google.clients import GoogleClient
from mailsim.google.grants import (
    AuthorizationCode,
    AuthorizedRequest,
    GoogleAccessToken,
    GoogleAccount,
    GoogleRefreshToken,
)
from mailsim.google.options import GoogleOptions
from mailsim.google.pubsub_resources import (
    PendingMessage,
    PubSubDelivery,
    PubSubMessage,
    PubSubSubscription,
    PubSubTopic,
)
from mailsim.google.service_accounts import ServiceAccount
from mailsim.google.signing_keys import GoogleKeyRing, GoogleSigningKey
from mailsim.google.workspace import GroupMember, WorkspaceGroup
from mailsim.simulator import RawResponse
from mailsim.state.object_graph import SavedClass, describe
from mailsim.state.saved_part import ProviderState, SavedPart

_CLASSES = (
    GoogleOptions, GoogleKeyRing, GoogleSigningKey, GoogleAccount, GoogleClient, AuthorizedRequest,
    AuthorizationCode, GoogleRefreshToken, GoogleAccessToken, ServiceAccount, WorkspaceGroup, GroupMember,
    PubSubTopic, PubSubSubscription, PubSubMessage, PubSubDelivery, PendingMessage, GmailWatch, QuotaMeter,
    ResumableUpload, RawResponse, MailboxSettings,
)  # fmt: skip


def make_state(gmail: GmailApi) -> ProviderState:
    google = gmail.google

    def make_mailbox(values: dict[str, Any]) -> GmailMailbox:
        return gmail.make_view(values["mailbox"], values["settings"])

    def resume() -> None:
        for gmail_mailbox in gmail.gmail_mailboxes.values():
            filters.apply_to_arrivals(gmail_mailbox)
        gmail.pubsub.resume()

    parts = {
        "google": SavedPart(
            google,
            ("options", "client_problems", "key_ring"),
            ("sim", "grants", "service_accounts", "workspace"),
        ),
        "google.grants": SavedPart(
            google.grants,
            (
                "random", "codes", "refresh_tokens", "access_tokens", "live_refresh_tokens", "consents",
                "offline_grants", "account_problems", "prune_at",
            ),
        ),
        "google.service_accounts": SavedPart(
            google.service_accounts, ("accounts", "delegations"), ("registry",)
        ),
        "google.workspace": SavedPart(google.workspace, ("admins", "groups"), ("seed",)),
        "google.pubsub": SavedPart(
            gmail.pubsub,
            (
                "topics", "subscriptions", "backlogs", "policies", "deliveries", "published", "pulled",
                "tokens",
            ),
            ("google", "overtaken"),
        ),
        "gmail": SavedPart(
            gmail,
            ("gmail_mailboxes", "hidden_until", "attachment_ids", "uploads"),
            ("google", "pubsub", "watches", "quota_usage"),
        ),
        "gmail.watches": SavedPart(
            gmail.watches, ("by_address", "last_published_ms"), ("pubsub", "options", "history_id")
        ),
        "gmail.quota": SavedPart(
            gmail.quota_usage, ("users", "projects", "error_count"), ("options", "table", "clock")
        ),
    }  # fmt: skip
    classes = (*map(describe, _CLASSES), SavedClass(GmailMailbox, ("mailbox", "settings"), make_mailbox))
    return ProviderState(parts, classes, resume)
