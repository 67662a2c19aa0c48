"""From settings to running parts: the one place that names what is behind each port.

Every command comes through here, and most need no provider: what reaches those is imported where it is made.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, assert_never
from uuid import uuid4

from postroom.blobs import DiskBlobs
from postroom.config import Settings, VaultKind
from postroom.documents import kind as papers
from postroom.documents import pipelines
from postroom.errors import OperatorError
from postroom.flow.documents import intake
from postroom.flow.ledger import seal
from postroom.flow.mail import audit, policy, retention, sync
from postroom.flow.mail.retention import Periods
from postroom.flow.mail.sync import Syncing
from postroom.flow.mailboxes import subscribe
from postroom.flow.mailboxes.connect import Desk
from postroom.flow.mailboxes.subscribe import Cadence, Subscribing
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.flow.outbound import deliver
from postroom.flow.outbound.deliver import Delivering
from postroom.flow.storage import blob_gc
from postroom.flow.storage.blob_gc import Collecting
from postroom.model import ContentPolicy, Done, ProviderName, Secret, key_bytes, sealing_keys
from postroom.ports import BlobStore, IdentityProvider, Provider, RemoteMailbox, Vault
from postroom.store import blobs as stored_blobs
from postroom.store.database import Database
from postroom.store.embedded import default_home
from postroom.store.ledger import Signer
from postroom.store.mailboxes import Mailbox
from postroom.store.work import Lease
from postroom.vault import GivenKeys, KeyFile, LedgerKeys, LocalVault, Sealer

if TYPE_CHECKING:
    # What reaches the providers. Others hand it on, and need not know whose it is.
    from aiohttp import ClientSession as Client

    from postroom.blobs.gcs import GcsBlobs
    from postroom.blobs.s3 import S3Blobs
    from postroom.providers.simulator import Simulator

ELSEWHERE: Final = "The blobs of this installation lie elsewhere"
ELSEWHERE_REMEDY: Final = (
    "Where workers run on several machines, set POSTROOM_BLOBS to one bucket on all of them, or share the"
    " directory; after a move of the blobs, run `postroom blobs adopt`."
)
# A long listing gives way to other mailboxes so often.
SLICE_SECONDS: Final = 20.0
# A step does the work of one lease. It commits through `work.fenced`, and either finishes the lease in its
# own last transaction and returns nothing, or returns how it ended and leaves the finish to the worker.
Step = Callable[[Lease], Awaitable[Done | None]]


@dataclass(frozen=True)
class Kind:
    """One kind of work. Without a limit of attempts it is never parked: it backs off and goes on for ever."""

    step: Step
    max_attempts: int | None


def delivering(settings: Settings, database: Database) -> Delivering:
    """What telling outside applications needs."""
    from postroom.providers.webhook_sender import Poster

    networks = settings.webhook_networks or ()
    sealer = Sealer(vault_keys(settings))
    return Delivering(database, sealer, Poster(networks).post, allows_http=bool(networks))


def kinds(settings: Settings, database: Database, client: "Client") -> Mapping[str, Kind]:
    """Every kind of work that this Postroom knows."""
    reached = _subscribing(settings, database, client)
    mirroring = syncing(settings, database, reached.remote)
    return {
        subscribe.KIND: Kind(partial(subscribe.run, reached), None),
        sync.KIND: Kind(partial(sync.run, mirroring), None),
        audit.KIND: Kind(partial(audit.run, mirroring, settings.audit_days * 86400), None),
        blob_gc.KIND: Kind(_collecting(settings, database), None),
        policy.KIND: Kind(partial(policy.run, database), None),
        retention.KIND: Kind(partial(retention.run, database, periods(settings)), None),
        deliver.KIND: Kind(partial(deliver.run, delivering(settings, database)), None),
        seal.KIND: Kind(_sealing(database, ledger_keys(settings)), None),
    }


def remote(settings: Settings, database: Database, client: "Client", mailbox: Mailbox) -> RemoteMailbox:
    """One mailbox at its provider."""
    return _subscribing(settings, database, client).remote(mailbox)


def reaching(settings: Settings, database: Database, client: "Client") -> Callable[[Mailbox], RemoteMailbox]:
    """Any mailbox at its provider, as often as wanted: tokens and pace are shared."""
    return _subscribing(settings, database, client).remote


def subscribing(settings: Settings, database: Database, client: "Client") -> Kind:
    """The keeping of push channels. It never gives up: without one, new mail is found by the sweeps only."""
    return Kind(partial(subscribe.run, _subscribing(settings, database, client)), None)


def _subscribing(settings: Settings, database: Database, client: "Client") -> Subscribing:
    counter = desk(settings, database, client, settings.public_url or "")
    return Subscribing(
        database=database,
        providers=counter.providers,
        tokens=access_tokens(counter).of,
        public_url=settings.public_url,
        cadences={
            ProviderName.OUTLOOK: Cadence(settings.subscription_renew_hours * 3600),
            ProviderName.GMAIL: Cadence(86400, every_seconds=settings.watch_renew_hours * 3600),
        },
    )


def syncing(settings: Settings, database: Database, remote: Callable[[Mailbox], RemoteMailbox]) -> Syncing:
    """What mirrors mailboxes. It never gives up: a sync that fails backs off and goes on from its cursor."""
    return Syncing(
        database=database,
        remote=remote,
        blobs=blobs(settings),
        accept=sync.accepts,
        sweep_seconds={
            ProviderName.GMAIL: settings.gmail_sweep_minutes * 60,
            ProviderName.OUTLOOK: settings.outlook_sweep_minutes * 60,
        },
        backfill_days=settings.backfill_days,
        slice_seconds=SLICE_SECONDS,
        take_in=partial(intake.take_in, pipelines.load(settings.pipelines, kinds=papers.installed())),
        kept_days=periods(settings).messages,
    )


async def handshake_fault(client: "Client", public_url: str) -> str | None:
    """Why a provider that asks first would not accept our notification address; None where it would."""
    from postroom.providers.graph import handshake

    address = f"{public_url}/webhooks/{ProviderName.OUTLOOK}/{uuid4()}"
    return await handshake.fault(client, address, f"Validation: of postroom itself {token_urlsafe(16)} +1")


def ledger_keys(settings: Settings) -> LedgerKeys:
    """The key that signs the ledger, and all that signed it before."""
    given = settings.ledger_key
    return LedgerKeys(settings.home or default_home(), key_bytes(given.reveal()) if given else None)


def _sealing(database: Database, keys: LedgerKeys) -> Step:
    """The key is looked up for each lease: who seals nothing needs none, and a new one counts at once."""

    async def step(lease: Lease) -> None:
        key = keys.signing()
        await seal.run(database, Signer(key.id, key.sign), lease)

    return step


def client(settings: Settings) -> "AbstractAsyncContextManager[Client]":
    """The HTTP client of this process, for every provider."""
    from postroom.providers.transport import open_client

    return open_client(certificate_authorities=str(settings.ca_file) if settings.ca_file else None)


def simulator(client: "Client", url: str) -> "Simulator":
    """The control of the simulator that stands for the providers in a demonstration."""
    from postroom.providers.simulator import Simulator

    return Simulator(client, url)


def providers(settings: Settings, client: "Client") -> Mapping[ProviderName, Provider]:
    """Those that are configured. Outlook always is: app-only mailboxes bring an application of their own."""
    from postroom.providers import registry

    found: dict[ProviderName, Provider] = {ProviderName.OUTLOOK: _outlook(settings, client)}
    if settings.google_client_id and settings.google_client_secret and settings.pubsub_topic:
        found[ProviderName.GMAIL] = registry.gmail(
            client,
            registry.Google(
                client_id=settings.google_client_id,
                client_secret=settings.google_client_secret,
                topic=settings.pubsub_topic,
                subscription=settings.pubsub_subscription,
                audience=settings.pubsub_audience,
                service_account=settings.pubsub_service_account,
                shared_token=settings.pubsub_token,
                accounts_url=settings.google_accounts_url,
                token_url=settings.google_token_url,
                certs_url=settings.google_certs_url,
                api_url=settings.gmail_url,
                quota=settings.gmail_quota,
            ),
        )
    return found


def sign_ins(settings: Settings) -> frozenset[ProviderName]:
    """The providers at which people can sign in: those where this Postroom has an application."""
    found = {
        ProviderName.GMAIL: settings.google_client_id
        and settings.google_client_secret
        and settings.pubsub_topic,
        ProviderName.OUTLOOK: settings.microsoft_client_id and settings.microsoft_client_secret,
    }
    return frozenset(name for name, application in found.items() if application)


def identities(settings: Settings, client: "Client") -> IdentityProvider | None:
    """Who vouches for the members' identities, where that is set."""
    from postroom.providers import registry

    if not settings.oidc_issuer or not settings.oidc_client_id or not settings.oidc_client_secret:
        return None
    return registry.openid(
        client,
        settings.oidc_issuer,
        settings.oidc_client_id,
        settings.oidc_client_secret,
        trust_addresses=settings.oidc_trust_addresses,
    )


def desk(settings: Settings, database: Database, client: "Client", url: str) -> Desk:
    """What connecting needs; `url` is where browsers reach the web process."""
    sealer = Sealer(vault_keys(settings))
    return Desk(
        database=database,
        providers=providers(settings, client),
        sign_ins=sign_ins(settings),
        vault=vault(settings, sealer),
        sealer=sealer,
        url=url.rstrip("/"),
    )


def access_tokens(desk: Desk) -> AccessTokens:
    return AccessTokens(desk.database, desk.providers, desk.vault, desk.sealer)


def _outlook(settings: Settings, client: "Client") -> Provider:
    from postroom.providers import registry

    return registry.graph(
        client,
        registry.Microsoft(
            client_id=settings.microsoft_client_id or "",
            client_secret=settings.microsoft_client_secret or Secret(""),
            tenant=settings.microsoft_tenant,
            login_url=settings.microsoft_login_url,
            api_url=settings.graph_url,
        ),
    )


def blobs(settings: Settings) -> BlobStore:
    """Where bytes are kept."""
    if settings.blobs == "disk":
        return DiskBlobs((settings.home or default_home()) / "blobs")
    return bucket(settings, settings.blobs, settings.blobs_endpoint)


def bucket(settings: Settings, place: str, endpoint: str | None) -> "S3Blobs | GcsBlobs":
    """A bucket by its URL, for blobs or for the archive."""
    kind, _, rest = place.partition("://")
    name, _, prefix = rest.partition("/")
    if kind == "s3":
        from postroom.blobs import s3

        return s3.connect(name, prefix, endpoint)
    from postroom.blobs import gcs

    return gcs.connect(name, prefix, endpoint, settings.gcs_credentials_file)


async def require_blobs_here(settings: Settings, database: Database) -> None:
    """Refuse to start beside blobs that lie elsewhere: another machine's disk, or another bucket."""
    here = await blobs(settings).check()
    async with database.engine() as connection:
        known = await stored_blobs.claim_place(connection, here)
    if known != here:
        raise OperatorError(f"{ELSEWHERE} ({known}, not {here}). {ELSEWHERE_REMEDY}")


def periods(settings: Settings) -> Periods:
    """How long each is kept."""
    return Periods(
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


def _collecting(settings: Settings, database: Database) -> Step:
    """The store is opened at the first lease: who collects nothing needs none."""

    async def step(lease: Lease) -> Done:
        grace = settings.blob_grace_hours * 3600
        return await blob_gc.run(Collecting(database, blobs(settings), grace), lease)

    return step


def vault_keys(settings: Settings) -> GivenKeys | KeyFile:
    """The keys of the setting, else those in the home."""
    if settings.vault_keys is not None:
        return GivenKeys(sealing_keys(settings.vault_keys.reveal().split(",")))
    return KeyFile(settings.home or default_home())


def vault(settings: Settings, sealer: Sealer) -> Vault:
    """Where grants are kept. The sealer is for what stays in the database anyway, and opens what is there."""
    match settings.vault:
        case VaultKind.LOCAL:
            return LocalVault(sealer)
        case VaultKind.SSM:
            from postroom.vault import ssm

            return ssm.SsmVault(ssm.connect(), sealer, settings.ssm_prefix, settings.ssm_kms_key)
        case _:
            assert_never(settings.vault)
