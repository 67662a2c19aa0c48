"""The access token of each mailbox: cached in memory, and refreshed early by one process for all.

    usable ──(expires soon, or rejected)──▶ leased ──▶ usable
                                              ├──▶ grant lost: the mailbox waits for a reconnect
                                              └──▶ failed: the next caller tries again

A process that dies between the provider's response and our commit leaves the previous refresh token stored,
which both providers still accept. Also opens a mailbox at its provider with its token, and raises and clears
the alert about a rejected application.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID, uuid4

from postroom.errors import (
    ApplicationRejected,
    InvalidGrant,
    OperatorError,
    PermanentError,
    ProviderUnreachable,
    TransientError,
)
from postroom.logs import Log
from postroom.model import (
    AppCredential,
    CredentialKind,
    HealthCause,
    MailboxHealth,
    MailboxId,
    OrganizationId,
    ProviderName,
    Secret,
    Tokens,
)
from postroom.ports import Provider, RemoteMailbox, SecretLocation, TokenSource, Vault
from postroom.store import alerts, ledger, mailbox_health, token_refreshes, work
from postroom.store.credentials import Credential
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.token_refreshes import MailboxAccess
from postroom.vault import Sealer

log = Log()

REFRESH_EARLY_SECONDS: Final = 300.0  # before expiry: refresh from here on
MIN_REMAINING_SECONDS: Final = 30.0  # before expiry: never use a token after this, even if refreshing fails
LEASE_SECONDS: Final = 60.0
CALL_SECONDS: Final = 40.0
POLL_SECONDS: Final = 0.2
_NOT_CONFIGURED: Final[Mapping[ProviderName, str]] = {
    ProviderName.GMAIL: (
        "Gmail is not configured. Set POSTROOM_GOOGLE_CLIENT_ID,"
        " POSTROOM_GOOGLE_CLIENT_SECRET and POSTROOM_PUBSUB_TOPIC, and restart Postroom."
    ),
    ProviderName.OUTLOOK: (
        "Microsoft 365 is not configured. Set"
        " POSTROOM_MICROSOFT_CLIENT_ID and POSTROOM_MICROSOFT_CLIENT_SECRET, and restart Postroom."
    ),
}


@dataclass(frozen=True, slots=True)
class _CachedToken:
    token: Secret
    until: float


@dataclass(frozen=True)
class AccessTokens:
    """The access tokens of all mailboxes, cached by one process."""

    database: Database
    providers: Mapping[ProviderName, Provider]
    vault: Vault
    sealer: Sealer
    cached: dict[MailboxId, _CachedToken] = field(default_factory=dict[MailboxId, _CachedToken])
    locks: defaultdict[MailboxId, asyncio.Lock] = field(
        default_factory=lambda: defaultdict[MailboxId, asyncio.Lock](asyncio.Lock)
    )

    def for_mailbox(self, organization: OrganizationId, mailbox: MailboxId) -> TokenSource:
        return _MailboxTokens(self, organization, mailbox)

    def open_mailbox(self, mailbox: Mailbox) -> RemoteMailbox:
        """Open a mailbox at its provider, with its own tokens."""
        provider = get_provider(self.providers, mailbox.provider)
        tokens = self.for_mailbox(mailbox.organization, mailbox.id)
        return provider.mailbox(mailbox.provider_user_id, tokens, mailbox.folder)


def application_key(provider: ProviderName, client_id: str | None) -> str:
    """Name the application an alert is about: the configured one, or a mailbox's own."""
    return f"{provider}:{client_id}" if client_id else provider.value


def get_provider(providers: Mapping[ProviderName, Provider], name: ProviderName) -> Provider:
    """Return a configured provider. Mailboxes of a provider can outlive its settings."""
    provider = providers.get(name)
    if provider is None:
        raise OperatorError(_NOT_CONFIGURED[name])
    return provider


@dataclass(frozen=True)
class _MailboxTokens:
    owner: AccessTokens
    organization: OrganizationId
    mailbox: MailboxId

    async def get_token(self) -> Secret:
        return self._get_cached(None) or await self._get_renewed(None)

    async def replace_rejected(self, rejected: Secret) -> Secret:
        return self._get_cached(rejected) or await self._get_renewed(rejected)

    async def find_newer(self, denied: Secret) -> Secret | None:
        async with self.owner.database.transaction(self.organization) as connection:
            access = await token_refreshes.get_access(connection, self.mailbox)
        newer = self._usable(access, denied) if access else None
        return self._cache(newer, access.seconds_left) if access and newer else None

    def _get_cached(self, rejected: Secret | None) -> Secret | None:
        found = self.owner.cached.get(self.mailbox)
        fresh = found is not None and found.until > time.monotonic() and found.token != rejected
        return found.token if found and fresh else None

    async def _get_renewed(self, rejected: Secret | None) -> Secret:
        async with self.owner.locks[self.mailbox]:
            while True:
                if found := self._get_cached(rejected):
                    return found
                lease = uuid4()
                access, usable, won = await self._read_or_claim(lease, rejected)
                if usable is not None:
                    return self._cache(usable, access.seconds_left)
                if not won:
                    await asyncio.sleep(POLL_SECONDS)
                elif fresh := await self._refresh_or_reuse(access, lease, rejected):
                    return fresh

    async def _read_or_claim(
        self, lease: UUID, rejected: Secret | None
    ) -> tuple[MailboxAccess, Secret | None, bool]:
        """Read the stored token, or claim its refresh.

        Returns what is stored, the token if it is usable, and whether this caller holds the refresh lease.
        """
        async with self.owner.database.transaction(self.organization) as connection:
            access = _require_grant(await token_refreshes.get_access(connection, self.mailbox))
            usable = self._usable(access, rejected)
            if usable is not None or not await token_refreshes.claim_lease(
                connection, self.mailbox, lease, seconds=LEASE_SECONDS
            ):
                return access, usable, False
            # Another process may have refreshed it between the read and the claim.
            access = _require_grant(await token_refreshes.get_access(connection, self.mailbox))
            usable = self._usable(access, rejected)
            if usable is not None:
                await token_refreshes.release_lease(connection, self.mailbox, lease)
            return access, usable, usable is None

    def _usable(self, access: MailboxAccess, rejected: Secret | None) -> Secret | None:
        token = self._decrypt(access) if access.seconds_left > REFRESH_EARLY_SECONDS else None
        return None if token == rejected else token

    def _decrypt(self, access: MailboxAccess) -> Secret | None:
        sealed = access.credential.access
        return self.owner.sealer.open(self._location("access").context, sealed) if sealed else None

    def _location(self, field: Literal["grant", "access"]) -> SecretLocation:
        return SecretLocation(self.organization, self.mailbox, field)

    def _grant_location(self, credential: Credential) -> SecretLocation:
        return SecretLocation(self.organization, credential.directory or self.mailbox, "grant")

    def _cache(self, token: Secret, seconds: float) -> Secret:
        self.owner.cached[self.mailbox] = _CachedToken(
            token, time.monotonic() + seconds - REFRESH_EARLY_SECONDS
        )
        return token

    async def _refresh_or_reuse(
        self, access: MailboxAccess, lease: UUID, rejected: Secret | None
    ) -> Secret | None:
        """Refresh; while the provider is unavailable, reuse a token that is about to expire."""
        try:
            return await self._refresh(access, lease)
        except TransientError:
            spare = self._decrypt(access) if access.seconds_left > MIN_REMAINING_SECONDS else None
            if spare is None or spare == rejected:
                raise
            return spare

    async def _refresh(self, access: MailboxAccess, lease: UUID) -> Secret | None:
        """Refresh the token; None if the credential was replaced or erased meanwhile: read it again."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                grant = await self.owner.vault.fetch(
                    self._grant_location(access.credential), access.credential.grant
                )
                tokens = await self._request_tokens(access, grant)
            return await self._store(access, lease, grant, tokens)
        except InvalidGrant as error:
            await self._record_lost_grant(access, lease, error)
            raise
        except PermanentError as error:
            await self._release(lease)
            rejected = ApplicationRejected(
                f"The provider refuses to refresh tokens for this application: {error}"
            )
            await self._raise_alert(access, rejected)
            raise rejected from error
        except TimeoutError as error:
            await self._release(lease)
            raise ProviderUnreachable("The provider's token endpoint timed out.") from error
        except BaseException:
            await self._release(lease)
            raise

    async def _request_tokens(self, access: MailboxAccess, grant: Secret) -> Tokens:
        credential = access.credential
        login = get_provider(self.owner.providers, access.provider).login
        try:
            if credential.kind is CredentialKind.DELEGATED:
                return await login.refresh(grant, credential.scopes)
            app_credential = to_app_credential(credential, grant)
            return await login.app_tokens(
                app_credential,
                access.provider_user_id,
                credential.scopes,
                replacing=self._decrypt(access),
            )
        except OperatorError as error:
            await self._raise_alert(access, error)
            raise

    async def _store(
        self, access: MailboxAccess, lease: UUID, grant: Secret, tokens: Tokens
    ) -> Secret | None:
        async with self.owner.database.transaction(self.organization) as connection:
            if not await token_refreshes.holds_lease(connection, self.mailbox, lease):
                return None
        new_grant = None
        if tokens.refresh is not None and tokens.refresh != grant:
            new_grant = await self.owner.vault.store(self._location("grant"), tokens.refresh)
        sealed = self.owner.sealer.seal(self._location("access").context, tokens.access)
        seconds = tokens.expires_in_seconds
        async with self.owner.database.transaction(self.organization) as connection:
            stored = await token_refreshes.store_token(
                connection, self.mailbox, lease, access=sealed, seconds=seconds, grant=new_grant
            )
            accepted = await alerts.raise_or_clear(
                connection, self.organization, _application_key_of(access), None
            )
        if accepted:  # the application works again: resume the waiting work of every organization
            async with self.owner.database.engine() as engine:
                await work.resume_waiting_for_operator(engine)
        log.info("token.refreshed", mailbox=self.mailbox)
        return self._cache(tokens.access, seconds) if stored else None

    async def _record_lost_grant(self, access: MailboxAccess, lease: UUID, error: InvalidGrant) -> None:
        """Mark the mailbox as waiting for a reconnect, unless it was reconnected meanwhile."""
        self.owner.cached.pop(self.mailbox, None)
        async with self.owner.database.transaction(self.organization) as connection:
            if not await token_refreshes.release_lease(connection, self.mailbox, lease):
                return
            await mailbox_health.record_problem(
                connection, self.mailbox, HealthCause.CONSENT_LOST, str(error)
            )
            entry = NewLedgerEntry(
                "TOKEN_REFRESH_FAILED", "mailbox", str(self.mailbox), payload={"error": str(error)}
            )
            await ledger.append_entries(connection, self.organization, [entry])
        log.warning("grant.lost", mailbox=self.mailbox, kind=access.provider)

    async def _raise_alert(self, access: MailboxAccess, error: OperatorError) -> None:
        """Raise one alert for the application; the health of its mailboxes stays as it is."""
        async with self.owner.database.transaction(self.organization) as connection:
            if await alerts.raise_or_clear(
                connection, self.organization, _application_key_of(access), str(error)
            ):
                log.error("application.rejected", kind=access.provider, organization=self.organization)

    async def _release(self, lease: UUID) -> None:
        async with self.owner.database.transaction(self.organization) as connection:
            await token_refreshes.release_lease(connection, self.mailbox, lease)


def to_app_credential(credential: Credential, grant: Secret) -> AppCredential:
    """Rebuild an application's own credential from its row and its secret."""
    return build_app_credential(credential.kind, credential.tenant_id, credential.client_id or "", grant)


def build_app_credential(
    kind: CredentialKind, tenant_id: str | None, client_id: str, grant: Secret
) -> AppCredential:
    by_secret = kind is CredentialKind.APP_SECRET
    return AppCredential(
        tenant_id=tenant_id,
        client_id=client_id,
        client_secret=grant if by_secret else None,
        certificate=None if by_secret else grant,
    )


def _application_key_of(access: MailboxAccess) -> str:
    return application_key(access.provider, access.credential.client_id)


def _require_grant(access: MailboxAccess | None) -> MailboxAccess:
    """Raise InvalidGrant without asking the provider if the grant is known to be lost.

    Every attempt would be rejected, and only a reconnect by the owner helps.
    """
    if access is None:
        raise InvalidGrant("This mailbox is not connected.")
    if access.health is MailboxHealth.TOKEN_REFRESH_FAILED:
        raise InvalidGrant(access.last_error or "The grant of this mailbox is lost. Reconnect it.")
    return access
