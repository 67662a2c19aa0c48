"""What the saved state contains of Microsoft: directory, grants, delta feeds, subscriptions and pushes."""

from typing import Any

from mailsim.entra.directory import (
    EntraApplicationSettings,
    EntraGroup,
    EntraUser,
    PlannedRefusal,
    SignInRefusal,
)
from mailsim.entra.grants import EntraAccessToken, EntraAuthorizationCode, EntraRefreshToken
from mailsim.entra.signing import ClientCertificate, EntraSigner
from mailsim.graph import filters, notifications, rule_matching
from mailsim.graph.context import GraphContext
from mailsim.graph.ids import GraphIds
from mailsim.graph.options import MicrosoftOptions
from mailsim.graph.outlook_profile import MessageDetails, OutlookProfile
from mailsim.graph.push_queue import EndpointHealth, LatePush, PushDelivery, PushQueue, QueuedNotification
from mailsim.graph.subscription_model import GraphSubscription, SubscriptionRegistry
from mailsim.graph.throttle import GraphThrottle, RequestWindow
from mailsim.graph.upload_session import UploadSession
from mailsim.state.object_graph import SavedClass, describe
from mailsim.state.saved_part import ProviderState, SavedPart

_CLASSES = (
    MicrosoftOptions, EntraUser, EntraGroup, EntraApplicationSettings, SignInRefusal, PlannedRefusal,
    ClientCertificate, EntraAuthorizationCode, EntraRefreshToken, EntraAccessToken, EntraSigner,
    GraphThrottle, RequestWindow,
    filters.Comparison, filters.TextMatch, filters.AnyElement, filters.Negation, filters.Conjunction,
    filters.Disjunction, PushQueue, QueuedNotification, PushDelivery, LatePush, EndpointHealth,
    UploadSession, MessageDetails, OutlookProfile,
)  # fmt: skip


def make_state(graph: GraphContext) -> ProviderState:
    entra = graph.entra

    def resume() -> None:
        for mailbox in graph.sim.registry.list_mailboxes("outlook"):
            if graph.has_profile(mailbox):
                rule_matching.apply_to_arrivals(graph, mailbox)
        notifications.resume(graph)

    parts = {
        "entra": SavedPart(entra, ("options",), ("sim", "directory", "grants")),
        "entra.directory": SavedPart(
            entra.directory,
            ("consents", "sessions", "refusals", "disabled", "groups", "_settings", "_users", "_count"),
            ("registry",),
        ),
        "entra.grants": SavedPart(
            entra.grants,
            ("random", "codes", "refresh_tokens", "access_tokens", "_signer"),
            ("directory", "clock"),
        ),
        "graph": SavedPart(
            graph,
            (
                "throttle", "delta_generations", "unreadable_until", "without_mailbox", "random",
                "subscriptions", "push_queues", "endpoint_health", "upload_sessions", "message_details",
                "deliveries", "late_pushes", "pending_missed", "notification_count", "handshake_count",
                "validation_token_count", "_ids", "_profiles",
            ),
            ("sim", "entra"),
        ),
    }  # fmt: skip
    classes = (
        *map(describe, _CLASSES),
        describe(GraphSubscription, "reminders"),
        SavedClass(SubscriptionRegistry, ("_by_id", "_by_user")),
        SavedClass(
            GraphIds, ("mailbox", "user_id", "arrivals", "former_arrivals", "removed"), _make_graph_ids
        ),
    )
    return ProviderState(parts, classes, resume)


def _make_graph_ids(values: dict[str, Any]) -> GraphIds:
    ids = GraphIds(values["mailbox"], values["user_id"])
    ids.arrivals, ids.former_arrivals = values["arrivals"], values["former_arrivals"]
    ids.removed = values["removed"]
    return ids
