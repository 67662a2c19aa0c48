"""A connected mailbox in its owner's hands: paused, resumed, its policy changed, disconnected."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import LiteralString

from postroom.errors import PermanentError, PostroomError
from postroom.flow.mail import policy as policies
from postroom.flow.mailboxes.connect import INITIAL_WORK, ConnectContext, FixedToken
from postroom.flow.mailboxes.tokens import AccessTokens, get_provider
from postroom.logs import Log
from postroom.model import (
    ContentPolicy,
    CredentialKind,
    MailboxId,
    OrganizationId,
    RemoteSubscription,
    Secret,
    WorkKind,
)
from postroom.ports import SecretLocation, TokenSource
from postroom.store import credentials, feed, ledger, mailboxes, subscriptions, work
from postroom.store.credentials import Credential
from postroom.store.database import Connection
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.work import WorkRequest

log = Log()


async def pause(
    context: ConnectContext, organization: OrganizationId, mailbox: MailboxId, *, actor: str | None = None
) -> bool:
    """Nothing is fetched until it is resumed. Its subscription and its cursor stay. False: no change."""
    async with context.database.transaction(organization) as connection:
        changed = await mailboxes.pause(connection, mailbox)
        if changed:
            await _record_event(connection, organization, "MAILBOX_PAUSED", mailbox, actor)
    return changed


async def resume(
    context: ConnectContext, organization: OrganizationId, mailbox: MailboxId, *, actor: str | None = None
) -> bool:
    """Let it go on, at once, whatever it waits for. False: it was not paused."""
    async with context.database.transaction(organization) as connection:
        changed = await mailboxes.resume(connection, mailbox)
        if changed:
            await _record_event(connection, organization, "MAILBOX_RESUMED", mailbox, actor)
        found = await mailboxes.get(connection, mailbox)
        if found is not None and found.disconnected_at is None:
            await work.restart(
                connection, [WorkRequest(organization, kind, str(mailbox)) for kind in INITIAL_WORK]
            )
    return changed


async def set_policy(
    context: ConnectContext,
    organization: OrganizationId,
    mailbox: MailboxId,
    policy: ContentPolicy,
    *,
    actor: str | None = None,
) -> bool:
    """Keep more or less. What is too much goes at once; what is missing is fetched by the next syncs.

    More than the owner allowed needs a new consent.
    """
    async with context.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, mailbox)
        credential = await credentials.load(connection, mailbox)
        if found is None or credential is None:
            raise PermanentError("This mailbox is not connected.")
        needed = get_provider(context.providers, found.provider).login.scopes(policy)
        by_login = credential.kind is CredentialKind.DELEGATED
        if by_login and policy is not ContentPolicy.METADATA and not needed <= credential.scopes:
            raise PermanentError(
                "The owner of this mailbox allowed metadata only. Connect it again with the policy"
                f" `{policy}`, so that the provider asks for more."
            )
        await policies.block_commits(connection, organization, mailbox, before=found.policy, after=policy)
        changed = await mailboxes.set_policy(connection, mailbox, policy)
        if changed:
            await policies.schedule_refill(
                connection, organization, mailbox, before=found.policy, after=policy
            )
            await _record_event(
                connection, organization, "MAILBOX_POLICY_CHANGED", mailbox, actor, policy=policy.value
            )
    if changed and policies.is_lowered(found.policy, policy):
        await policies.remove_disallowed(context.database, organization, mailbox)
    return changed


async def disconnect(
    context: ConnectContext,
    tokens: AccessTokens,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    purge: bool,
    actor: str | None = None,
) -> bool:
    """End it here, and at the provider where no other organization has the account. False: no such mailbox.

    What cannot be undone at the provider does not keep the mailbox connected here: the grant is erased.
    """
    async with context.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, mailbox)
        credential = await credentials.load(connection, mailbox)
    if found is None:
        return False
    leaver = await _ProviderCleanup.of(context, tokens, found, credential)
    others = await _find_other_mailboxes(context, found)
    revoked = await leaver.leave(tokens.for_mailbox(organization, mailbox), alone=not others)
    if credential is not None:
        # Before the row that names it: what is left of a failure can be found, and asked for again.
        await context.vault.delete(SecretLocation(organization, mailbox, "grant"), credential.grant)
    async with context.database.transaction(organization) as connection:
        await credentials.delete(connection, mailbox)
        await mailboxes.remove_subscriptions(connection, mailbox)
        await mailboxes.disconnect(connection, mailbox)
        await work.delete_by_subject(connection, str(mailbox))
        if purge:
            await mailboxes.purge(connection, mailbox)
            await ledger.purge_personal(connection, "mailbox", str(mailbox))
        await _record_event(
            connection, organization, "MAILBOX_DISCONNECTED", mailbox, actor, revoked=revoked, purged=purge
        )
    tokens.cached.pop(mailbox, None)
    if others:
        others = await _find_other_mailboxes(context, found)
        if not others:
            await _revoke_late(leaver, actor)
    await _wake_other_mailboxes(context, others)
    return True


async def _revoke_late(leaver: "_ProviderCleanup", actor: str | None) -> None:
    """Two left at the same time, and each had counted on the other."""
    if await leaver.leave(leaver.last_token, alone=True):
        organization = leaver.mailbox.organization
        async with leaver.context.database.transaction(organization) as connection:
            await _record_event(connection, organization, "MAILBOX_REVOKED", leaver.mailbox.id, actor)


async def _find_other_mailboxes(
    context: ConnectContext, mailbox: Mailbox
) -> list[tuple[OrganizationId, MailboxId]]:
    async with context.database.engine() as engine:
        return await mailboxes.list_others_of_account(
            engine, mailbox.provider, mailbox.account_id, but=mailbox.id
        )


@dataclass(frozen=True)
class _ProviderCleanup:
    """Ends things at the provider, with what opened the mailbox, which may be erased here by then."""

    context: ConnectContext
    mailbox: Mailbox
    channels: Sequence[RemoteSubscription]
    last_token: FixedToken | None
    grant: Secret | None

    @classmethod
    async def of(
        cls, context: ConnectContext, tokens: AccessTokens, mailbox: Mailbox, credential: Credential | None
    ) -> "_ProviderCleanup":
        token = grant = None
        if credential is not None:
            with _logging_failure("no token", mailbox):
                token = FixedToken(await tokens.for_mailbox(mailbox.organization, mailbox.id).get_token())
            # An application's own credential is its owner's business.
            if credential.kind is CredentialKind.DELEGATED:
                with _logging_failure("no grant", mailbox):
                    location = SecretLocation(mailbox.organization, mailbox.id, "grant")
                    grant = await context.vault.fetch(location, credential.grant)
        async with context.database.transaction(mailbox.organization) as connection:
            channels = await mailboxes.list_active_subscriptions(connection, mailbox.id)
        return cls(context, mailbox, channels, token, grant)

    async def leave(self, tokens: TokenSource | None, *, alone: bool) -> bool:
        """Whether access was given back, which ends that of every organization and is left to the last."""
        if tokens is not None and self.channels:
            with _logging_failure("not unsubscribed", self.mailbox):
                await self._unsubscribe(tokens, alone=alone)
        if not alone or self.grant is None:
            return False
        with _logging_failure("not revoked", self.mailbox):
            await get_provider(self.context.providers, self.mailbox.provider).login.revoke(self.grant)
            return True
        return False

    async def _unsubscribe(self, tokens: TokenSource, *, alone: bool) -> None:
        """While the token still works. A channel that others are told by stays; any left ends within days."""
        provider = get_provider(self.context.providers, self.mailbox.provider)
        remote = provider.mailbox(self.mailbox.provider_user_id, tokens)
        named = [each.provider_subscription_id or "" for each in self.channels]
        async with self.context.database.engine() as engine:
            rows = await subscriptions.find_secrets(engine, [], named)
        shared = {row.provider_subscription_id for row in rows if row.live and row.mailbox != self.mailbox.id}
        for remote_subscription in self.channels:
            whose = remote_subscription.provider_subscription_id
            if whose not in shared and (alone or whose is not None):
                with _logging_failure("not unsubscribed", self.mailbox):
                    await remote.unsubscribe(remote_subscription)


@contextmanager
def _logging_failure(reason: LiteralString, mailbox: Mailbox) -> Generator[None]:
    try:
        yield
    except PostroomError as error:
        log.warning("mailbox.leaving_failed", error=error, mailbox=mailbox.id, reason=reason)


async def _wake_other_mailboxes(
    context: ConnectContext, others: list[tuple[OrganizationId, MailboxId]]
) -> None:
    """The channel that went may have been the one that others were told by: they look to their own."""
    for organization, mailbox in others:
        with suppress(PostroomError):
            async with context.database.transaction(organization) as connection:
                await work.enqueue(connection, [WorkRequest(organization, WorkKind.SUBSCRIBE, str(mailbox))])


async def _record_event(
    connection: Connection,
    organization: OrganizationId,
    event: str,
    mailbox: MailboxId,
    actor: str | None,
    **payload: JsonValue,
) -> None:
    entry = NewLedgerEntry(event, "mailbox", str(mailbox), actor, payload)
    await ledger.append_entries(connection, organization, [entry])
    await feed.append_event(connection, event.lower().replace("_", ".", 1), "mailbox", str(mailbox), payload)
