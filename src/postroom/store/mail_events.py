"""Inserts into the table `mail_events`: the history of each message, one numbered row per change.

A message's events are numbered without gaps by `revision`; `messages.revision` is the number of the last one.
The page that observes a change locks the mailbox's sync work, compares the change with the stored row, and
writes row and events together. So a repeated observation is no change and has no event, and every change has
one. The API's queries are in `views.mail`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from postroom.model import MailboxId
from postroom.store.database import Connection


class MailEvent(NamedTuple):
    """One change. `version` is the provider's, or that of the change before if the provider named none."""

    message: int
    revision: int
    kind: str
    version: str
    from_folder: int | None
    to_folder: int | None
    labels_added: Collection[str]
    labels_removed: Collection[str]
    changed: Mapping[str, object]


async def add(connection: Connection, mailbox: MailboxId, events: Sequence[MailEvent]) -> None:
    """Append events. The revision makes their versions distinct, so that none replaces another."""
    if not events:
        return
    rows = sorted(events, key=lambda row: (row.message, row.revision))
    await connection.execute(
        """
        INSERT INTO mail_events (organization_id, mailbox_id, message_id, revision, kind, version,
            from_folder_id, to_folder_id, labels_added, labels_removed, changed)
        SELECT current_organization(), %b, message, revision, kind, version || '#' || revision, from_folder,
            to_folder, string_to_array(added, E'\\n'), string_to_array(removed, E'\\n'), changed::jsonb
        FROM unnest(%b::int8[], %b::int4[], %b::text[], %b::text[], %b::int8[], %b::int8[], %b::text[],
            %b::text[], %b::text[]) WITH ORDINALITY AS input (message, revision, kind, version, from_folder,
            to_folder, added, removed, changed, place)
        ORDER BY place
        """,
        [
            mailbox,
            [row.message for row in rows],
            [row.revision for row in rows],
            [row.kind for row in rows],
            [row.version for row in rows],
            [row.from_folder for row in rows],
            [row.to_folder for row in rows],
            ["\n".join(sorted(row.labels_added)) for row in rows],
            ["\n".join(sorted(row.labels_removed)) for row in rows],
            [json.dumps(row.changed, sort_keys=True) if row.changed else "{}" for row in rows],
        ],
    )
    await _record_revisions(connection, {row.message: row.revision for row in rows if row.revision > 1})


async def _record_revisions(connection: Connection, revisions: Mapping[int, int]) -> None:
    """Write the last revision of changed messages. That of a new message was inserted with it."""
    if revisions:
        await connection.execute(
            """
            UPDATE messages SET revision = input.revision
            FROM unnest(%b::int8[], %b::int4[]) AS input (id, revision) WHERE messages.id = input.id
            """,
            [list(revisions), list(revisions.values())],
        )
