"""Build the mail providers and the OpenID provider from plain values.

`wiring` calls it with values from the settings.
"""

from dataclasses import dataclass

import aiohttp

from postroom.model import AppCredential, Secret
from postroom.ports import ProviderLogin
from postroom.providers import directory_errors, quotas
from postroom.providers import openid as openid_connect
from postroom.providers.app_tokens import AppTokens
from postroom.providers.gmail import directory as gmail_directory
from postroom.providers.gmail import pubsub, service_account
from postroom.providers.gmail import wire as gmail_wire
from postroom.providers.gmail.adapter import GmailProvider
from postroom.providers.gmail.login import GoogleLogin
from postroom.providers.gmail.pubsub import PubSubQueue
from postroom.providers.gmail.push import GmailPush
from postroom.providers.graph import directory as graph_directory
from postroom.providers.graph import wire as graph_wire
from postroom.providers.graph.adapter import GraphProvider
from postroom.providers.graph.login import EntraLogin
from postroom.providers.graph.push import GraphPush
from postroom.providers.openid import OpenIdConnect
from postroom.providers.rate_limit import Clock, ProjectRateLimits
from postroom.providers.transport import Transport


@dataclass(frozen=True)
class GoogleProject:
    """A Google Cloud project, and the URLs of Google's services."""

    client_id: str
    client_secret: Secret
    topic: str
    subscription: str | None
    audience: str | None
    service_account: str | None
    shared_token: Secret | None
    accounts_url: str
    token_url: str
    certs_url: str
    api_url: str
    quota: str = "new"  # or `old`, or units per minute and user
    directory_url: str = "https://admin.googleapis.com"


@dataclass(frozen=True)
class EntraApplication:
    """An Entra application (its id is empty if there is none for sign-in), and Microsoft's URLs."""

    client_id: str
    client_secret: Secret
    tenant: str
    login_url: str
    api_url: str


def build_gmail(
    client: aiohttp.ClientSession, google: GoogleProject, clock: Clock | None = None
) -> GmailProvider:
    clock = clock or Clock()
    tokens = Transport(client, gmail_wire.to_token_error)
    login = GoogleLogin(tokens, google.client_id, google.client_secret, google.accounts_url, google.token_url)
    push = GmailPush(
        tokens,
        google.certs_url,
        google.shared_token,
        google.audience,
        google.service_account,
        google.subscription,
    )
    api = Transport(client, gmail_wire.to_error, clock)
    rate_limits = ProjectRateLimits(quotas.gmail_quota(google.quota), clock)
    return GmailProvider(
        login,
        push,
        api,
        google.api_url,
        google.topic,
        rate_limits,
        Transport(client, directory_errors.make_mapping(gmail_directory.DENIED), clock),
        google.directory_url,
        ProjectRateLimits(quotas.GOOGLE_DIRECTORY, clock),
    )


def build_pubsub_queue(
    client: aiohttp.ClientSession, login: ProviderLogin, key: Secret, url: str, subscription: str
) -> PubSubQueue:
    """The subscription to pull from, with the key file of a service account."""
    credential = AppCredential(None, "", certificate=key)
    account = service_account.read_address(key)
    scopes = frozenset({pubsub.SCOPE})
    tokens = AppTokens(lambda old: login.app_tokens(credential, account, scopes, replacing=old))
    return PubSubQueue(Transport(client, pubsub.to_error), url, subscription, tokens)


def build_graph(
    client: aiohttp.ClientSession, microsoft: EntraApplication, clock: Clock | None = None
) -> GraphProvider:
    clock = clock or Clock()
    api = Transport(client, graph_wire.to_error, clock)
    login = EntraLogin(
        Transport(client, graph_wire.to_token_error),
        api,
        microsoft.api_url,
        microsoft.login_url,
        microsoft.tenant,
        microsoft.client_id,
        microsoft.client_secret,
    )
    subscriptions = Transport(client, graph_wire.to_subscription_error)
    rate_limits = ProjectRateLimits(quotas.GRAPH, clock)
    return GraphProvider(
        login,
        GraphPush(),
        api,
        subscriptions,
        microsoft.api_url,
        rate_limits,
        ProjectRateLimits(quotas.GRAPH_SUBSCRIPTION_LISTINGS, clock),
        Transport(client, directory_errors.make_mapping(graph_directory.DENIED), clock),
        ProjectRateLimits(quotas.MICROSOFT_DIRECTORY, clock),
    )


def build_openid(
    client: aiohttp.ClientSession,
    issuer: str,
    client_id: str,
    client_secret: Secret,
    *,
    trust_addresses: bool = False,
) -> OpenIdConnect:
    """The OpenID provider for members' sign-in."""
    transport = Transport(client, openid_connect.to_error)
    return OpenIdConnect(transport, issuer, client_id, client_secret, trust_addresses)
