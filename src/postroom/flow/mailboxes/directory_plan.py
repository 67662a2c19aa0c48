"""What a listing of a directory means: who is selected, who joins and leaves, and whether to stop.

Pure functions, which the preview and the sync share. Nothing here writes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final
from uuid import UUID

from postroom.model import Account
from postroom.ports import DirectoryUser
from postroom.store.directories import DirectorySettings, UserSelection
from postroom.store.directory_users import DirectoryUserState, StoredDirectoryUser

JOINED: Final = "selected"
RETURNED: Final = "selected again"
_GONE: Final = "is no longer in the directory, or in its selected groups"
# What prevented a connection may have changed by then.
RETRY_SKIPPED_SECONDS: Final = 86_400.0
_PRESENT: Final = frozenset({DirectoryUserState.JOINING, DirectoryUserState.CONNECTED})
_LEFT: Final = frozenset(
    {
        DirectoryUserState.LEAVING,
        DirectoryUserState.PAUSED,
        DirectoryUserState.DISCONNECTED,
        DirectoryUserState.KEPT,
    }
)


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user that a listing returned; with a reason, it is not selected."""

    account: Account
    excluded_reason: str | None


@dataclass(frozen=True, slots=True)
class DirectoryChanges:
    """What a sync of a directory changes. Each leaver has a reason; `pending`: work is unfinished."""

    joiners: Sequence[Account] = field(default_factory=list[Account])
    returners: Sequence[Account] = field(default_factory=list[Account])
    leavers: Sequence[tuple[UUID, str]] = field(default_factory=list[tuple[UUID, str]])
    pending: Sequence[UUID] = field(default_factory=list[UUID])


def select_users(users: Iterable[DirectoryUser], selection: UserSelection) -> list[ListedUser]:
    """Apply domains and patterns. The provider has applied the groups."""
    return [ListedUser(user.account, _find_exclusion(user, selection)) for user in users]


def _find_exclusion(user: DirectoryUser, selection: UserSelection) -> str | None:
    address = user.account.address
    if user.inactive_reason is not None:
        return user.inactive_reason
    if selection.domains and address.rpartition("@")[2] not in selection.domains:
        return "is in another domain"
    if selection.patterns and not _matches(address, selection.patterns):
        return "matches no pattern"
    if _matches(address, selection.excluded_patterns):
        return "matches an excluded pattern"
    return None


def _matches(address: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(address, pattern) for pattern in patterns)


def plan(
    listed: Sequence[ListedUser],
    stored: Sequence[StoredDirectoryUser],
    settings: DirectorySettings,
    *,
    confirmed_leavers: int | None = None,
) -> tuple[DirectoryChanges, str | None]:
    """What a listing changes; with a reason, a person must look at it before it is applied."""
    changes = compare(listed, stored)
    present = sum(user.state in _PRESENT for user in stored)
    reason = _find_stop_reason(changes, listed, present, settings, confirmed_leavers=confirmed_leavers)
    return changes, reason


def compare(listed: Sequence[ListedUser], stored: Sequence[StoredDirectoryUser]) -> DirectoryChanges:
    """Compare a complete listing with the stored users."""
    selected = {user.account.account_id: user.account for user in listed if user.excluded_reason is None}
    excluded = {
        user.account.account_id: user.excluded_reason or "" for user in listed if user.excluded_reason
    }
    known = {user.account_id: user for user in stored}
    returners = [
        account
        for id_, account in selected.items()
        if (user := known.get(id_)) is not None and _joins_again(user, account)
    ]
    returning = {account.account_id for account in returners}
    leavers = [
        (user.id, excluded.get(user.account_id, _GONE))
        for user in stored
        if user.state in _PRESENT and user.account_id not in selected
    ]
    return DirectoryChanges(
        joiners=[account for id_, account in selected.items() if id_ not in known],
        returners=returners,
        leavers=leavers,
        pending=[
            user.id
            for user in stored
            if user.account_id not in returning and (user.state, user.account_id in selected) in _PENDING
        ],
    )


_PENDING: Final = {(DirectoryUserState.JOINING, True), (DirectoryUserState.LEAVING, False)}


def _joins_again(user: StoredDirectoryUser, account: Account) -> bool:
    if user.state is DirectoryUserState.SKIPPED:
        return user.changed_seconds_ago > RETRY_SKIPPED_SECONDS
    # At Google, the address is what opens the mailbox.
    return user.state in _LEFT or (user.state in _PRESENT and user.address != account.address)


def _find_stop_reason(
    changes: DirectoryChanges,
    listed: Sequence[ListedUser],
    present: int,
    settings: DirectorySettings,
    *,
    confirmed_leavers: int | None,
) -> str | None:
    """Whether a listing would let too many users leave.

    One leaver is always allowed, unless the listing selects no user.
    """
    leaving = len(changes.leavers)
    if not leaving or (confirmed_leavers is not None and leaving <= confirmed_leavers):
        return None
    if not any(user.excluded_reason is None for user in listed):
        return f"The directory returned no selected user, but {present} are connected or waiting."
    if leaving > max(1, present * settings.max_leaver_percent / 100):
        return (
            f"{leaving} of {present} users would leave, more than {settings.max_leaver_percent} %."
            " Nothing was changed."
        )
    return None
