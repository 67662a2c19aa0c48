"""The health page of the whole application: which problems it reports, and in which words."""

from postroom.model import WorkKind
from postroom.store import work
from postroom.store.work import WorkRequest


async def test_overdue_document_work_is_reported(visitor, database, organization, owner):
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(organization, WorkKind.PROCESS_DOCUMENT, "d")])
    await owner.execute("UPDATE work SET due_at = due_at - interval '10 minutes'")
    assert "Process document: overdue" in (await visitor.get("/health")).text


async def test_a_failing_mailbox_shows_cause_time_next_attempt_and_remedy(
    visitor, owner, database, organization, make_mailbox
):
    mailbox = await make_mailbox(organization, provider="outlook")
    await owner.execute(
        """
        UPDATE mailboxes SET health = 'provider_error', health_cause = 'server_error',
            health_since = postroom_now() - interval '7 minutes', last_error = 'Graph returned status 500.'
        WHERE id = %s
        """,
        [mailbox],
    )
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox), delay=90)])
    await owner.execute("UPDATE work SET attempts = 7, last_error = 'x'")
    text = (await visitor.get("/mailboxes")).text
    for words in (
        "Provider failing",
        "Graph returned status 500.",
        "7 min ago",
        "after 7 failed attempts",
        "next attempt in",
        "status page",
    ):
        assert words in text
    assert "fetched as it arrives" not in text


async def test_a_renewed_subscription_shows_when(visitor, owner, organization, make_mailbox):
    """S5."""
    mailbox = await make_mailbox(organization, provider="outlook")
    await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, confirmed_at,
            last_renewed_at, expires_at)
        VALUES (%s, %s, 'mail', 'https://post.example.org/', postroom_now() - interval '3 days',
            postroom_now() - interval '5 hours', postroom_now() + interval '2 days')
        """,
        [organization, mailbox],
    )
    assert "5 h ago" in (await visitor.get("/subscriptions")).text
