"""K6: claims in the shared table, beside a scheduler that runs its own exact statements."""

import asyncio
import random

import pytest

import databases
from databases import session
from postroom.store import shared_state
from postroom.store.shared_state import SharedClaim, SharedMessageDetails, SharedStateKey
from scenarios import foreign_scheduler

APP = "pad_contract_notes"
MAIL = SharedMessageDetails("notes@example.org", "broker@example.com", None, "Contract note")


@pytest.fixture
async def database(database_url, organization, make_mailbox):
    await make_mailbox(organization, provider="outlook", address=MAIL.mailbox_email)
    async with databases.open_pools(database_url) as opened:
        yield opened


@pytest.fixture
def ours(database, organization):
    async def act(what, message, worker="us", **options):
        async with database.transaction(organization) as connection:
            return await what(connection, SharedStateKey(APP, message), worker, **options)

    return act


@pytest.fixture
def claim(database, organization):
    async def claim(message, worker="us", stale=3600):
        async with database.transaction(organization) as connection:
            return await shared_state.claim(
                connection, SharedStateKey(APP, message), MAIL, worker, stale_seconds=stale
            )

    return claim


async def their_claim(connection, message, worker="them"):
    cursor = await connection.execute(
        foreign_scheduler.CLAIM,
        [message, MAIL.mailbox_email, "broker@example.com", None, "Contract note", worker],
    )
    return await cursor.fetchall()


async def row(owner, message):
    cursor = await owner.execute(
        "SELECT status, worker_id FROM bo_airflow.email_ingestion_state WHERE message_id = %s", [message]
    )
    return await cursor.fetchone()


SUCCESS = {"attachments": 2, "records": 1, "archive_paths": ["archive/a.pdf"]}


async def test_free_message_is_claimed_and_finished_in_the_schedulers_terms(owner, claim, ours):
    assert await claim("m") is SharedClaim.CLAIMED
    assert await row(owner, "m") == ("processing", "us")
    assert await claim("m") is SharedClaim.CLAIMED, "and shows that we are still at it"
    assert await ours(shared_state.succeed, "m", **SUCCESS)
    cursor = await owner.execute(
        """
        SELECT mailbox_email, sender_email, status, attachments_processed, trades_extracted, archive_gcs_paths
        FROM bo_airflow.email_ingestion_state
        """
    )
    assert await cursor.fetchall() == [
        ("notes@example.org", "broker@example.com", "success", 2, 1, ["archive/a.pdf"])
    ]
    assert await claim("m") is SharedClaim.DONE_BY_US
    assert await claim("m", "another of us") is SharedClaim.DONE_BY_OTHER
    cursor = await owner.execute(foreign_scheduler.CHECK, ["m"])
    assert await cursor.fetchall() == [(1,)]
    assert await their_claim(owner, "m") == []


async def test_message_held_by_the_scheduler_is_not_claimed_until_stale(owner, claim, move_clock):
    await their_claim(owner, "m")
    assert await claim("m") is SharedClaim.HELD_BY_OTHER
    assert await row(owner, "m") == ("processing", "them")
    await move_clock(3700)
    assert await claim("m") is SharedClaim.CLAIMED
    assert await claim("m", "another of us") is SharedClaim.HELD_BY_OTHER


async def test_own_claim_is_renewed_after_a_crash(claim):
    assert await claim("m") is SharedClaim.CLAIMED
    assert await claim("m") is SharedClaim.CLAIMED


@pytest.mark.parametrize("status", ["failed", "skipped"])
async def test_failed_or_skipped_message_can_be_claimed(owner, claim, ours, status):
    await claim("m")
    assert await (
        ours(shared_state.fail, "m", error="no text") if status == "failed" else ours(shared_state.skip, "m")
    )
    assert await row(owner, "m") == (status, "us")
    assert await claim("m", "another of us") is SharedClaim.CLAIMED


async def test_row_taken_by_the_scheduler_is_left_to_it(owner, claim, ours):
    await claim("m")
    assert await their_claim(owner, "m") == [("processing",)]  # their statement lets two own one row
    assert not await ours(shared_state.succeed, "m", **SUCCESS)
    assert not await ours(shared_state.fail, "m", error="late")
    assert await row(owner, "m") == ("processing", "them")
    await owner.execute(foreign_scheduler.FAILURE, ["their reason", "m"])
    assert await claim("m") is SharedClaim.CLAIMED


async def we(claim, ours, worker, messages):
    """One of us, until all is done."""
    dice = random.Random(worker)
    open_ = set(messages)
    while open_:
        message = dice.choice(sorted(open_))
        found = await claim(message, worker)
        if found in {SharedClaim.DONE_BY_OTHER, SharedClaim.DONE_BY_US}:
            open_.discard(message)
        elif found is SharedClaim.CLAIMED:
            await asyncio.sleep(dice.random() / 100)
            await ours(shared_state.succeed, message, worker, **SUCCESS)


async def they(database_url, worker, messages):
    """One of them: fails now and then, and takes what others are processing."""
    dice = random.Random(worker)
    open_ = set(messages)
    async with session(database_url) as connection:
        while open_:
            message = dice.choice(sorted(open_))
            cursor = await connection.execute(foreign_scheduler.CHECK, [message])
            if await cursor.fetchone() or not await their_claim(connection, message, worker):
                open_.discard(message)
                continue
            await asyncio.sleep(dice.random() / 100)
            if dice.random() < 0.5:
                await connection.execute(foreign_scheduler.FAILURE, ["now and then", message])
            else:
                await connection.execute(foreign_scheduler.SUCCESS, [1, 1, None, message])
                open_.discard(message)


async def test_every_message_finishes_beside_the_scheduler(database_url, owner, claim, ours):
    messages = [f"m{number}" for number in range(12)]
    await asyncio.gather(
        we(claim, ours, "us 1", messages),
        we(claim, ours, "us 2", messages),
        they(database_url, "them 1", messages),
        they(database_url, "them 2", messages),
    )
    cursor = await owner.execute("SELECT status, count(*) FROM bo_airflow.email_ingestion_state GROUP BY 1")
    assert await cursor.fetchall() == [("success", len(messages))]


async def test_schedulers_late_failure_reopens_our_finished_message(owner, claim, ours, move_clock):
    """Their last statement checks no owner, so the table alone cannot prevent processing again."""
    await their_claim(owner, "m")
    await move_clock(3700)
    assert await claim("m") is SharedClaim.CLAIMED
    assert await ours(shared_state.succeed, "m", **SUCCESS)
    await owner.execute(foreign_scheduler.FAILURE, ["too late", "m"])
    assert await claim("m") is SharedClaim.CLAIMED
    assert await ours(shared_state.succeed, "m", **SUCCESS)
