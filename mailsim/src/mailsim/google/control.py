"""Google's endpoints of the control API: tokens without a browser, options, Pub/Sub, problems, keys.

It holds their handlers and request bodies. The other endpoints are in `mailsim.control`.
"""

from dataclasses import dataclass
from typing import Any, Literal

from mailsim.control.endpoint import ControlCall, ControlEndpoint, change_options
from mailsim.control.schemas import AffectedCount, ControlInput
from mailsim.errors import NotFound
from mailsim.google.clients import ClientProblem, GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import AccountProblem, AuthorizedRequest
from mailsim.google.oauth import to_token_json
from mailsim.google.options import GoogleOptions
from mailsim.google.pubsub import PubSub
from mailsim.google.pubsub_resources import PubSubSubscription, PubSubTopic
from mailsim.message_state import ProviderName

READONLY = "https://www.googleapis.com/auth/gmail.readonly"
Tokens = dict[str, Any]  # as returned by the token endpoint
Changes = dict[str, Any]  # some of the options, by name
_GMAIL: ProviderName = "gmail"


class NewGoogleTokens(ControlInput, frozen=True):
    """The grant to issue tokens for.

    The default client is the preregistered application.
    """

    address: str
    scopes: tuple[str, ...] = ("openid", "https://www.googleapis.com/auth/userinfo.email", READONLY)
    client_id: str = ""
    offline: bool = True
    grant_seconds: int | None = None


class AccountProblemChange(ControlInput, frozen=True):
    trouble: AccountProblem | Literal[""]


class ClientProblemChange(ControlInput, frozen=True):
    """`org_internal`: only accounts of `internal_domain` may use the client."""

    trouble: ClientProblem
    internal_domain: str = ""


class ResourceName(ControlInput, frozen=True):
    name: str


class NewPubSubMessage(ControlInput, frozen=True):
    """A message with arbitrary data, as an unrelated publisher might send it."""

    topic: str
    data: str


@dataclass(frozen=True, slots=True)
class GoogleControl:
    google: GoogleContext
    pubsub: PubSub

    def endpoints(self) -> tuple[ControlEndpoint, ...]:
        return (
            *self._list_sign_in_endpoints(),
            *self._list_pubsub_endpoints(),
            *self._list_message_endpoints(),
        )

    def _list_sign_in_endpoints(self) -> tuple[ControlEndpoint, ...]:
        at = "/google"
        mint, decide = (
            "Issue tokens for a Gmail account, as if its user had consented",
            "Set or clear a problem of an account",
        )
        change = "Change the options"
        return (
            ControlEndpoint(
                "POST", f"{at}/tokens", mint, self.mint_google_tokens, Tokens, NewGoogleTokens, status=201
            ),
            ControlEndpoint(
                "GET", f"{at}/options", "Get Google's options", self.google_options, GoogleOptions
            ),
            ControlEndpoint(
                "PATCH", f"{at}/options", change, self.change_google_options, GoogleOptions, Changes
            ),
            ControlEndpoint(
                "POST",
                at + "/accounts/{address}",
                decide,
                self.trouble_account,
                AffectedCount,
                AccountProblemChange,
            ),
            ControlEndpoint(
                "POST",
                at + "/clients/{id}",
                "Set or clear a problem of a client",
                self.trouble_client,
                AffectedCount,
                ClientProblemChange,
            ),
            ControlEndpoint(
                "POST", f"{at}/keys/rotate", "Sign with a new key", self.rotate_google_keys, AffectedCount
            ),
        )

    def _list_pubsub_endpoints(self) -> tuple[ControlEndpoint, ...]:
        topics, subscriptions = "/google/topics", "/google/subscriptions"
        subscribe, end = (
            "Create or replace a subscription; without push_endpoint, to pull",
            "Delete a subscription",
        )
        return (
            ControlEndpoint("GET", topics, "List Pub/Sub topics", self.list_topics, list[PubSubTopic]),
            ControlEndpoint(
                "POST",
                topics,
                "Create or replace a topic",
                self.add_topic,
                PubSubTopic,
                PubSubTopic,
                status=201,
            ),
            ControlEndpoint("DELETE", topics, "Delete a topic", self.remove_topic, query=ResourceName),
            ControlEndpoint(
                "GET",
                subscriptions,
                "List subscriptions",
                self.list_subscriptions,
                list[PubSubSubscription],
            ),
            ControlEndpoint(
                "POST",
                subscriptions,
                subscribe,
                self.add_subscription,
                PubSubSubscription,
                PubSubSubscription,
                status=201,
            ),
            ControlEndpoint("DELETE", subscriptions, end, self.remove_subscription, query=ResourceName),
        )

    def _list_message_endpoints(self) -> tuple[ControlEndpoint, ...]:
        count = "Count the messages that a pull subscription has not acknowledged"
        return (
            ControlEndpoint(
                "POST",
                "/google/publish",
                "Publish a message",
                self.publish_message,
                AffectedCount,
                NewPubSubMessage,
            ),
            ControlEndpoint(
                "GET", "/google/backlog", count, self.count_backlog, AffectedCount, query=ResourceName
            ),
        )

    async def mint_google_tokens(self, call: ControlCall) -> dict[str, Any]:
        request: NewGoogleTokens = call.body
        account = self.google.find_account(request.address)
        if account is None:
            raise NotFound(f"there is no Gmail mailbox {request.address}")
        client = self._find_client(request.client_id)
        authorized = AuthorizedRequest(
            client=client,
            redirect_uri="",
            scopes=request.scopes,
            offline=request.offline,
            consent_forced=True,
            grant_seconds=request.grant_seconds,
        )
        return to_token_json(
            self.google, client, self.google.grants.grant_tokens(account, authorized, self.google.now())
        )

    async def google_options(self, _call: ControlCall) -> GoogleOptions:
        return self.google.options

    async def change_google_options(self, call: ControlCall) -> GoogleOptions:
        return change_options(self.google.options, call.body)

    async def list_topics(self, _call: ControlCall) -> list[PubSubTopic]:
        return list(self.pubsub.topics.values())

    async def add_topic(self, call: ControlCall) -> PubSubTopic:
        return self.pubsub.add_topic(call.body)

    async def remove_topic(self, call: ControlCall) -> None:
        self.pubsub.remove_topic(call.query.name)

    async def list_subscriptions(self, _call: ControlCall) -> list[PubSubSubscription]:
        return list(self.pubsub.subscriptions.values())

    async def add_subscription(self, call: ControlCall) -> PubSubSubscription:
        return self.pubsub.add_subscription(call.body)

    async def remove_subscription(self, call: ControlCall) -> None:
        self.pubsub.remove_subscription(call.query.name)

    async def count_backlog(self, call: ControlCall) -> AffectedCount:
        if call.query.name not in self.pubsub.subscriptions:
            raise NotFound(f"there is no subscription {call.query.name}")
        return AffectedCount(len(self.pubsub.backlogs.get(call.query.name, ())))

    async def publish_message(self, call: ControlCall) -> AffectedCount:
        if call.body.topic not in self.pubsub.topics:
            raise NotFound(f"there is no topic {call.body.topic}")
        self.pubsub.publish(call.body.topic, call.body.data.encode())
        return AffectedCount(1)

    async def trouble_account(self, call: ControlCall) -> AffectedCount:
        account = self.google.find_account(call.path["address"])
        if account is None:
            raise NotFound(f"there is no Gmail mailbox {call.path['address']}")
        self.google.grants.account_problems[account.sub] = call.body.trouble
        return AffectedCount(1)

    async def trouble_client(self, call: ControlCall) -> AffectedCount:
        client = self._find_client(call.path["id"])
        self.google.client_problems[client.id] = (call.body.trouble, call.body.internal_domain)
        return AffectedCount(1)

    async def rotate_google_keys(self, _call: ControlCall) -> AffectedCount:
        self.google.rotate_keys()
        self.pubsub.tokens.clear()
        return AffectedCount(1)

    def _find_client(self, client_id: str) -> GoogleClient:
        known = self.google.sim.registry.applications.values()
        first = next(application for application in known if application.provider == _GMAIL)
        client = self.google.find_client(client_id or first.client_id)
        if client is None:
            raise NotFound(f"there is no Google client {client_id}")
        return client
