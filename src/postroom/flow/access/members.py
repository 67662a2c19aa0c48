"""Add and remove members, change roles and passwords; each change has a ledger entry.

Also creates the first admin. How members sign in is in `sign_in`.
"""

from postroom.errors import PermanentError
from postroom.flow.access import passwords
from postroom.model import MemberId, OrganizationId, Role, Secret
from postroom.store import ledger, members, organizations, sessions
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.members import Member

FIRST_ADDRESS = "admin@localhost"


async def add(
    database: Database,
    organization: OrganizationId,
    address: str,
    *,
    role: Role,
    name: str | None = None,
    actor: str | None = None,
) -> Member:
    """Add a member. Raises PermanentError if the address is invalid or already a member's."""
    address = address.strip().lower()
    if not 3 <= len(address) <= 320 or "@" not in address[1:-1] or not address.isprintable():
        raise PermanentError("A member needs a valid address, such as ann@example.org.")
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
        made = await members.add(connection, address, name=name or address.partition("@")[0], role=role)
        if made is None:
            raise PermanentError("A member with this address already exists.")
        await _record_event(
            connection, organization, "MEMBER_ADDED", made, actor, {"role": role}, address=address
        )
        return await _require_member(connection, made)


async def ensure_admin(database: Database, organization: OrganizationId) -> tuple[Member, bool]:
    """Return the first admin, and whether it was created because there was none."""
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
        admins = [member for member in await members.list_all(connection) if member.role is Role.ADMIN]
    if admins:
        return min(admins, key=lambda member: member.created_at), False
    try:
        return await add(database, organization, FIRST_ADDRESS, role=Role.ADMIN, name="Admin"), True
    except PermanentError:  # another process has just created it, or it is no longer an admin
        async with database.transaction(organization) as connection:
            member = await members.find_by_address(connection, FIRST_ADDRESS)
            assert member is not None, "the address is taken"
            await members.set_role(connection, member.id, Role.ADMIN)
            return await _require_member(connection, member.id), False


async def find(database: Database, organization: OrganizationId, address: str) -> Member:
    async with database.transaction(organization) as connection:
        found = await members.find_by_address(connection, address.strip())
    if found is None:
        raise PermanentError("There is no such member. `postroom members list` shows all.")
    return found


async def set_role(database: Database, member: Member, role: Role, *, actor: str | None = None) -> bool:
    """Change a member's role. False if the member already has it.

    The last admin cannot lose the role, because no other member could restore it.
    """
    async with database.transaction(member.organization) as connection:
        if role is not Role.ADMIN:
            await _require_other_admin(connection, member)
        changed = await members.set_role(connection, member.id, role)
        if changed:
            await _record_event(
                connection, member.organization, "MEMBER_ROLE_CHANGED", member.id, actor, {"role": role}
            )
    return changed


async def set_password(
    database: Database, member: Member, password: Secret | None, *, actor: str | None = None
) -> None:
    """Set or remove a password, and end all sessions of the member."""
    kept = await passwords.hash_password(password) if password is not None else None
    async with database.transaction(member.organization) as connection:
        await members.set_password(connection, member.id, kept)
        await sessions.end_all(connection, member.id)
        event = "MEMBER_PASSWORD_CHANGED" if kept else "MEMBER_PASSWORD_REMOVED"
        await _record_event(connection, member.organization, event, member.id, actor, {})


async def remove(database: Database, member: Member, *, actor: str | None = None) -> None:
    async with database.transaction(member.organization) as connection:
        await _require_other_admin(connection, member)
        if await members.remove(connection, member.id):
            await _record_event(connection, member.organization, "MEMBER_REMOVED", member.id, actor, {})


async def _require_other_admin(connection: Connection, member: Member) -> None:
    others = await members.count_other_admins(connection, member.id)
    found = await members.get(connection, member.id)
    if found is not None and found.role is Role.ADMIN and not others:
        raise PermanentError("This is the last admin. Make another member an admin first.")


async def _require_member(connection: Connection, member: MemberId) -> Member:
    found = await members.get(connection, member)
    assert found is not None, "written or read earlier in this transaction"
    return found


async def _record_event(
    connection: Connection,
    organization: OrganizationId,
    event: str,
    member: MemberId,
    actor: str | None,
    payload: dict[str, JsonValue],
    **personal: JsonValue,
) -> None:
    entry = NewLedgerEntry(event, "member", str(member), actor, payload, personal or None)
    await ledger.append_entries(connection, organization, [entry])
