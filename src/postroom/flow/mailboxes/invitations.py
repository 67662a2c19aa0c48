"""A link by which somebody who is no member connects one mailbox: made by an operator, good for a while.

It lets its bearer begin one login, as asked for. The login itself is bound to the browser as any other.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from postroom.flow.mailboxes.connect import LOGIN_SECONDS, ConnectContext, Wish
from postroom.model import ContentPolicy, MailboxId, OrganizationId, ProviderName
from postroom.store import ledger
from postroom.vault import sealed_tokens

_PURPOSE: Final = "invitation"


class _Written(msgspec.Struct):
    organization: UUID
    provider: ProviderName
    policy: ContentPolicy | None
    login: UUID
    address: str | None
    mailbox: UUID | None


@dataclass(frozen=True, slots=True)
class Invitation:
    organization: OrganizationId
    provider: ProviderName
    wish: Wish
    login_id: UUID


def url(desk: ConnectContext, invitation: Invitation) -> str:
    """Where the invited person's browser shall go."""
    wish = invitation.wish
    written = _Written(
        invitation.organization,
        invitation.provider,
        wish.policy,
        invitation.login_id,
        wish.address,
        wish.mailbox,
    )
    ticket = sealed_tokens.write(desk.sealer, _PURPOSE, msgspec.json.encode(written), LOGIN_SECONDS)
    return f"{desk.url}/oauth/{invitation.provider}/authorize?{urlencode({'invitation': ticket})}"


async def read(desk: ConnectContext, ticket: str) -> Invitation | None:
    """None where it is not ours, is too old, or its login has ended."""
    value = sealed_tokens.read(desk.sealer, _PURPOSE, ticket)
    if value is None:
        return None
    written = msgspec.json.decode(value, type=_Written)
    organization = OrganizationId(written.organization)
    async with desk.database.transaction(organization) as connection:
        if await ledger.of_entity(connection, "login", str(written.login)):
            return None
    mailbox = MailboxId(written.mailbox) if written.mailbox else None
    wish = Wish(written.policy, written.address, mailbox)
    return Invitation(organization, written.provider, wish, written.login)
