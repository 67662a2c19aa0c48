"""GraphContext: the shared state of simulated Graph besides mailboxes and tokens.

It holds throttling, delta generations, subscriptions, push queues, IDs, and messages not readable yet.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from mailsim.entra.context import EntraContext
from mailsim.graph.ids import GraphIds
from mailsim.graph.message_json import MessagePreferences, MessageView
from mailsim.graph.options import MicrosoftOptions
from mailsim.graph.outlook_profile import NO_DETAILS, MessageDetails, OutlookProfile
from mailsim.graph.push_queue import EndpointHealth, LatePush, PushDelivery, PushQueue
from mailsim.graph.subscription_model import SubscriptionRegistry
from mailsim.graph.throttle import GraphThrottle
from mailsim.graph.upload_session import UploadSession
from mailsim.mailbox import Mailbox
from mailsim.simulator import Simulator


@dataclass(slots=True)
class GraphContext:
    """The state of simulated Graph besides mailboxes and tokens."""

    sim: Simulator
    entra: EntraContext
    throttle: GraphThrottle = field(default_factory=GraphThrottle)
    # (address, folder key, client ID) -> the newest round of that delta feed
    delta_generations: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    # (address, message number) -> when a message that was pushed early becomes readable
    unreadable_until: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    without_mailbox: set[str] = field(
        default_factory=set[str]
    )  # addresses whose mailbox is not in Exchange Online
    random: Random = field(default_factory=Random)
    subscriptions: SubscriptionRegistry = field(default_factory=SubscriptionRegistry)
    push_queues: dict[str, PushQueue] = field(default_factory=dict[str, PushQueue])
    endpoint_health: dict[str, EndpointHealth] = field(default_factory=dict[str, EndpointHealth])
    upload_sessions: dict[str, UploadSession] = field(default_factory=dict[str, UploadSession])
    # (address, message number) -> what clients stored with the message
    message_details: dict[tuple[str, int], MessageDetails] = field(
        default_factory=dict[tuple[str, int], MessageDetails]
    )
    deliveries: list[PushDelivery] = field(default_factory=list[PushDelivery])
    late_pushes: list[LatePush] = field(default_factory=list[LatePush])
    # subscription ID -> time of its scheduled `missed` event
    pending_missed: dict[str, float] = field(default_factory=dict[str, float])
    notification_count: int = 0
    handshake_count: int = 0
    validation_token_count: int = 0
    _ids: dict[str, GraphIds] = field(default_factory=dict[str, GraphIds])
    _profiles: dict[str, OutlookProfile] = field(default_factory=dict[str, OutlookProfile])

    @property
    def options(self) -> MicrosoftOptions:
        return self.entra.options

    def ids(self, mailbox: Mailbox) -> GraphIds:
        """Return the ID codec of a mailbox.

        It is created with the mailbox because it must observe every move.
        """
        oid = self.entra.directory.get_user(mailbox).oid
        ids = self._ids.get(oid)
        if ids is None:
            ids = self._ids[oid] = GraphIds(mailbox, oid)
        return ids

    def new_guid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def profile(self, mailbox: Mailbox) -> OutlookProfile:
        return self._profiles.setdefault(self.entra.directory.get_user(mailbox).oid, OutlookProfile())

    def has_profile(self, mailbox: Mailbox) -> bool:
        return self.entra.directory.get_user(mailbox).oid in self._profiles

    def edit_details(self, mailbox: Mailbox, number: int) -> MessageDetails:
        return self.message_details.setdefault((mailbox.address, number), MessageDetails())

    def forget_mailbox(self, mailbox: Mailbox) -> None:
        """Forget the IDs, settings and uploads of a closed mailbox with the same address."""
        oid = self.entra.directory.get_user(mailbox).oid
        self._ids.pop(oid, None)
        self._profiles.pop(oid, None)
        for identifier in [name for name, session in self.upload_sessions.items() if session.oid == oid]:
            del self.upload_sessions[identifier]
        for key in [key for key in self.message_details if key[0] == mailbox.address]:
            del self.message_details[key]

    def make_view(self, mailbox: Mailbox, number: int, prefer: MessagePreferences) -> MessageView | None:
        state = mailbox.state(number)
        if state is None:
            return None
        details = self.message_details.get((mailbox.address, number), NO_DETAILS)
        return MessageView(mailbox, number, state, self.ids(mailbox), prefer, details)

    def is_readable(self, mailbox: Mailbox, number: int) -> bool:
        """Return False while a message is hidden because its push was sent first."""
        until = self.unreadable_until.get((mailbox.address, number))
        if until is None:
            return True
        if until > self.sim.clock.time():
            return False
        del self.unreadable_until[mailbox.address, number]
        return True
