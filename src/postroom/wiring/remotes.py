"""Build what talks to other servers from the settings: HTTP client, providers, sign-in, simulator.

Also lists where people can sign in, and checks our notification URL as a provider would.

Imports the HTTP client and the adapters: commands that need none of them must not import this module.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from secrets import token_urlsafe
from uuid import uuid4

import aiohttp

from postroom.config import Settings
from postroom.model import ProviderName, Secret
from postroom.ports import IdentityProvider, Provider
from postroom.providers import registry
from postroom.providers.graph import url_validation
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
                quota=settings.gmail_quota,
            ),
        )
    return providers


def find_sign_in_providers(settings: Settings) -> frozenset[ProviderName]:
    """The providers at which people can sign in: those where this Postroom has an application."""
    applications = {
        ProviderName.GMAIL: settings.google_client_id
        and settings.google_client_secret
        and settings.pubsub_topic,
        ProviderName.OUTLOOK: settings.microsoft_client_id and settings.microsoft_client_secret,
    }
    return frozenset(name for name, application in applications.items() if application)


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


async def validate_notification_url(client: aiohttp.ClientSession, public_url: str) -> str | None:
    """Why Graph would reject our notification URL; None if it would accept it."""
    url = f"{public_url}/webhooks/{ProviderName.OUTLOOK}/{uuid4()}"
    return await url_validation.find_fault(
        client, url, f"Validation: of postroom itself {token_urlsafe(16)} +1"
    )


async def send_test_push(client: aiohttp.ClientSession, url: str, secret: Secret) -> str | None:
    """Why our endpoint rejects a notification as Graph sends it; None if it was verified."""
    return await url_validation.find_push_fault(client, url, secret.reveal())


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
