"""Invitations: sealed, expiring links with which a person who is not a member connects a mailbox.

Builds and opens the links; no row is stored for them. An operator creates the link. Its bearer can start one
login for the invited provider and address; the login is bound to the browser like any other.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from postroom.flow.mailboxes.connect import LOGIN_SECONDS, ConnectContext
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, MailboxId, OrganizationId, ProviderName
from postroom.store import ledger
from postroom.vault import sealed_values

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
    """Build the link for the invited person."""
    request = invitation.request
    payload = _InvitationPayload(
        invitation.organization,
        invitation.provider,
        request.policy,
        invitation.login_id,
        request.address,
        request.mailbox,
    )
    token = sealed_values.seal(context.sealer, _PURPOSE, msgspec.json.encode(payload), LOGIN_SECONDS)
    return f"{context.url}/oauth/{invitation.provider}/authorize?{urlencode({'invitation': token})}"


async def read(context: ConnectContext, token: str) -> Invitation | None:
    """Open an invitation; None if it is forged, expired, or its login has ended."""
    value = sealed_values.unseal(context.sealer, _PURPOSE, token)
    if value is None:
        return None
    payload = msgspec.json.decode(value, type=_InvitationPayload)
    organization = OrganizationId(payload.organization)
    async with context.database.transaction(organization) as connection:
        if await ledger.list_by_entity(connection, "login", str(payload.login)):
            return None
    mailbox = MailboxId(payload.mailbox) if payload.mailbox else None
    request = ConnectRequest(payload.policy, payload.address, mailbox)
    return Invitation(organization, payload.provider, request, payload.login)
