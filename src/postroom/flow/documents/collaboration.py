"""How people share the work on documents: comments, and who is to review a document.

Runs in the caller's transaction. The ledger and the feed name the comment or the member, never the text.
"""

from typing import Final
from uuid import UUID

from postroom.errors import NotFound, PermanentError
from postroom.model import DocumentState, MemberId, OrganizationId, Role
from postroom.store import comments, documents, feed, ledger, members
from postroom.store.comments import Comment
from postroom.store.connection import Connection
from postroom.store.ledger import JsonValue, NewLedgerEntry

MAX_COMMENT: Final = 2000  # characters


async def add_comment(
    connection: Connection, organization: OrganizationId, document: UUID, text: str, *, actor: str
) -> Comment:
    """Add a comment to a document in any state."""
    text = text.replace("\0", "").strip()
    if not text:
        raise PermanentError("The comment is empty. Enter some text.")
    if len(text) > MAX_COMMENT:
        raise PermanentError(f"The comment has {len(text)} characters. Enter at most {MAX_COMMENT}.")
    if await documents.get(connection, document) is None:
        raise NotFound("There is no such document.")
    comment = await comments.add(connection, document, text, actor=actor)
    await _record(
        connection, organization, document, "DOCUMENT_COMMENTED", {"comment": comment.id}, actor=actor
    )
    return comment


async def assign(
    connection: Connection,
    organization: OrganizationId,
    document: UUID,
    assignee: MemberId | None,
    *,
    actor: str,
) -> None:
    """Assign a document that needs review to a member who may decide about it; None: to no one."""
    found = await documents.lock(connection, document)
    if found is None:
        raise NotFound("There is no such document.")
    if found.state is not DocumentState.NEEDS_REVIEW:
        raise PermanentError(
            f"The document is {found.state}. Only documents that need review can be assigned."
        )
    member = await members.get(connection, assignee) if assignee else None
    if assignee and member is None:
        raise PermanentError("There is no such member. Choose another one.")
    if member and not member.role.allows(Role.REVIEWER):
        raise PermanentError(f"{member.address} has the role {member.role}, which cannot decide reviews.")
    if found.assignee_id == assignee:
        return
    await documents.set_assignee(connection, document, assignee)
    assigned = str(assignee) if assignee else None
    await _record(
        connection, organization, document, "DOCUMENT_ASSIGNED", {"assignee": assigned}, actor=actor
    )


async def find_member(connection: Connection, address: str) -> MemberId:
    """The member with this address."""
    member = await members.find_by_address(connection, address.strip())
    if member is None:
        raise PermanentError(f"No member has the address {address.strip()}.")
    return member.id


async def _record(
    connection: Connection,
    organization: OrganizationId,
    document: UUID,
    event_type: str,
    payload: dict[str, JsonValue],
    *,
    actor: str,
) -> None:
    await feed.append_event(connection, "document.changed", "document", str(document), payload)
    entry = NewLedgerEntry(event_type, "document", str(document), actor_id=actor, payload=payload)
    await ledger.append_entries(connection, organization, [entry])
