"""The crash points: right before and right after every effect on the outside, and every commit.

The one list of them. `test_crash_points` kills a process at each; `rules/test_crash_points.py` compares the
list with the ports, so that a new effect without a crash point fails, and with `docs/crash-points.md`.
"""

from dataclasses import dataclass
from typing import Any

_GRAPH = "postroom.providers.graph"
_GMAIL = "postroom.providers.gmail"
_FENCED = "postroom.store.work:fenced_transaction"
_TRANSACTION = "postroom.store.database:Database.transaction"


@dataclass(frozen=True)
class Effect:
    """One effect, and how a test reaches it.

    `scenario`: the class in `crash_mailboxes` or `crash_documents` that reaches it. `place`: the function
    that is replaced by one that kills its process, in its `call`-th call. `port`: the method whose effect it
    is, as "Class.method"; none for a commit. Of a commit, `kind` is the kind of work whose step commits, or
    `within` is a function that is called in the transaction. `usual` is the crash point that every test run
    includes, the harder one of the two, for one effect of each scenario or so; `make soak` runs all.
    """

    name: str
    scenario: str
    place: str
    port: str | None = None
    call: int = 1
    kind: str | None = None
    within: str | None = None
    provider: str = "outlook"
    usual: str | None = "after"


def _commit(name: str, scenario: str, **given: Any) -> Effect:
    place = _TRANSACTION if "within" in given else _FENCED
    values: dict[str, Any] = {"usual": "before"} | given
    return Effect(f"commit.{name}", scenario, place, **values)


EFFECTS = (
    Effect("token.refresh", "Mail", f"{_GRAPH}.login:EntraLogin.refresh", "ProviderLogin.refresh"),
    Effect(
        "token.refresh",
        "Mail",
        f"{_GMAIL}.login:GoogleLogin.refresh",
        "ProviderLogin.refresh",
        provider="gmail",
        usual=None,
    ),
    Effect(
        "subscription.create", "Mail", f"{_GRAPH}.adapter:GraphMailbox.subscribe", "RemoteMailbox.subscribe"
    ),
    Effect(
        "subscription.create",
        "Mail",
        f"{_GMAIL}.adapter:GmailMailbox.subscribe",
        "RemoteMailbox.subscribe",
        provider="gmail",
        usual=None,
    ),
    Effect(
        "blob.put",
        "Mail",
        "postroom.blobs.disk:DiskBlobStore.put",
        "BlobStore.put",
        provider="gmail",
        usual=None,
    ),
    Effect("blob.check", "Mail", "postroom.blobs.disk:DiskBlobStore.check", "BlobStore.check", usual=None),
    _commit("folders", "Mail", within="postroom.store.folders:reconcile", usual="after"),
    _commit("sync", "Mail", within="postroom.store.blobs:record"),
    _commit("subscribe", "Mail", within="postroom.store.subscriptions:confirm", usual=None),
    Effect("work.claim", "Mail", "postroom.store.work:claim", provider="gmail", usual=None),
    Effect("subscription.renew", "Renewal", f"{_GRAPH}.adapter:GraphMailbox.renew", "RemoteMailbox.renew"),
    Effect(
        "subscription.renew",
        "Renewal",
        f"{_GMAIL}.adapter:GmailMailbox.renew",
        "RemoteMailbox.renew",
        provider="gmail",
        usual=None,
    ),
    Effect(
        "subscription.remove",
        "MovedUrl",
        f"{_GRAPH}.adapter:GraphMailbox.unsubscribe",
        "RemoteMailbox.unsubscribe",
        usual=None,
    ),
    Effect(
        "archive.put_once",
        "Document",
        "postroom.blobs.disk_archive:DiskArchive.put_once",
        "Archive.put_once",
    ),
    Effect(
        "archive.put_once",
        "RevisedArchive",
        "postroom.blobs.disk_archive:DiskArchive.put_once",
        "Archive.put_once",
        usual=None,
    ),
    Effect(
        "archive.remove",
        "MovedArchive",
        "postroom.blobs.disk_archive:DiskArchive.remove",
        "Archive.remove",
        usual=None,
    ),
    _commit("process_document", "Document", kind="process_document", call=2),
    _commit("archive", "Document", kind="archive", usual=None),
    Effect("work.finish", "Document", "postroom.store.work:finish", usual=None),
    Effect("blob.put", "Container", "postroom.blobs.disk:DiskBlobStore.put", "BlobStore.put", usual=None),
    _commit("unpack", "Container", kind="unpack", usual=None),
    Effect("blob.put", "Upload", "postroom.blobs.disk:DiskBlobStore.put", "BlobStore.put", usual=None),
    _commit("upload", "Upload", within="postroom.store.blobs:record", usual=None),
    Effect("blob.put", "Unlock", "postroom.blobs.disk:DiskBlobStore.put", "BlobStore.put", usual=None),
    _commit("unlock", "Unlock", within="postroom.store.document_files:store_unlocked"),
    Effect("blob.put", "Split", "postroom.blobs.disk:DiskBlobStore.put", "BlobStore.put", call=2, usual=None),
    _commit("split", "Split", within="postroom.store.document_files:set_parts", usual=None),
    Effect(
        "blob.put",
        "AutomaticSplit",
        "postroom.blobs.disk:DiskBlobStore.put",
        "BlobStore.put",
        call=2,
        usual=None,
    ),
    _commit("process_document", "AutomaticSplit", kind="process_document", call=2, usual=None),
    _commit("watch_folder", "WatchedImport", within="postroom.store.blobs:record", usual=None),
    Effect(
        "webhook.post",
        "Deliver",
        "postroom.providers.webhook_sender:WebhookSender.post",
        "WebhookSender.post",
        call=2,
    ),
    _commit("deliver", "Deliver", within="postroom.store.webhooks:record_outcomes", usual=None),
    _commit("seal", "Deliver", kind="seal", usual=None),
    Effect(
        "notice.mail",
        "Notice",
        "postroom.providers.smtp_sender:SmtpSender.send",
        "SmtpSender.send",
        usual=None,
    ),
    _commit("send_notices", "Notice", within="postroom.store.notice_conditions:record_sent"),
    Effect(
        "key.create",
        "FirstEntry",
        "postroom.vault.key_lines:KeyLines.create_first",
        "LedgerKeys.load_private",
        usual=None,
    ),
    Effect(
        "key.derive",
        "FirstEntry",
        "postroom.vault.key_lines:KeyLines.add",
        "LedgerMacs.load_current",
        usual=None,
    ),
    Effect(
        "head.keep",
        "Deliver",
        "postroom.vault.ledger_heads:LedgerHeads.keep",
        "LedgerHeads.keep",
        usual=None,
    ),
    Effect("blob.delete", "Garbage", "postroom.blobs.disk:DiskBlobStore.delete", "BlobStore.delete"),
    _commit("collect_garbage", "Garbage", within="postroom.store.blobs:record_removals", usual=None),
    Effect("login.exchange", "Connect", f"{_GRAPH}.login:EntraLogin.exchange", "ProviderLogin.exchange"),
    Effect("vault.store", "Connect", "postroom.vault.ssm:SsmVault.store", "Vault.store"),
    _commit("connect", "Connect", within="postroom.store.credentials:save", usual=None),
    Effect(
        "subscription.remove",
        "Disconnect",
        f"{_GMAIL}.adapter:GmailMailbox.unsubscribe",
        "RemoteMailbox.unsubscribe",
        provider="gmail",
        usual=None,
    ),
    Effect(
        "token.revoke",
        "Disconnect",
        f"{_GMAIL}.login:GoogleLogin.revoke",
        "ProviderLogin.revoke",
        provider="gmail",
        usual=None,
    ),
    Effect("vault.delete", "Disconnect", "postroom.vault.ssm:SsmVault.delete", "Vault.delete", usual=None),
    _commit("disconnect", "Disconnect", within="postroom.store.credentials:delete", usual="after"),
    _commit("change_policy", "LowerPolicy", within="postroom.store.mailboxes:set_policy", usual=None),
    _commit("purge_person", "PurgePerson", within="postroom.store.purged_people:add", usual="after"),
    Effect("key.add", "RotateKey", "postroom.vault.keys:KeyFile.add", "KeyFile.add", usual=None),
    Effect(
        "key.remove",
        "ForgetKey",
        "postroom.vault.keys:KeyFile.remove",
        "KeyFile.remove",
        usual=None,
    ),
    _commit("rotate_key", "RotateKey", within="postroom.store.credentials:reseal_grant", usual=None),
    _commit("sync_directory", "DirectoryListing", kind="sync_directory", provider="gmail", usual=None),
    _commit("sync_directory_user", "DirectoryListing", kind="sync_directory_user", call=2, provider="gmail"),
    Effect(
        "notification.pull",
        "Pull",
        f"{_GMAIL}.pubsub:PubSubQueue.pull",
        "NotificationQueue.pull",
        provider="gmail",
        usual=None,
    ),
    Effect(
        "notification.acknowledge",
        "Pull",
        f"{_GMAIL}.pubsub:PubSubQueue.acknowledge",
        "NotificationQueue.acknowledge",
        provider="gmail",
        usual="before",
    ),
    Effect("queue.send", "Queue", "postroom.sqs:SqsQueue.send", "SqsQueue.send", usual=None),
    Effect("queue.receive", "Queue", "postroom.sqs:SqsQueue.receive", "SqsQueue.receive", usual=None),
    Effect("queue.delete", "Queue", "postroom.sqs:SqsQueue.delete", "SqsQueue.delete", usual=None),
)

# Every other method of the ports: it changes nothing outside, or only by one of the effects above.
WITHOUT_EFFECT = frozenset(
    {
        "TokenSource.get_token",  # by ProviderLogin.refresh
        "TokenSource.replace_rejected",
        "TokenSource.find_newer",
        "RemoteMailbox.push_interval_seconds",
        "RemoteMailbox.push_names_messages",
        "RemoteMailbox.check",
        "RemoteMailbox.find_subscription",
        "RemoteMailbox.list_subscriptions",
        "RemoteMailbox.list_folders",
        "RemoteMailbox.get_current_cursor",
        "RemoteMailbox.list_messages",
        "RemoteMailbox.list_changes",
        "RemoteMailbox.list_recent",
        "RemoteMailbox.look_up",
        "RemoteMailbox.fetch",
        "RemoteMailbox.fetch_attachment",
        "RemoteMailbox.fetch_raw",
        "RemoteMailbox.quota_used",
        "RemoteMailbox.get_mutable_ids",
        "PushReader.refresh_keys",
        "PushReader.read",
        "ProviderLogin.scopes",
        "ProviderLogin.authorization_url",
        "ProviderLogin.app_scopes",
        "ProviderLogin.app_tokens",  # a new token invalidates no other one
        "ProviderLogin.app_account",
        "Provider.name",
        "Provider.login",
        "Provider.push",
        "Provider.mailbox",
        "Provider.directory",
        "RemoteDirectory.list_users",
        "IdentityProvider.name",
        "IdentityProvider.authorization_url",
        "IdentityProvider.identity",  # uses up the code of one sign-in, which the person repeats
        "Vault.fetch",
        "BlobStore.read",
        "BlobStore.find",
        "BlobStore.list_all",
        "BlobStore.get_time",  # dates a file or object that only this reads
        "WatchedFolder.may_hold_partial_files",
        "WatchedFolder.list_files",
        "WatchedFolder.read",
        "Archive.fetch",
        "SqsQueue.check",
        "SqsQueue.extend",  # only delays the next delivery
        "LedgerKeys.load_signing_key",  # by LedgerKeys.load_private
        "LedgerKeys.list_private",
        "LedgerKeys.check",
        "LedgerKeys.public",
        "LedgerMacs.load_known",
        "LedgerHeads.path",
        "LedgerHeads.load",
        "LedgerHeads.list_newest",
        "LedgerHeads.list_known",
        "LedgerHeads.list_organizations",
        "KeyFile.source",
        "KeyFile.first",  # by KeyFile.add, for the first key
        "KeyFile.find",
        "KeyFile.list_all",
        "KeyFile.unchanged_seconds",
    }
)

# Kinds of work that commit no effect of their own outside: all they do is in one transaction per batch.
DATABASE_ONLY = frozenset(
    {
        "apply_policy",
        "apply_retention",
        "audit",
        "index_file_names",
        "recover",
        "remove_orphans",  # by RemoteMailbox.unsubscribe; it commits nothing
        "share_state",
    }
)
