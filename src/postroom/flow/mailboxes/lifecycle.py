"""Actions on a connected mailbox: pause, resume, change the content policy, disconnect, purge.

A disconnect also ends its subscriptions and its access at the provider.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import LiteralString

from postroom.errors import PermanentError, PostroomError
from postroom.flow.mail import policy as policies
from postroom.flow.mailboxes.connect import INITIAL_WORK, ConnectContext
from postroom.flow.mailboxes.fixed_token import FixedToken
from postroom.flow.mailboxes.tokens import AccessTokens, get_provider
from postroom.logs import Log
from postroom.model import (
    ContentPolicy,
    CredentialKind,
    MailboxId,
    OrganizationId,
    RemoteSubscription,
    RevocationResult,
    Secret,
    WorkKind,
)
from postroom.ports import SecretLocation, TokenSource
from postroom.store import credentials, feed, ledger, mailboxes, subscriptions, work
from postroom.store.connection import Connection
from postroom.store.credentials import Credential
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.work import WorkRequest

log = Log()


async def pause(
    context: ConnectContext, organization: OrganizationId, mailbox: MailboxId, *, actor: str | None = None
) -> bool:
    """Stop fetching until the mailbox is resumed. False if it was already paused.

    Its subscription and its cursors stay.
    """
    async with context.database.transaction(organization) as connection:
        changed = await mailboxes.pause(connection, mailbox)
        if changed:
            await _record_event(connection, organization, "MAILBOX_PAUSED", mailbox, actor)
    return changed


async def resume(
    context: ConnectContext, organization: OrganizationId, mailbox: MailboxId, *, actor: str | None = None
) -> bool:
    """Resume a mailbox and run its work at once. False if it was not paused."""
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
    """Change the content policy. False if the mailbox already had it.

    Content that is no longer allowed is removed at once; missing content is fetched by the next syncs. A
    policy beyond what the owner consented to needs a reconnect.
    """
    async with context.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, mailbox)
        credential = await credentials.load(connection, mailbox)
        if found is None or credential is None:
            raise PermanentError("This mailbox is not connected. Connect it first.")
        login = get_provider(context.providers, found.provider).login
        by_login = credential.kind is CredentialKind.DELEGATED
        needed = login.scopes(policy) if by_login else login.app_scopes(policy)
        enough = policy is ContentPolicy.METADATA or needed <= credential.scopes
        if not enough and not by_login:
            raise PermanentError(
                "The application reads only metadata of this mailbox. Connect it again with the policy"
                f" `{policy}`: postroom mailboxes connect {found.provider} --app-only --policy {policy} …"
            )
        if not enough:
            raise PermanentError(
                "The owner of this mailbox granted access to metadata only. Reconnect it with the policy"
                f" `{policy}` at {context.reconnect_url(found, policy)} so that the provider asks for consent"
                " to more."
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
        await policies.remove_disallowed(context.database, context.pipelines, organization, mailbox)
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
    """Disconnect a mailbox. False if there is no such mailbox.

    Access is revoked at the provider unless another organization has the same account connected. If cleaning
    up at the provider fails, the mailbox is disconnected and its grant erased all the same.
    """
    async with context.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, mailbox)
        credential = await credentials.load(connection, mailbox)
    if found is None:
        return False
    cleanup = await _ProviderCleanup.of(context, tokens, found, credential)
    others = await _find_other_mailboxes(context, found)
    revocation = await cleanup.leave(tokens.for_mailbox(organization, mailbox), alone=not others)
    if credential is not None and credential.directory is None:
        # Before the row that names it is deleted: if this fails, the secret can still be found.
        await context.vault.delete(SecretLocation(organization, mailbox, "grant"), credential.grant)
    async with context.database.transaction(organization) as connection:
        await credentials.delete(connection, mailbox)
        await mailboxes.remove_subscriptions(connection, mailbox)
        changed = await mailboxes.disconnect(connection, mailbox)
        await work.delete_by_subject(connection, str(mailbox))
        if purge:
            moved = await mailboxes.purge(connection, mailbox)
            await work.enqueue(
                connection,
                [WorkRequest(organization, WorkKind.ARCHIVE, str(document)) for document in moved],
            )
            await ledger.purge_personal(connection, "mailbox", [str(mailbox)])
        if changed or purge:
            payload = _describe_revocation(revocation) | {"purged": purge}
            await _record_event(connection, organization, "MAILBOX_DISCONNECTED", mailbox, actor, **payload)
    tokens.cached.pop(mailbox, None)
    if others:
        others = await _find_other_mailboxes(context, found)
        if not others:
            await _revoke_late(cleanup, actor)
    await _wake_other_mailboxes(context, others)
    return True


def _describe_revocation(revocation: RevocationResult) -> dict[str, JsonValue]:
    """What the ledger states about the grant: revoked only if the provider confirmed it."""
    return {"revoked": revocation is RevocationResult.REVOKED, "revocation": revocation.value}


async def _revoke_late(cleanup: "_ProviderCleanup", actor: str | None) -> None:
    """Revoke access after two organizations disconnected at once, each leaving it to the other."""
    if await cleanup.leave(cleanup.last_token, alone=True) is RevocationResult.REVOKED:
        organization = cleanup.mailbox.organization
        async with cleanup.context.database.transaction(organization) as connection:
            await _record_event(connection, organization, "MAILBOX_REVOKED", cleanup.mailbox.id, actor)


async def _find_other_mailboxes(
    context: ConnectContext, mailbox: Mailbox
) -> list[tuple[OrganizationId, MailboxId]]:
    async with context.database.engine() as engine:
        return await mailboxes.list_others_of_account(
            engine, mailbox.provider, mailbox.account_id, excluding=mailbox.id
        )


@dataclass(frozen=True)
class _ProviderCleanup:
    """Ends subscriptions and access at the provider, with secrets read before they were erased here."""

    context: ConnectContext
    mailbox: Mailbox
    remote_subscriptions: Sequence[RemoteSubscription]
    last_token: FixedToken | None
    has_consent: bool  # of a person; an application's own credential belongs to its owner and is not revoked
    grant: Secret | None  # None if the vault cannot open it

    @classmethod
    async def of(
        cls, context: ConnectContext, tokens: AccessTokens, mailbox: Mailbox, credential: Credential | None
    ) -> "_ProviderCleanup":
        token = grant = None
        has_consent = credential is not None and credential.kind is CredentialKind.DELEGATED
        if credential is not None:
            with _logging_failure("no token", mailbox):
                token = FixedToken(await tokens.for_mailbox(mailbox.organization, mailbox.id).get_token())
            if has_consent:
                with _logging_failure("no grant", mailbox):
                    location = SecretLocation(mailbox.organization, mailbox.id, "grant")
                    grant = await context.vault.fetch(location, credential.grant)
        async with context.database.transaction(mailbox.organization) as connection:
            remote_subscriptions = await mailboxes.list_active_subscriptions(connection, mailbox.id)
        return cls(context, mailbox, remote_subscriptions, token, has_consent, grant)

    async def leave(self, tokens: TokenSource | None, *, alone: bool) -> RevocationResult:
        """Unsubscribe and revoke access; what the provider confirmed about it.

        Revoking ends the access of every organization, so only the last one (`alone`) does it.
        """
        if tokens is not None and self.remote_subscriptions:
            with _logging_failure("not unsubscribed", self.mailbox):
                await self._unsubscribe(tokens, alone=alone)
        if not self.has_consent:
            return RevocationResult.NOT_APPLICABLE
        if not alone:
            return RevocationResult.SHARED
        if self.grant is not None:
            with _logging_failure("not revoked", self.mailbox):
                login = get_provider(self.context.providers, self.mailbox.provider).login
                return await login.revoke(self.grant)
        return RevocationResult.FAILED

    async def _unsubscribe(self, tokens: TokenSource, *, alone: bool) -> None:
        """Remove the subscriptions while the token still works, except those that other mailboxes share.

        Any that are left expire within days.
        """
        provider = get_provider(self.context.providers, self.mailbox.provider)
        remote = provider.mailbox(self.mailbox.provider_user_id, tokens)
        provider_ids = [
            subscription.provider_subscription_id or "" for subscription in self.remote_subscriptions
        ]
        async with self.context.database.engine() as engine:
            rows = await subscriptions.find_secrets(engine, [], provider_ids)
        shared = {
            row.provider_subscription_id for row in rows if row.is_live and row.mailbox != self.mailbox.id
        }
        for remote_subscription in self.remote_subscriptions:
            provider_id = remote_subscription.provider_subscription_id
            if provider_id not in shared and (alone or provider_id is not None):
                with _logging_failure("not unsubscribed", self.mailbox):
                    await remote.unsubscribe(remote_subscription)


@contextmanager
def _logging_failure(reason: LiteralString, mailbox: Mailbox) -> Generator[None]:
    try:
        yield
    except PostroomError as error:
        log.warning("mailbox.cleanup_failed", error=error, mailbox=mailbox.id, reason=reason)


async def _wake_other_mailboxes(
    context: ConnectContext, others: list[tuple[OrganizationId, MailboxId]]
) -> None:
    """Hand the subscription over to the account's other mailboxes.

    One that they shared was authorized with the token of the mailbox that left: they renew it with their own.
    """
    for organization, mailbox in others:
        with suppress(PostroomError):
            async with context.database.transaction(organization) as connection:
                await subscriptions.request_reauthorization(connection, mailbox)
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
