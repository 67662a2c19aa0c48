"""Google's own part of the control API: tokens without a browser, options, topics, subscriptions, trouble."""

from dataclasses import dataclass
from typing import Any, Literal

from mailsim.control.endpoint import Call, Endpoint, change_options
from mailsim.control.shapes import Done, Given
from mailsim.errors import Unknown
from mailsim.google.clients import Client
from mailsim.google.clients import Trouble as ClientTrouble
from mailsim.google.grants import AccountTrouble, Ask
from mailsim.google.oauth import token_body
from mailsim.google.options import Options
from mailsim.google.pubsub import PubSub
from mailsim.google.realm import Realm
from mailsim.google.topics import Subscription, Topic
from mailsim.state import ProviderName

READONLY = "https://www.googleapis.com/auth/gmail.readonly"
Tokens = dict[str, Any]  # as the token endpoint gives them
Changes = dict[str, Any]  # some of the options, by name
_GMAIL: ProviderName = "gmail"


class NewTokens(Given, frozen=True):
    """What a user would have agreed to. Without a client id: the application that is there from the start."""

    address: str
    scopes: tuple[str, ...] = ("openid", "https://www.googleapis.com/auth/userinfo.email", READONLY)
    client_id: str = ""
    offline: bool = True
    grant_seconds: int | None = None


class AccountOrder(Given, frozen=True):
    trouble: AccountTrouble | Literal[""]


class ClientOrder(Given, frozen=True):
    """`org_internal`: only accounts of `internal_domain` may use the client."""

    trouble: ClientTrouble
    internal_domain: str = ""


class Name(Given, frozen=True):
    name: str


class Publication(Given, frozen=True):
    """A message as it is, on whatever topic: what a stranger or an old system might send."""

    topic: str
    data: str


@dataclass(frozen=True, slots=True)
class Control:
    realm: Realm
    pubsub: PubSub

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (*self._of_sign_in(), *self._of_pubsub())

    def _of_sign_in(self) -> tuple[Endpoint, ...]:
        at = "/google"
        mint, decide = (
            "Tokens for a Gmail account, as if its user had agreed",
            "What was decided about an account",
        )
        change = "Change how Google behaves"
        return (
            Endpoint("POST", f"{at}/tokens", mint, self.mint_google_tokens, Tokens, NewTokens, status=201),
            Endpoint("GET", f"{at}/options", "How Google behaves", self.google_options, Options),
            Endpoint("PATCH", f"{at}/options", change, self.change_google_options, Options, Changes),
            Endpoint("POST", at + "/accounts/{address}", decide, self.trouble_account, Done, AccountOrder),
            Endpoint(
                "POST", at + "/clients/{id}", "What befell a client", self.trouble_client, Done, ClientOrder
            ),
            Endpoint("POST", f"{at}/keys/rotate", "Sign with a new key", self.rotate_google_keys, Done),
        )

    def _of_pubsub(self) -> tuple[Endpoint, ...]:
        at, topics, subscriptions = "/google", "/google/topics", "/google/subscriptions"
        subscribe, end = "Create or change a push subscription", "Delete a push subscription"
        return (
            Endpoint("GET", topics, "Pub/Sub topics", self.list_topics, list[Topic]),
            Endpoint("POST", topics, "Create or change a topic", self.add_topic, Topic, Topic, status=201),
            Endpoint("DELETE", topics, "Delete a topic", self.remove_topic, query=Name),
            Endpoint("GET", subscriptions, "Push subscriptions", self.list_subscriptions, list[Subscription]),
            Endpoint(
                "POST",
                subscriptions,
                subscribe,
                self.add_subscription,
                Subscription,
                Subscription,
                status=201,
            ),
            Endpoint("DELETE", subscriptions, end, self.remove_subscription, query=Name),
            Endpoint("POST", f"{at}/publish", "Publish a message", self.publish_message, Done, Publication),
        )

    async def mint_google_tokens(self, call: Call) -> dict[str, Any]:
        order: NewTokens = call.body
        account = self.realm.account(order.address)
        if account is None:
            raise Unknown(f"no Gmail mailbox {order.address}")
        client = self._client(order.client_id)
        ask = Ask(
            client=client,
            redirect_uri="",
            scopes=order.scopes,
            offline=order.offline,
            consented=True,
            grant_seconds=order.grant_seconds,
        )
        return token_body(self.realm, client, self.realm.grants.grant(account, ask, self.realm.now()))

    async def google_options(self, _call: Call) -> Options:
        return self.realm.options

    async def change_google_options(self, call: Call) -> Options:
        return change_options(self.realm.options, call.body)

    async def list_topics(self, _call: Call) -> list[Topic]:
        return list(self.pubsub.topics.values())

    async def add_topic(self, call: Call) -> Topic:
        return self.pubsub.add_topic(call.body)

    async def remove_topic(self, call: Call) -> None:
        self.pubsub.remove_topic(call.query.name)

    async def list_subscriptions(self, _call: Call) -> list[Subscription]:
        return list(self.pubsub.subscriptions.values())

    async def add_subscription(self, call: Call) -> Subscription:
        return self.pubsub.add_subscription(call.body)

    async def remove_subscription(self, call: Call) -> None:
        self.pubsub.remove_subscription(call.query.name)

    async def publish_message(self, call: Call) -> Done:
        if call.body.topic not in self.pubsub.topics:
            raise Unknown(f"no topic {call.body.topic}")
        self.pubsub.publish(call.body.topic, call.body.data.encode())
        return Done(1)

    async def trouble_account(self, call: Call) -> Done:
        account = self.realm.account(call.path["address"])
        if account is None:
            raise Unknown(f"no Gmail mailbox {call.path['address']}")
        self.realm.grants.trouble[account.sub] = call.body.trouble
        return Done(1)

    async def trouble_client(self, call: Call) -> Done:
        client = self._client(call.path["id"])
        self.realm.client_trouble[client.id] = (call.body.trouble, call.body.internal_domain)
        return Done(1)

    async def rotate_google_keys(self, _call: Call) -> Done:
        self.realm.rotate_keys()
        self.pubsub.tokens.clear()
        return Done(1)

    def _client(self, client_id: str) -> Client:
        known = self.realm.sim.world.applications.values()
        first = next(application for application in known if application.provider == _GMAIL)
        client = self.realm.client(client_id or first.client_id)
        if client is None:
            raise Unknown(f"no Google client {client_id}")
        return client
