"""Google's own part of the control API: tokens without a browser, options, topics, subscriptions, trouble."""

from dataclasses import dataclass
from typing import Any, Literal

from mailsim.control.endpoint import ControlCall, ControlEndpoint, change_options
from mailsim.control.schemas import AffectedCount, ControlInput
from mailsim.errors import NotFound
from mailsim.google.clients import ClientProblem as ClientTrouble
from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import AccountProblem, AuthorizedRequest
from mailsim.google.oauth import token_body
from mailsim.google.options import GoogleOptions
from mailsim.google.pubsub import PubSub
from mailsim.google.pubsub_resources import PubSubTopic, PushSubscription
from mailsim.message_state import ProviderName

READONLY = "https://www.googleapis.com/auth/gmail.readonly"
Tokens = dict[str, Any]  # as the token endpoint gives them
Changes = dict[str, Any]  # some of the options, by name
_GMAIL: ProviderName = "gmail"


class NewGoogleTokens(ControlInput, frozen=True):
    """What a user would have agreed to. Without a client id: the application that is there from the start."""

    address: str
    scopes: tuple[str, ...] = ("openid", "https://www.googleapis.com/auth/userinfo.email", READONLY)
    client_id: str = ""
    offline: bool = True
    grant_seconds: int | None = None


class AccountProblemChange(ControlInput, frozen=True):
    trouble: AccountProblem | Literal[""]


class ClientProblemChange(ControlInput, frozen=True):
    """`org_internal`: only accounts of `internal_domain` may use the client."""

    trouble: ClientTrouble
    internal_domain: str = ""


class ResourceName(ControlInput, frozen=True):
    name: str


class NewPubSubMessage(ControlInput, frozen=True):
    """A message as it is, on whatever topic: what a stranger or an old system might send."""

    topic: str
    data: str


@dataclass(frozen=True, slots=True)
class GoogleControl:
    realm: GoogleContext
    pubsub: PubSub

    def endpoints(self) -> tuple[ControlEndpoint, ...]:
        return (*self._of_sign_in(), *self._of_pubsub())

    def _of_sign_in(self) -> tuple[ControlEndpoint, ...]:
        at = "/google"
        mint, decide = (
            "Tokens for a Gmail account, as if its user had agreed",
            "What was decided about an account",
        )
        change = "Change how Google behaves"
        return (
            ControlEndpoint(
                "POST", f"{at}/tokens", mint, self.mint_google_tokens, Tokens, NewGoogleTokens, status=201
            ),
            ControlEndpoint("GET", f"{at}/options", "How Google behaves", self.google_options, GoogleOptions),
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
                "What befell a client",
                self.trouble_client,
                AffectedCount,
                ClientProblemChange,
            ),
            ControlEndpoint(
                "POST", f"{at}/keys/rotate", "Sign with a new key", self.rotate_google_keys, AffectedCount
            ),
        )

    def _of_pubsub(self) -> tuple[ControlEndpoint, ...]:
        at, topics, subscriptions = "/google", "/google/topics", "/google/subscriptions"
        subscribe, end = "Create or change a push subscription", "Delete a push subscription"
        return (
            ControlEndpoint("GET", topics, "Pub/Sub topics", self.list_topics, list[PubSubTopic]),
            ControlEndpoint(
                "POST",
                topics,
                "Create or change a topic",
                self.add_topic,
                PubSubTopic,
                PubSubTopic,
                status=201,
            ),
            ControlEndpoint("DELETE", topics, "Delete a topic", self.remove_topic, query=ResourceName),
            ControlEndpoint(
                "GET", subscriptions, "Push subscriptions", self.list_subscriptions, list[PushSubscription]
            ),
            ControlEndpoint(
                "POST",
                subscriptions,
                subscribe,
                self.add_subscription,
                PushSubscription,
                PushSubscription,
                status=201,
            ),
            ControlEndpoint("DELETE", subscriptions, end, self.remove_subscription, query=ResourceName),
            ControlEndpoint(
                "POST",
                f"{at}/publish",
                "Publish a message",
                self.publish_message,
                AffectedCount,
                NewPubSubMessage,
            ),
        )

    async def mint_google_tokens(self, call: ControlCall) -> dict[str, Any]:
        order: NewGoogleTokens = call.body
        account = self.realm.account(order.address)
        if account is None:
            raise NotFound(f"no Gmail mailbox {order.address}")
        client = self._client(order.client_id)
        ask = AuthorizedRequest(
            client=client,
            redirect_uri="",
            scopes=order.scopes,
            offline=order.offline,
            consented=True,
            grant_seconds=order.grant_seconds,
        )
        return token_body(self.realm, client, self.realm.grants.grant(account, ask, self.realm.now()))

    async def google_options(self, _call: ControlCall) -> GoogleOptions:
        return self.realm.options

    async def change_google_options(self, call: ControlCall) -> GoogleOptions:
        return change_options(self.realm.options, call.body)

    async def list_topics(self, _call: ControlCall) -> list[PubSubTopic]:
        return list(self.pubsub.topics.values())

    async def add_topic(self, call: ControlCall) -> PubSubTopic:
        return self.pubsub.add_topic(call.body)

    async def remove_topic(self, call: ControlCall) -> None:
        self.pubsub.remove_topic(call.query.name)

    async def list_subscriptions(self, _call: ControlCall) -> list[PushSubscription]:
        return list(self.pubsub.subscriptions.values())

    async def add_subscription(self, call: ControlCall) -> PushSubscription:
        return self.pubsub.add_subscription(call.body)

    async def remove_subscription(self, call: ControlCall) -> None:
        self.pubsub.remove_subscription(call.query.name)

    async def publish_message(self, call: ControlCall) -> AffectedCount:
        if call.body.topic not in self.pubsub.topics:
            raise NotFound(f"no topic {call.body.topic}")
        self.pubsub.publish(call.body.topic, call.body.data.encode())
        return AffectedCount(1)

    async def trouble_account(self, call: ControlCall) -> AffectedCount:
        account = self.realm.account(call.path["address"])
        if account is None:
            raise NotFound(f"no Gmail mailbox {call.path['address']}")
        self.realm.grants.trouble[account.sub] = call.body.trouble
        return AffectedCount(1)

    async def trouble_client(self, call: ControlCall) -> AffectedCount:
        client = self._client(call.path["id"])
        self.realm.client_trouble[client.id] = (call.body.trouble, call.body.internal_domain)
        return AffectedCount(1)

    async def rotate_google_keys(self, _call: ControlCall) -> AffectedCount:
        self.realm.rotate_keys()
        self.pubsub.tokens.clear()
        return AffectedCount(1)

    def _client(self, client_id: str) -> GoogleClient:
        known = self.realm.sim.registry.applications.values()
        first = next(application for application in known if application.provider == _GMAIL)
        client = self.realm.client(client_id or first.client_id)
        if client is None:
            raise NotFound(f"no Google client {client_id}")
        return client
