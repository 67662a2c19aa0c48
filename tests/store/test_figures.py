"""The figures of the overview: each equals plain SQL over its interval, and the past does not change."""

from datetime import timedelta

import pytest

from postroom.store import backlogs, figures
from store.table_filler import TableFiller

MINUTE = timedelta(minutes=1)
STEPS = [(MINUTE, 60), (timedelta(minutes=15), 96), (timedelta(hours=1), 168), (timedelta(hours=6), 120)]


@pytest.fixture
async def busy_month(owner, organization):
    """Two thousand messages over a month, most of them recent, with growing latency; and quota use."""
    filling = TableFiller(owner, organization)
    await filling.fill()
    message = filling.whole["messages"]
    await owner.execute("DELETE FROM figures")
    await owner.execute("UPDATE mailboxes SET connected_at = now() - interval '60 days'")
    await owner.execute("UPDATE messages SET created_at = now() - interval '50 days'")
    await owner.execute(
        """
        INSERT INTO messages
            (organization_id, mailbox_id, thread_id, provider_message_id, created_at, received_at)
        SELECT %s, %s, %s, 'busy' || number, moment, moment - number * interval '1 second'
        FROM generate_series(1, 2000) AS number
        CROSS JOIN LATERAL (SELECT now() - interval '30 days' * (number / 2000.0) ^ 4 AS moment)
        """,
        [organization, message["mailbox_id"], message["thread_id"]],
    )
    return filling


async def read(database, organization, step, count):
    async with database.transaction(organization) as connection:
        return await figures.read(connection, step, count)


async def count_messages(owner, interval, step):
    """Number, median latency and p99 of the messages of an interval, by plain SQL."""
    cursor = await owner.execute(
        """
        SELECT count(*), percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY
            extract(epoch FROM created_at - received_at)::float8)
        FROM messages WHERE created_at >= %s AND created_at < %s
        """,
        [interval.start, interval.start + step],
    )
    [[count, latencies]] = await cursor.fetchall()
    return (count, *(latencies or (None, None)))


@pytest.mark.parametrize("step, count", STEPS)
async def test_recorded_and_current_figures_equal_plain_sql(
    database, owner, organization, busy_month, step, count
):
    before = await read(database, organization, step, count)
    await figures.record(database)
    intervals = await read(database, organization, step, count)
    assert [each.start for each in intervals] == [
        intervals[0].start + number * step for number in range(count)
    ]
    for each in intervals:
        shown = (each.messages, each.latency_median, each.latency_p99)
        assert shown == await count_messages(owner, each, step)
    assert sum(each.messages > 0 for each in intervals) > 3
    # Measured and recorded figures are the same; a new interval may have begun in between.
    recorded = {each.start: each for each in intervals}
    assert all(recorded[each.start] == each for each in before[:-1] if each.start in recorded)


async def test_the_past_does_not_change(database, owner, organization, busy_month):
    await figures.record(database)
    day = timedelta(hours=1), 168
    before = await read(database, organization, *day)
    await owner.execute("DELETE FROM messages WHERE provider_message_id LIKE 'busy%%'")
    await figures.record(database)
    after = {each.start: each for each in await read(database, organization, *day)}
    assert sum(each.messages for each in before[:-1]) > 0
    assert all(after[each.start] == each for each in before[:-2] if each.start in after)


async def test_mail_from_before_the_connection_has_no_latency(database, owner, organization, busy_month):
    await owner.execute("UPDATE mailboxes SET connected_at = now()")
    intervals = await read(database, organization, MINUTE, 60)
    assert sum(each.messages for each in intervals) > 0
    assert {each.latency_median for each in intervals} == {None}


async def test_open_documents_and_due_work_are_those_at_the_end_of_an_interval(
    database, owner, organization, busy_month
):
    await owner.execute("DELETE FROM backlogs")
    await owner.execute("UPDATE quota_usage SET share = 0.4, minute = now() - interval '10 min'")
    await owner.execute(
        "UPDATE reviews SET created_at = now() - interval '20 min', decided_at = now() - interval '10 min',"
        " decision = 'confirmed'"
    )
    await owner.execute(
        "UPDATE documents SET state = 'completed', created_at = now() - interval '30 min',"
        " state_since = now() - interval '9 min'"
    )
    await owner.execute("UPDATE work SET due_at = now() - interval '1 min', leased_until = NULL")
    await backlogs.record(database)
    for _ in range(2):
        intervals = await read(database, organization, MINUTE, 60)
        assert max(each.quota for each in intervals) == 0.4
        assert 9 <= sum(each.reviews for each in intervals) <= 11
        assert 9 <= sum(each.unprocessed for each in intervals) <= 11  # until the first review
        assert intervals[-1].reviews == intervals[-1].unprocessed == 0
        assert max(each.due for each in intervals) == 1
        await figures.record(database)


async def test_two_recorders_record_each_interval_once(database, owner, organization, busy_month):
    async with database.engine() as first, first.transaction():
        await first.execute("SELECT record_figures()")
        async with database.engine() as second:  # finds the steps locked, and waits for nothing
            cursor = await second.execute("SELECT record_figures()")
            assert await cursor.fetchone() == (False,)
    await figures.record(database)
    [[rows]] = await (await owner.execute("SELECT count(*) FROM figures")).fetchall()
    assert rows > 0


async def test_old_figures_are_deleted(database, owner, organization, busy_month):
    await figures.record(database)
    await owner.execute("UPDATE figures SET start = start - interval '1 year'")
    await owner.execute("UPDATE figure_steps SET recorded_until = recorded_until - step")
    await figures.record(database)
    [[old]] = await (
        await owner.execute("SELECT count(*) FROM figures WHERE start < now() - interval '60 days'")
    ).fetchall()
    assert old == 0


async def test_another_organization_sees_none(database, other_organization, busy_month):
    await figures.record(database)
    intervals = await read(database, other_organization, *STEPS[-1])
    assert sum(each.messages for each in intervals) == 0
