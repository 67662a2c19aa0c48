"""A link by which somebody who is no member connects one mailbox: made by an operator, good for a while.

It lets its bearer begin one login, as asked for. The login itself is bound to the browser as any other.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from postroom.flow.mailboxes.connect import LOGIN_SECONDS, ConnectContext, ConnectRequest
from postroom.model import ContentPolicy, MailboxId, OrganizationId, ProviderName
from postroom.store import ledger
from postroom.vault import sealed_tokens

_PURPOSE: Final = "invitation"


class _InvitationPayload(msgspec.Struct):
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
    request: ConnectRequest
    login_id: UUID


def build_url(context: ConnectContext, invitation: Invitation) -> str:
    """Where the invited person's browser shall go."""
    request = invitation.request
    written = _InvitationPayload(
        invitation.organization,
        invitation.provider,
        request.policy,
        invitation.login_id,
        request.address,
        request.mailbox,
    )
    ticket = sealed_tokens.issue(context.sealer, _PURPOSE, msgspec.json.encode(written), LOGIN_SECONDS)
    return f"{context.url}/oauth/{invitation.provider}/authorize?{urlencode({'invitation': ticket})}"


async def read(context: ConnectContext, ticket: str) -> Invitation | None:
    """None where it is not ours, is too old, or its login has ended."""
    value = sealed_tokens.redeem(context.sealer, _PURPOSE, ticket)
    if value is None:
        return None
    written = msgspec.json.decode(value, type=_InvitationPayload)
    organization = OrganizationId(written.organization)
    async with context.database.transaction(organization) as connection:
        if await ledger.list_by_entity(connection, "login", str(written.login)):
            return None
    mailbox = MailboxId(written.mailbox) if written.mailbox else None
    request = ConnectRequest(written.policy, written.address, mailbox)
    return Invitation(organization, written.provider, request, written.login)
