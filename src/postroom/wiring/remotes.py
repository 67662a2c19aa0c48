"""Build what talks to other servers from the settings: HTTP client, providers, sign-in, simulator.

Also lists where people can sign in.

Imports the HTTP client and the adapters: commands that need none of them must not import this module.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager

import aiohttp

from postroom.config import PubSubDelivery, Settings
from postroom.model import ProviderName, Secret
from postroom.ports import IdentityProvider, NotificationQueue, Provider
from postroom.providers import registry
from postroom.providers.simulator import SimulatorControl
from postroom.providers.transport import open_client


def open_http_client(settings: Settings) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
    """The one HTTP client of this process, for every provider."""
    return open_client(certificate_authorities=str(settings.ca_file) if settings.ca_file else None)


def build_providers(settings: Settings, client: aiohttp.ClientSession) -> Mapping[ProviderName, Provider]:
    """The configured providers. Outlook always is: app-only mailboxes bring an application of their own."""
    providers: dict[ProviderName, Provider] = {ProviderName.OUTLOOK: _build_outlook(settings, client)}
    if settings.google_client_id and settings.google_client_secret and settings.pubsub_topic:
        providers[ProviderName.GMAIL] = registry.build_gmail(
            client,
            registry.GoogleProject(
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
                directory_url=settings.google_directory_url,
                quota=settings.gmail_quota,
            ),
        )
    return providers


def build_notification_queue(
    settings: Settings, client: aiohttp.ClientSession, providers: Mapping[ProviderName, Provider]
) -> NotificationQueue | None:
    """The Pub/Sub subscription to pull notifications from, if they are not pushed."""
    gmail = providers.get(ProviderName.GMAIL)
    if gmail is None or settings.pubsub_delivery is not PubSubDelivery.PULL:
        return None
    assert settings.pubsub_key
    assert settings.pubsub_subscription  # the settings are validated together
    return registry.build_pubsub_queue(
        client, gmail.login, settings.pubsub_key, settings.pubsub_url, settings.pubsub_subscription
    )


def find_sign_in_providers(
    settings: Settings, configured: Collection[ProviderName]
) -> frozenset[ProviderName]:
    """The configured providers at which people can sign in: those where this Postroom has an application."""
    has_microsoft_application = settings.microsoft_client_id and settings.microsoft_client_secret
    return frozenset(configured) - (set() if has_microsoft_application else {ProviderName.OUTLOOK})


def build_identity_provider(settings: Settings, client: aiohttp.ClientSession) -> IdentityProvider | None:
    """The OpenID provider for members' sign-in, if one is configured."""
    if not settings.oidc_issuer or not settings.oidc_client_id or not settings.oidc_client_secret:
        return None
    return registry.build_openid(
        client,
        settings.oidc_issuer,
        settings.oidc_client_id,
        settings.oidc_client_secret,
        trust_addresses=settings.oidc_trust_addresses,
    )


def build_simulator(client: aiohttp.ClientSession, url: str) -> SimulatorControl:
    """The control API of the simulator that replaces both providers in a demonstration."""
    return SimulatorControl(client, url)


def _build_outlook(settings: Settings, client: aiohttp.ClientSession) -> Provider:
    return registry.build_graph(
        client,
        registry.EntraApplication(
            client_id=settings.microsoft_client_id or "",
            client_secret=settings.microsoft_client_secret or Secret(""),
            tenant=settings.microsoft_tenant,
            login_url=settings.microsoft_login_url,
            api_url=settings.graph_url,
        ),
    )
