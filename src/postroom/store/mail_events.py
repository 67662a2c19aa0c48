"""Inserts into the table `mail_events`: observed changes of messages, once each.

A change that is reported again is not stored again. The API's queries are in `views.mail`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from postroom.model import MailboxId
from postroom.store.database import Connection


class MailEvent(NamedTuple):
    message: int
    kind: str
    version: str
    from_folder: int | None
    to_folder: int | None
    labels_added: Collection[str]
    labels_removed: Collection[str]
    changed: Mapping[str, object]


async def add(connection: Connection, mailbox: MailboxId, events: Sequence[MailEvent]) -> None:
    if not events:
        return
    rows = sorted(events, key=lambda row: (row.message, row.kind, row.version))
    await connection.execute(
        """
        INSERT INTO mail_events (organization_id, mailbox_id, message_id, kind, version, from_folder_id,
            to_folder_id, labels_added, labels_removed, changed)
        SELECT current_organization(), %b, message, kind, version, from_folder, to_folder,
            string_to_array(added, E'\\n'), string_to_array(removed, E'\\n'), changed::jsonb
        FROM unnest(%b::int8[], %b::text[], %b::text[], %b::int8[], %b::int8[], %b::text[], %b::text[],
            %b::text[]) AS input (message, kind, version, from_folder, to_folder, added, removed, changed)
        ON CONFLICT (message_id, kind, version) DO NOTHING
        """,
        [
            mailbox,
            [row.message for row in rows],
            [row.kind for row in rows],
            [row.version for row in rows],
            [row.from_folder for row in rows],
            [row.to_folder for row in rows],
            ["\n".join(sorted(row.labels_added)) for row in rows],
            ["\n".join(sorted(row.labels_removed)) for row in rows],
            [json.dumps(row.changed, sort_keys=True) if row.changed else "{}" for row in rows],
        ],
    )
