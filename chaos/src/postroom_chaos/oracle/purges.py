"""Purges: nothing is left of a purged mailbox, nor of the mail that a purged person had sent."""

from collections.abc import Iterable
from typing import LiteralString
from urllib.parse import quote

from postroom_chaos.oracle.evidence import ObservedMailbox, PurgedPerson, Violation
from postroom_chaos.oracle.sources import Sources

_REMAINS = """
    SELECT (SELECT count(*) FROM messages WHERE mailbox_id = %s) AS messages,
        (SELECT count(*) FROM threads WHERE mailbox_id = %s) AS threads,
        (SELECT count(*) FROM folders WHERE mailbox_id = %s) AS folders,
        (SELECT count(*) FROM mail_events WHERE mailbox_id = %s) AS mail_events,
        (SELECT count(*) FROM credentials WHERE mailbox_id = %s) AS credentials
"""
_MESSAGES = """
    SELECT format('message row %%s from before the purge', id) AS what FROM messages
    WHERE organization_id = %s AND lower(from_address) = lower(%s) AND received_at < %s ORDER BY id
"""
# Later mail of the same person has entries of its own, whose messages are stored.
_LEDGER = """
    SELECT format('ledger entry %%s (%%s %%s)', ledger.id, event_type, entity_id) AS what
    FROM ledger_personal
    JOIN ledger ON ledger.organization_id = ledger_personal.organization_id AND ledger.id = entry_id
    WHERE ledger.organization_id = %s AND entity_type IN ('message', 'attachment')
        AND strpos(lower(personal::text), to_json(lower(%s::text))::text) > 0
        AND NOT EXISTS (SELECT FROM messages WHERE messages.organization_id = ledger.organization_id
            AND messages.id::text = split_part(entity_id, '/', 1))
    ORDER BY ledger.id
"""
_ARCHIVE = """
    SELECT format('document %%s, archived at %%s', id, archive_path) AS what FROM documents
    WHERE organization_id = %s AND strpos(lower(archive_path), lower(%s)) > 0 AND NOT EXISTS (
        SELECT FROM arrivals WHERE arrivals.document_id = documents.id AND lower(sender) = lower(%s))
    ORDER BY id
"""


async def check_purges(sources: Sources) -> list[Violation]:
    found: list[Violation] = []
    for mailbox in sources.evidence.mailboxes:
        if mailbox.state == "purged":
            found += await _check_mailbox(sources, mailbox)
    for person in sources.evidence.purged_people:
        found += await _check_person(sources, person)
    return found


async def _check_mailbox(sources: Sources, mailbox: ObservedMailbox) -> list[Violation]:
    [remains] = await sources.rows(_REMAINS, *[mailbox.id] * 5)
    return [
        Violation(
            "purges.mailbox",
            f"mailbox {mailbox.address} ({mailbox.id})",
            f"was purged, but has {count} {table}",
        )
        for table, count in remains.items()
        if count
    ]


async def _check_person(sources: Sources, person: PurgedPerson) -> list[Violation]:
    """Look into stored mail, the personal values of the ledger, and the paths of the archive."""
    in_path = quote(person.address, safe="-_~").replace(".", "%2E")
    queries: Iterable[tuple[LiteralString, tuple[object, ...]]] = (
        (_MESSAGES, (person.organization, person.address, person.started_at)),
        (_LEDGER, (person.organization, person.address)),
        (_ARCHIVE, (person.organization, in_path, person.address)),
    )
    return [
        Violation("purges.person", f"purged person {person.address}", f"still named by {row['what']}")
        for query, parameters in queries
        for row in await sources.rows(query, *parameters)
    ]
