"""A connected mailbox in its owner's hands: paused, resumed, its policy changed, disconnected."""

from contextlib import suppress

from postroom.errors import PermanentError, PostroomError
from postroom.flow.connect import FIRST_WORK, Desk
from postroom.flow.tokens import AccessTokens
from postroom.logs import Log
from postroom.model import ContentPolicy, CredentialKind, MailboxId, OrganizationId
from postroom.ports import Place
from postroom.store import credentials, ledger, mailboxes, work
from postroom.store.credentials import Credential
from postroom.store.database import Connection
from postroom.store.ledger import Entry, Plain
from postroom.store.mailboxes import Mailbox
from postroom.store.work import Wake

log = Log()


async def pause(desk: Desk, organization: OrganizationId, mailbox: MailboxId) -> bool:
    """Nothing is fetched until it is resumed. Its subscription and its cursor stay. False: no change."""
    async with desk.database.transaction(organization) as connection:
        changed = await mailboxes.pause(connection, mailbox)
        if changed:
            await _told(connection, organization, "MAILBOX_PAUSED", mailbox)
    return changed


async def resume(desk: Desk, organization: OrganizationId, mailbox: MailboxId) -> bool:
    async with desk.database.transaction(organization) as connection:
        changed = await mailboxes.resume(connection, mailbox)
        if changed:
            await _told(connection, organization, "MAILBOX_RESUMED", mailbox)
            await work.restart(connection, [Wake(organization, kind, str(mailbox)) for kind in FIRST_WORK])
    return changed


async def set_policy(
    desk: Desk, organization: OrganizationId, mailbox: MailboxId, policy: ContentPolicy
) -> bool:
    """Keep more or less from now on. More than the owner allowed needs a new consent."""
    async with desk.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, mailbox)
        credential = await credentials.load(connection, mailbox)
        if found is None or credential is None:
            raise PermanentError("This mailbox is not connected.")
        needed = desk.providers[found.provider].login.scopes(policy)
        by_login = credential.kind is CredentialKind.DELEGATED
        if by_login and policy is not ContentPolicy.METADATA and not needed <= credential.scopes:
            raise PermanentError(
                "The owner of this mailbox allowed metadata only. Connect it again with the policy"
                f" `{policy}`, so that the provider asks for more."
            )
        changed = await mailboxes.set_policy(connection, mailbox, policy)
        if changed:
            await _told(connection, organization, "MAILBOX_POLICY_CHANGED", mailbox, policy=policy.value)
    return changed


async def disconnect(
    desk: Desk, tokens: AccessTokens, organization: OrganizationId, mailbox: MailboxId, *, purge: bool
) -> bool:
    """End it here, and at the provider where no other organization has the account. False: no such mailbox.

    What cannot be undone at the provider does not keep the mailbox connected here: the grant is erased.
    """
    async with desk.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, mailbox)
        credential = await credentials.load(connection, mailbox)
    if found is None:
        return False
    async with desk.database.engine() as engine:
        others = await mailboxes.others_of_account(engine, found.provider, found.account_id, but=mailbox)
    revoked = False
    if credential is not None and not others:
        await _unsubscribe(desk, tokens, found)
        revoked = await _revoke(desk, found, credential)
    if credential is not None:
        # Before the row that names it: what is left of a failure can be found, and asked for again.
        await desk.vault.forget(Place(organization, mailbox, "grant"), credential.grant)
    async with desk.database.transaction(organization) as connection:
        await credentials.delete(connection, mailbox)
        await mailboxes.end_channels(connection, mailbox)
        await mailboxes.disconnect(connection, mailbox)
        await work.drop(connection, str(mailbox))
        if purge:
            await mailboxes.purge(connection, mailbox)
            await ledger.purge(connection, "mailbox", str(mailbox))
        await _told(connection, organization, "MAILBOX_DISCONNECTED", mailbox, revoked=revoked, purged=purge)
    tokens.held.pop(mailbox, None)
    await _pass_on(desk, others)
    return True


async def _unsubscribe(desk: Desk, tokens: AccessTokens, mailbox: Mailbox) -> None:
    """While the token still works. A channel that is left ends by itself within days."""
    async with desk.database.transaction(mailbox.organization) as connection:
        channels = await mailboxes.channels(connection, mailbox.id)
    remote = desk.providers[mailbox.provider].mailbox(
        mailbox.provider_user_id, tokens.of(mailbox.organization, mailbox.id)
    )
    for channel in channels:
        try:
            await remote.unsubscribe(channel)
        except PostroomError as error:
            log.warning("mailbox.unsubscribe_failed", error=error, mailbox=mailbox.id)


async def _revoke(desk: Desk, mailbox: Mailbox, credential: Credential) -> bool:
    """An application's own credential is its owner's business."""
    if credential.kind is not CredentialKind.DELEGATED:
        return False
    place = Place(mailbox.organization, mailbox.id, "grant")
    try:
        grant = await desk.vault.fetch(place, credential.grant)
        await desk.providers[mailbox.provider].login.revoke(grant)
    except PostroomError as error:
        log.warning("mailbox.revoke_failed", error=error, mailbox=mailbox.id)
        return False
    return True


async def _pass_on(desk: Desk, others: list[tuple[OrganizationId, MailboxId]]) -> None:
    """The channel that went may have been the one that others were told by: they look to their own."""
    for organization, mailbox in others:
        with suppress(PostroomError):
            async with desk.database.transaction(organization) as connection:
                await work.wake(connection, [Wake(organization, "subscribe", str(mailbox))])


async def _told(
    connection: Connection, organization: OrganizationId, event: str, mailbox: MailboxId, **payload: Plain
) -> None:
    await ledger.append(connection, organization, [Entry(event, "mailbox", str(mailbox), payload=payload)])
