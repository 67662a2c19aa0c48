"""Mailboxes: connected, healthy, under the right policy, and subscribed exactly once at the provider."""

from collections.abc import Iterator

from postroom_chaos.oracle.evidence import ObservedMailbox, Violation
from postroom_chaos.oracle.sources import RemoteMailbox, Row, Sources

_MAILBOX = """
    SELECT content_policy, health, last_error, paused_at, disconnected_at FROM mailboxes
    WHERE organization_id = %s AND id = %s
"""
_SUBSCRIPTIONS = """
    SELECT id, provider_subscription_id, status, confirmed_at, expires_at,
        expires_at < postroom_now() AS expired
    FROM subscriptions WHERE mailbox_id = %s AND replaced_at IS NULL AND status <> 'removed'
    ORDER BY created_at
"""


async def check_mailboxes(sources: Sources) -> list[Violation]:
    found: list[Violation] = []
    for mailbox in sources.evidence.mailboxes:
        rows = await sources.rows(_MAILBOX, mailbox.organization, mailbox.id)
        found += _check_row(mailbox, rows[0] if rows else None)
        if mailbox.state == "mirrored" and sources.evidence.expects_subscriptions:
            subscriptions = await sources.rows(_SUBSCRIPTIONS, mailbox.id)
            found += _check_stored(mailbox, subscriptions)
            found += _check_provider(sources, mailbox, await sources.remote(mailbox), subscriptions)
    return found


def _name(mailbox: ObservedMailbox) -> str:
    return f"mailbox {mailbox.address} ({mailbox.id})"


def _check_row(mailbox: ObservedMailbox, row: Row | None) -> Iterator[Violation]:
    if row is None:
        if mailbox.state == "mirrored":
            yield Violation("mailboxes.state", _name(mailbox), "must be connected, but has no row")
        return
    connected = row["disconnected_at"] is None
    if connected != (mailbox.state == "mirrored"):
        text = f"must be {mailbox.state}; disconnected_at is {row['disconnected_at']}"
        yield Violation("mailboxes.state", _name(mailbox), text)
    if not connected:
        return
    if row["content_policy"] != mailbox.policy:
        text = f"must have the policy {mailbox.policy}, has {row['content_policy']}"
        yield Violation("mailboxes.policy", _name(mailbox), text)
    if row["health"] != "active" or row["paused_at"] is not None:
        text = f"must be active; is {row['health']}, paused at {row['paused_at']}: {row['last_error']}"
        yield Violation("mailboxes.health", _name(mailbox), text)


def _list_current(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "active" and row["confirmed_at"] and not row["expired"]]


def _check_stored(mailbox: ObservedMailbox, rows: list[Row]) -> Iterator[Violation]:
    if len(_list_current(rows)) != 1:
        text = f"must have one active, confirmed subscription; has {rows}"
        yield Violation("mailboxes.subscription", _name(mailbox), text)


def _check_provider(
    sources: Sources, mailbox: ObservedMailbox, remote: RemoteMailbox, rows: list[Row]
) -> Iterator[Violation]:
    """At the provider there is one for each organization; a Gmail watch is shared by all of them."""
    sharing = [
        each
        for each in sources.evidence.mailboxes
        if each.state == "mirrored" and (each.provider, each.address) == (mailbox.provider, mailbox.address)
    ]
    expected = 1 if mailbox.provider == "gmail" else len(sharing)
    there = [each.get("id") for each in remote.subscriptions]
    if len(there) != expected:
        text = f"the provider must have {expected} subscriptions, has {there}"
        yield Violation("mailboxes.subscription_at_provider", _name(mailbox), text)
    current = [row["provider_subscription_id"] for row in _list_current(rows)]
    if mailbox.provider == "outlook" and not set(current) <= set(there):
        text = f"the store has {current}, the provider {there}"
        yield Violation("mailboxes.subscription_at_provider", _name(mailbox), text)
