"""What needs a person, with the button that solves it: on the overview and on the page of a mailbox."""

from dataclasses import dataclass

from postroom.flow.mailboxes.connect import authorize_path
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import Role
from postroom.store.mailboxes import Mailbox
from postroom.web.mailboxes import describe_state


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """A problem that a person can solve, and the button that solves it or leads there.

    `role` is the lowest role that may use the button. `is_post` submits a form.
    """

    text: str
    label: str
    url: str
    role: Role = Role.READER
    is_post: bool = False


def is_late(mailbox: Mailbox) -> bool:
    """Whether new mail of a connected mailbox is late, or not fetched at all."""
    is_troubled = mailbox.health_cause is not None or mailbox.paused_at is not None
    return mailbox.disconnected_at is None and is_troubled


def build_mailbox_item(mailbox: Mailbox, *, app_only: bool) -> AttentionItem:
    """Why the mail of a mailbox is late, and what solves it. An app-only mailbox has no sign-in."""
    state, meaning, _ = describe_state(mailbox)
    text, url = f"{mailbox.address}: {state.lower()}. {meaning}", f"/mailboxes/{mailbox.id}"
    if mailbox.has_lost_grant and app_only:
        return AttentionItem(text, "Show mailbox", f"/mailboxes#mailbox-{mailbox.id}")
    if mailbox.has_lost_grant:
        sign_in = authorize_path(mailbox.provider, ConnectRequest(mailbox=mailbox.id))
        return AttentionItem(text, "Reconnect", sign_in, Role.ADMIN)
    if mailbox.paused_at is not None:
        return AttentionItem(text, "Resume", f"{url}/resume", Role.ADMIN, is_post=True)
    return AttentionItem(text, "Sync now", f"{url}/sync", Role.ADMIN, is_post=True)
