"""The types `Engine`, what every process needs, and `WorkHandler`, how it runs one work kind.

`wiring` builds one Engine per process, which is passed down explicitly. Parts that only some
processes need (the sandbox, watched folders, the queue) are not here: the functions of `wiring` that are
named after them build them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from postroom.config import Settings
from postroom.documents.pipelines import Pipelines
from postroom.flow.documents.value_checks import ReviewContext
from postroom.flow.mail.pull import PullContext
from postroom.flow.mail.sync import SyncContext
from postroom.flow.mailboxes.connect import ConnectContext
from postroom.flow.mailboxes.directories import DirectoryContext
from postroom.flow.mailboxes.subscribe_context import SubscribeContext
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.flow.outbound.deliver import DeliverContext
from postroom.flow.outbound.send_notices import NoticeContext
from postroom.model import OrganizationId, ProviderName, StepResult, WorkKind
from postroom.ports import BlobStore, IdentityProvider, Provider, RemoteMailbox, Vault
from postroom.store.database import Database
from postroom.store.mailboxes import Mailbox
from postroom.store.work import Lease
from postroom.vault import LedgerHeads, LedgerKeys, Sealer

if TYPE_CHECKING:
    # aiohttp and the providers are slow to import; only the processes that build an Engine pay for them.
    from aiohttp import ClientSession as HttpClient

    from postroom.providers.graph.url_validation import NotificationUrlChecker
    from postroom.providers.simulator import SimulatorControl

# Runs the work of one lease. It commits through `work.fenced_transaction`, and either finishes the lease in
# its own last transaction and returns None, or returns a result and leaves the finish to the worker.
Step = Callable[[Lease], Awaitable[StepResult | None]]


@dataclass(frozen=True)
class WorkHandler:
    """How one kind of work is run. Without `max_attempts` it is never parked: it backs off and retries."""

    step: Step
    max_attempts: int | None = None


@dataclass(frozen=True)
class Engine:
    """`url` is where browsers reach the web process; `handlers` are those of all work but documents."""

    settings: Settings
    database: Database
    client: "HttpClient"
    url: str
    sealer: Sealer
    vault: Vault
    ledger_keys: LedgerKeys
    ledger_heads: LedgerHeads
    blobs: BlobStore
    pipelines: Pipelines
    providers: Mapping[ProviderName, Provider]  # each with the rate limits that all of its mailboxes share
    identities: IdentityProvider | None
    url_checker: "NotificationUrlChecker"  # for commands that check pushes
    simulator: "SimulatorControl | None"  # while a demonstration runs
    tokens: AccessTokens
    remote: Callable[[Mailbox], RemoteMailbox]
    connect: ConnectContext
    subscribe: SubscribeContext
    pull: PullContext | None  # if notifications are pulled, and not pushed
    sync: SyncContext
    deliver: DeliverContext
    notices: NoticeContext
    review: ReviewContext
    directories: DirectoryContext
    handlers: Mapping[WorkKind, WorkHandler]

    @property
    def organization(self) -> OrganizationId:
        return OrganizationId(self.settings.organization)
