"""Whether the store mirrors a simulated mailbox: row by row against the truth, after any scenario."""

from collections import Counter
from datetime import UTC, datetime

from postroom.model import MailboxId
from simulator.driver import Simulation

_MESSAGES = b"""
    SELECT provider_message_id, provider_thread_id, provider_folder_id, messages.labels, is_read, is_flagged,
        is_draft, importance, categories, received_at, messages.subject, encode(raw_sha256, 'hex'),
        coalesce((
            SELECT jsonb_agg(jsonb_build_array(part, encode(sha256, 'hex'), is_inline, kind))
            FROM attachments WHERE message_id = messages.id
        ), '[]')
    FROM messages
    JOIN threads ON threads.organization_id = messages.organization_id AND threads.id = thread_id
    LEFT JOIN folders ON folders.organization_id = messages.organization_id AND folders.id = folder_id
    WHERE messages.mailbox_id = %s AND messages.deleted_at IS NULL
"""
# How many of what is compared is about a message, and not in it.
_ABOUT = {"gmail": 5, "outlook": 7}
_THREADS = b"""
    SELECT provider_thread_id, message_count, first_message_at, last_message_at, labels
    FROM threads WHERE mailbox_id = %s AND message_count > 0
"""


async def assert_mirrors(
    owner,
    sim: Simulation,
    address: str,
    mailbox: MailboxId,
    *,
    since: datetime | None = None,
    failed=(),
    whole: bool = True,
) -> int:
    """Compare everything; how many messages there are. `since`: how far back the mailbox is mirrored.

    `failed`: ids of messages that are known to fail alone, and are open failures instead. Not `whole`: the
    policy keeps neither messages as they came nor attachments.
    """
    await assert_nothing_is_due(owner, mailbox)
    provider = sim.get(f"mailboxes/{address}")["mailbox"]["provider"]
    truth = {
        each["id"]: each
        for each in sim.truth(address)
        if _is_mirrored(provider, each, since) and each["id"] not in failed
    }
    rows = {row[0]: row for row in await _all(owner, _MESSAGES, mailbox)}
    assert set(rows) == set(truth), _difference(set(rows), set(truth))
    for key, row in rows.items():
        compare = _compare_gmail if provider == "gmail" else _compare_outlook
        kept, there = compare(row), _expected(provider, truth[key])
        if not whole:
            kept, there = kept[: _ABOUT[provider]], there[: _ABOUT[provider]]
        assert kept == there, key
    await _assert_threads(owner, mailbox, truth)
    await assert_recorded_once(owner, mailbox)
    await _assert_failures(owner, mailbox, failed)
    return len(rows)


async def assert_nothing_is_due(owner, mailbox: MailboxId) -> None:
    """All listings are at their end, so that the store is meant to be complete."""
    left = await _all(
        owner,
        b"""
        SELECT kind, scope FROM cursors WHERE mailbox_id = %s
            AND (kind IN ('resync', 'refill') OR kind = 'backfill' AND completed_at IS NULL)
        """,
        mailbox,
    )
    assert left == []


async def assert_recorded_once(owner, mailbox: MailboxId) -> None:
    """One ledger entry and one event say that a message came; one entry for each attachment that is kept."""
    for query in (
        b"""
        SELECT messages.id FROM messages WHERE mailbox_id = %s AND 1 <> (
            SELECT count(*) FROM ledger WHERE ledger.organization_id = messages.organization_id
            AND event_type = 'MESSAGE_INGESTED' AND entity_type = 'message' AND entity_id = messages.id::text)
        """,
        b"""
        SELECT messages.id FROM messages WHERE mailbox_id = %s AND (
            SELECT count(*) FROM mail_events WHERE message_id = messages.id AND kind = 'created'
        ) <> 1 + (
            SELECT count(*) FROM mail_events WHERE message_id = messages.id AND kind = 'deleted'
        ) - (deleted_at IS NOT NULL)::int
        """,
        b"""
        SELECT message_id, part FROM attachments JOIN messages ON messages.id = message_id
        WHERE mailbox_id = %s AND attachments.sha256 IS NOT NULL AND NOT EXISTS (
            SELECT FROM ledger WHERE ledger.organization_id = attachments.organization_id
            AND event_type = 'ATTACHMENT_SAVED' AND entity_id = message_id || '/' || part
            AND payload ->> 'sha256' = encode(attachments.sha256, 'hex'))
        """,
        b"""
        SELECT messages.id FROM messages WHERE mailbox_id = %s AND NOT EXISTS (
            SELECT FROM events WHERE events.organization_id = messages.organization_id
            AND events.kind = 'message.created' AND entity_id = messages.id::text)
        """,
    ):
        assert await _all(owner, query, mailbox) == []


async def _assert_threads(owner, mailbox: MailboxId, truth: dict[str, dict]) -> None:
    rows = {row[0]: row[1:] for row in await _all(owner, _THREADS, mailbox)}
    counts = Counter(each["thread"] for each in truth.values())
    assert {key: row[0] for key, row in rows.items()} == counts
    drafted = {each["thread"] for each in truth.values() if each["draft"]}  # Graph dates no draft
    for key, (_, first, last, _) in rows.items():
        if key in drafted:
            continue
        moments = [_moment(each) for each in truth.values() if each["thread"] == key]
        assert (first, last) == (_rounded(min(moments), first), _rounded(max(moments), last))


async def _assert_failures(owner, mailbox: MailboxId, failed) -> None:
    rows = await _all(
        owner, b"SELECT subject FROM failures WHERE mailbox_id = %s AND resolved_at IS NULL", mailbox
    )
    assert {row[0] for row in rows} == set(failed)


def _is_mirrored(provider: str, each: dict, since: datetime | None) -> bool:
    """Graph dates no draft, and what has no date is mirrored."""
    undated = provider == "outlook" and each["draft"]
    return since is None or undated or _moment(each) >= since


def _expected(provider: str, each: dict) -> tuple:
    place = frozenset(each["folders"]) if provider == "gmail" else each["folders"][0]
    plain = (each["thread"], place, each["read"], each["flag"] == "flagged", each["draft"])
    own = [part for part in each.get("attachments", []) if not part.get("nested", False)]
    if provider == "gmail":
        return (*plain, each["sha256"], sorted((part["part"], part["sha256"]) for part in own))
    kept = sorted(part["sha256"] for part in own if part["content_type"] != "message/rfc822")
    return (*plain, each["importance"], frozenset(each["categories"]), kept)


def _compare_gmail(row: tuple) -> tuple:
    attachments = sorted((part, sha256) for part, sha256, _, _ in row[12])
    return row[1], frozenset(row[3]), row[4], row[5], row[6], row[11], attachments


def _compare_outlook(row: tuple) -> tuple:
    kept = sorted(sha256 for _, sha256, _, kind in row[12] if kind == "file")
    return row[1], row[2], row[4], row[5], row[6], row[7], frozenset(row[8]), kept


def _moment(each: dict) -> datetime:
    return datetime.fromtimestamp(each["received"] / 1000, UTC)


def _rounded(moment: datetime, like: datetime) -> datetime:
    """Graph returns whole seconds."""
    return moment.replace(microsecond=0) if like.microsecond == 0 else moment


def _difference(stored: set[str], there: set[str]) -> str:
    return f"missing: {sorted(there - stored)[:10]}, too many: {sorted(stored - there)[:10]}"


async def _all(owner, query: bytes, *parameters) -> list[tuple]:
    return await (await owner.execute(query, parameters)).fetchall()
