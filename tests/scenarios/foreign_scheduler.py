"""A foreign scheduler that shares the state of messages (K6). Its SQL is verbatim."""

import asyncio
import random

from databases import session

CHECK = """
SELECT 1 FROM bo_airflow.email_ingestion_state
WHERE app_name = 'pad_contract_notes'
  AND message_id = %s
  AND status = 'success'
"""
CLAIM = """
INSERT INTO bo_airflow.email_ingestion_state
    (app_name, message_id, mailbox_email, sender_email,
     received_at, subject, status, worker_id, created_at, updated_at)
VALUES
    ('pad_contract_notes', %s, %s, %s, %s, %s, 'processing', %s, NOW(), NOW())
ON CONFLICT (app_name, message_id) DO UPDATE SET
    status = CASE
        WHEN email_ingestion_state.status IN ('failed', 'skipped')
        THEN 'processing'
        ELSE email_ingestion_state.status
    END,
    worker_id = EXCLUDED.worker_id,
    updated_at = NOW()
WHERE email_ingestion_state.status != 'success'
RETURNING status
"""
SUCCESS = """
UPDATE bo_airflow.email_ingestion_state
SET status = 'success',
    attachments_processed = %s,
    trades_extracted = %s,
    archive_gcs_paths = %s,
    updated_at = NOW()
WHERE app_name = 'pad_contract_notes' AND message_id = %s
"""
FAILURE = """
UPDATE bo_airflow.email_ingestion_state
SET status = 'failed',
    error_message = %s,
    updated_at = NOW()
WHERE app_name = 'pad_contract_notes' AND message_id = %s
"""
# Its clock is the database's, which tests move: NOW() finds this one first.
CLOCK = """
    CREATE SCHEMA IF NOT EXISTS theirs;
    CREATE OR REPLACE FUNCTION theirs.now() RETURNS timestamptz
        LANGUAGE sql AS 'SELECT postroom.postroom_now()';
    SET search_path = theirs, pg_catalog;
"""


async def set_clock(connection) -> None:
    await connection.execute(CLOCK)


async def claim(connection, message: str, mailbox: str, worker: str = "them"):
    cursor = await connection.execute(
        CLAIM, [message, mailbox, "broker@example.com", None, "Contract note", worker]
    )
    return await cursor.fetchall()


async def has_ended(connection, message: str) -> bool:
    cursor = await connection.execute(CHECK, [message])
    return await cursor.fetchone() is not None


async def succeed(connection, message: str) -> None:
    await connection.execute(SUCCESS, [1, 1, None, message])


async def fail(connection, message: str) -> None:
    await connection.execute(FAILURE, ["now and then", message])


async def run(url: str, worker: str, mailbox: str, messages: list[str], stop: asyncio.Event) -> set[str]:
    """One of its workers until it is stopped, and what it ended. It fails, or dies and leaves its claim."""
    dice, ended = random.Random(worker), set[str]()
    async with session(url) as connection:
        await connection.execute("SET search_path = theirs, pg_catalog")
        while not stop.is_set():
            message = dice.choice(messages)
            if not await has_ended(connection, message) and await claim(connection, message, mailbox, worker):
                await asyncio.sleep(dice.random() / 10)
                match dice.choice(["success", "failure", "death", "death"]):
                    case "success":
                        await succeed(connection, message)
                        ended.add(message)
                    case "failure":
                        await fail(connection, message)
                    case _:
                        pass
            await asyncio.sleep(dice.random() / 2)
    return ended
