"""Build the `Engine` of a process once, from its settings and an open database.

That includes the handlers of all work but documents, which are in `documents`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import aiohttp

from postroom.config import PubSubDelivery, Settings
from postroom.documents.pipelines import Pipelines
from postroom.engine import Engine, WorkHandler
from postroom.flow.documents import intake, screen
from postroom.flow.ledger import seal
from postroom.flow.ledger.seal import SealContext
from postroom.flow.mail import audit, file_name_index, policy, retention, sync
from postroom.flow.mail.pull import PullContext
from postroom.flow.mail.retention import RetentionPeriods
from postroom.flow.mail.sync import SyncContext
from postroom.flow.mailboxes import directory_sync, directory_user, orphan_subscriptions, subscribe
from postroom.flow.mailboxes.connect import ConnectContext
from postroom.flow.mailboxes.directories import DirectoryContext
from postroom.flow.mailboxes.subscribe_context import SubscribeContext
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.flow.outbound import deliver, send_notices
from postroom.flow.outbound.deliver import DeliverContext
from postroom.flow.outbound.send_notices import NoticeContext
from postroom.flow.storage import blob_gc, database_recovery
from postroom.flow.storage.blob_gc import BlobGcContext
from postroom.model import ContentPolicy, OrganizationId, ProviderName, WorkKind
from postroom.ports import BlobStore, Provider
from postroom.providers.graph.url_validation import NotificationUrlChecker
from postroom.store.database import Database
from postroom.store.ledger import Signer
from postroom.vault import LedgerKeys
from postroom.wiring import documents, outbound, remotes, secrets, storage

# A long listing yields to other mailboxes after this time.
SLICE_SECONDS: Final = 20.0


@asynccontextmanager
async def open_engine(
    settings: Settings, database: Database, *, url: str | None = None
) -> AsyncGenerator[Engine]:
    """The Engine of this process, until the block ends; then its HTTP client is closed."""
    async with remotes.open_http_client(settings) as client:
        yield build_engine(settings, database, client, url=url)


def build_engine(
    settings: Settings, database: Database, client: aiohttp.ClientSession, *, url: str | None = None
) -> Engine:
    """An Engine that uses this HTTP client. `url`: where browsers reach the web process."""
    sealer, ledger_heads = secrets.build_sealer(settings), secrets.build_ledger_heads(settings)
    vault, ledger_keys = secrets.build_vault(settings, sealer), secrets.build_ledger_keys(settings)
    pipelines, blobs = (
        documents.load_pipelines(settings),
        storage.build_limited_blob_store(settings, database),
    )
    providers = remotes.build_providers(settings, client)
    url = (url or settings.public_url or "").rstrip("/")
    tokens = AccessTokens(database, providers, vault, sealer)
    subscribe_context = _build_subscribe_context(settings, database, tokens)
    sync_context = _build_sync_context(settings, subscribe_context, blobs, pipelines, tokens)
    deliver_context = outbound.build_deliver_context(settings, database, sealer)
    notices = outbound.build_notice_context(settings, database, sealer, url)
    directory_context = _build_directory_context(settings, tokens, pipelines, url)
    sealing = SealContext(database, partial(_build_signer, ledger_keys), ledger_heads)
    return Engine(
        settings=settings,
        database=database,
        client=client,
        url=url,
        sealer=sealer,
        vault=vault,
        ledger_keys=ledger_keys,
        ledger_heads=ledger_heads,
        blobs=blobs,
        pipelines=pipelines,
        providers=providers,
        identities=remotes.build_identity_provider(settings, client),
        url_checker=NotificationUrlChecker(client),
        simulator=remotes.build_simulator(client, settings.simulator_url) if settings.simulator_url else None,
        tokens=tokens,
        remote=tokens.open_mailbox,
        connect=directory_context.connect,
        subscribe=subscribe_context,
        pull=_build_pull_context(settings, database, client, providers),
        sync=sync_context,
        deliver=deliver_context,
        notices=notices,
        review=documents.build_review_context(settings, pipelines),
        directories=directory_context,
        handlers=_build_handlers(
            settings, subscribe_context, sync_context, deliver_context, notices, directory_context, sealing
        ),
    )


def _build_directory_context(
    settings: Settings, tokens: AccessTokens, pipelines: Pipelines, url: str
) -> DirectoryContext:
    """The context of directories, which includes that of connecting single mailboxes."""
    providers, vault, sealer = tokens.providers, tokens.vault, tokens.sealer
    signing_in = remotes.find_sign_in_providers(settings, providers)
    connect = ConnectContext(tokens.database, providers, signing_in, vault, sealer, pipelines, url)
    return DirectoryContext(connect, tokens, settings.directory_sync_minutes * 60)


def _build_sync_context(
    settings: Settings,
    subscribing: SubscribeContext,
    blobs: BlobStore,
    pipelines: Pipelines,
    tokens: AccessTokens,
) -> SyncContext:
    minutes = {
        ProviderName.GMAIL: settings.gmail_sweep_minutes,
        ProviderName.OUTLOOK: settings.outlook_sweep_minutes,
    }
    return SyncContext(
        database=subscribing.database,
        remote=tokens.open_mailbox,
        blobs=blobs,
        sweep_seconds={
            provider: 60
            * (min(usual, settings.unpushed_sweep_minutes) if provider in subscribing.unpushed else usual)
            for provider, usual in minutes.items()
        },
        sweep_stretch={
            provider: 1 if provider in subscribing.unpushed else settings.sweep_stretch
            for provider in minutes
        },
        backfill_days=settings.backfill_days,
        slice_seconds=SLICE_SECONDS,
        intake=partial(intake.take_in, pipelines),
        covers_sender=partial(screen.covers_sender, pipelines),
        kept_days=_build_retention_periods(settings).messages,
        sender_quota=storage.build_sender_quota(settings, subscribing.database),
    )


def _build_subscribe_context(
    settings: Settings, database: Database, tokens: AccessTokens
) -> SubscribeContext:
    is_pulled = settings.pubsub_delivery is PubSubDelivery.PULL
    queues = {ProviderName.GMAIL: settings.pubsub_subscription or ""} if is_pulled else {}
    return SubscribeContext(
        database=database,
        remote=tokens.open_mailbox,
        public_url=settings.public_url,
        renewal_seconds={
            ProviderName.OUTLOOK: settings.subscription_renew_hours * 3600,
            ProviderName.GMAIL: settings.watch_renew_hours * 3600,
        },
        queues=queues,
    )


def _build_pull_context(
    settings: Settings,
    database: Database,
    client: aiohttp.ClientSession,
    providers: Mapping[ProviderName, Provider],
) -> PullContext | None:
    queue = remotes.build_notification_queue(settings, client, providers)
    operator = OrganizationId(settings.organization)
    return PullContext(database, queue, ProviderName.GMAIL, operator) if queue else None


def _build_handlers(
    settings: Settings,
    subscribing: SubscribeContext,
    syncing: SyncContext,
    delivering: DeliverContext,
    notices: NoticeContext,
    directories: DirectoryContext,
    sealing: SealContext,
) -> Mapping[WorkKind, WorkHandler]:
    """None of them gives up: a sync that fails, for example, backs off and continues from its cursor."""
    database, audit_seconds = syncing.database, settings.audit_days * 86400
    garbage = BlobGcContext(database, syncing.blobs, settings.blob_grace_hours * 3600)
    periods, pipelines = _build_retention_periods(settings), directories.connect.pipelines
    return {
        WorkKind.SYNC_DIRECTORY: WorkHandler(partial(directory_sync.run, directories)),
        WorkKind.SYNC_DIRECTORY_USER: WorkHandler(partial(directory_user.run, directories)),
        WorkKind.SUBSCRIBE: WorkHandler(partial(subscribe.run, subscribing)),
        WorkKind.REMOVE_ORPHANS: WorkHandler(partial(orphan_subscriptions.run, subscribing)),
        WorkKind.SYNC: WorkHandler(partial(sync.run, syncing)),
        WorkKind.AUDIT: WorkHandler(
            partial(audit.run, syncing, audit_seconds, repairs=settings.audit_repair)
        ),
        WorkKind.COLLECT_GARBAGE: WorkHandler(partial(blob_gc.run, garbage)),
        WorkKind.RECOVER: WorkHandler(partial(database_recovery.run, database)),
        WorkKind.APPLY_POLICY: WorkHandler(partial(policy.run, database, pipelines)),
        WorkKind.INDEX_FILE_NAMES: WorkHandler(partial(file_name_index.run, database)),
        WorkKind.APPLY_RETENTION: WorkHandler(partial(retention.run, database, periods, pipelines)),
        WorkKind.DELIVER: WorkHandler(partial(deliver.run, delivering)),
        WorkKind.SEND_NOTICES: WorkHandler(partial(send_notices.run, notices)),
        WorkKind.SEAL: WorkHandler(partial(seal.run, sealing)),
    }


def _build_signer(keys: LedgerKeys) -> Signer:
    key = keys.load_signing_key()
    return Signer(key.id, key.sign)


def _build_retention_periods(settings: Settings) -> RetentionPeriods:
    return RetentionPeriods(
        events=settings.keep_events_days,
        mail_events=settings.keep_mail_events_days,
        personal_values=settings.keep_personal_days,
        deleted_messages=settings.keep_deleted_days,
        messages={
            ContentPolicy.METADATA: settings.keep_metadata_days,
            ContentPolicy.DOCUMENTS: settings.keep_documents_days,
            ContentPolicy.FULL: settings.keep_full_days,
        },
    )
