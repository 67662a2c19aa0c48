"""Full-text search over messages and documents, for pages and commands. The API and lists do not rank.

Matches are personal data: never log them. Queries use web search syntax: `invoice "due date" -draft`; a word
of three characters or more also finds words that begin with it. A message is found by its subject, people,
text and names of attachments, a document also by the names it arrived with, its supplier and its number.
Only the newest matches are ranked, so that a common word costs little more than a rare one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from postroom.store.database import Connection
from postroom.store.lists import list_reading
from postroom.store.lists.documents import DOCUMENTS
from postroom.store.lists.list_definition import ALL, ListDefinition, ListQuery
from postroom.store.lists.messages import MESSAGES

MAX_RANKED: Final = 1_000
# They enclose each matching word of a headline. The text itself has none: they are removed from it first.
_BEGIN: Final = "\ue000"
_END: Final = "\ue001"
_OPTIONS: Final = f"StartSel={_BEGIN}, StopSel={_END}, MaxWords=30, MinWords=12, ShortWord=0"

# Pieces of text, and whether each matches the query.
Headline = Sequence[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class MessageMatch:
    id: int
    mailbox_id: UUID
    thread_id: int
    subject: str | None
    from_name: str | None
    from_address: str | None
    received_at: datetime | None
    has_attachments: bool
    rank: float
    headline: Headline


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    id: UUID
    pipeline: str
    kind: str | None
    state: str
    file_name: str | None
    sender: str | None
    created_at: datetime
    rank: float
    headline: Headline


async def search_messages(
    connection: Connection, words: str, *, mailbox: UUID | None = None, limit: int = 20, offset: int = 0
) -> list[MessageMatch]:
    """Search messages, the best matches first. Deleted messages do not match."""
    chosen = {"q": words} if mailbox is None else {"q": words, "mailbox": str(mailbox)}
    cursor = await connection.execute(
        _MESSAGES,
        {
            "words": words,
            "marked": await _list_marked_words(connection, words),
            "newest": await _find_newest(connection, MESSAGES, chosen),
            "limit": limit,
            "offset": offset,
            "options": _OPTIONS,
            "marks": _BEGIN + _END,
        },
    )
    return [MessageMatch(*row, headline=parse_headline(marked)) for *row, marked in await cursor.fetchall()]


# Headlines are built only for the returned rows, not for all ranked ones.
_MESSAGES = """
    WITH parsed AS MATERIALIZED (
        SELECT prefix_query(%(words)s) AS query
    ), best AS MATERIALIZED (
        SELECT message_id, ts_rank(search, parsed.query) AS rank
        FROM message_contents CROSS JOIN parsed WHERE message_id = ANY(%(newest)s)
    ), shown AS MATERIALIZED (
        SELECT messages.id, mailbox_id, thread_id, subject, from_name, from_address, received_at,
            has_attachments, rank, snippet
        FROM best JOIN messages ON messages.id = message_id
        ORDER BY rank DESC, received_at DESC NULLS LAST, messages.id DESC LIMIT %(limit)s OFFSET %(offset)s
    )
    SELECT shown.id, mailbox_id, thread_id, subject, from_name, from_address, received_at, has_attachments,
        rank, ts_headline('simple',
            translate(searchable_text(coalesce(nullif(body_plain, ''), snippet), 20000), %(marks)s, ''),
            %(marked)s::tsquery, %(options)s)
    FROM shown JOIN message_contents ON message_id = shown.id
    ORDER BY rank DESC, received_at DESC NULLS LAST, shown.id DESC
"""


async def search_documents(
    connection: Connection, words: str, *, limit: int = 20, offset: int = 0
) -> list[DocumentMatch]:
    """Search documents, the best matches first, with file name and sender of the first arrival."""
    cursor = await connection.execute(
        _DOCUMENTS,
        {
            "words": words,
            "marked": await _list_marked_words(connection, words),
            "newest": await _find_newest(connection, DOCUMENTS, {"q": words, "state": ALL}),
            "limit": limit,
            "offset": offset,
            "options": _OPTIONS,
            "marks": _BEGIN + _END,
        },
    )
    return [DocumentMatch(*row, headline=parse_headline(marked)) for *row, marked in await cursor.fetchall()]


_DOCUMENTS = """
    WITH parsed AS MATERIALIZED (
        SELECT prefix_query(%(words)s) AS query
    ), shown AS MATERIALIZED (
        SELECT documents.id, pipeline, kind, state, documents.created_at,
            ts_rank(coalesce(transcripts.search, '') || documents.search, parsed.query) AS rank, text
        FROM documents LEFT JOIN transcripts ON document_id = documents.id CROSS JOIN parsed
        WHERE documents.id = ANY(%(newest)s)
        ORDER BY rank DESC, documents.created_at DESC, documents.id LIMIT %(limit)s OFFSET %(offset)s
    )
    SELECT shown.id, pipeline, kind, state, file_name, sender, created_at, rank,
        ts_headline('simple', translate(searchable_text(text, 20000), %(marks)s, ''),
            %(marked)s::tsquery, %(options)s)
    FROM shown
    LEFT JOIN LATERAL (
        SELECT file_name, sender FROM arrivals WHERE document_id = shown.id ORDER BY arrivals.id LIMIT 1
    ) AS arrival ON true
    ORDER BY rank DESC, created_at DESC, shown.id
"""


async def _list_marked_words(connection: Connection, words: str) -> str:
    """The distinct words of a query, as a query: what a headline marks.

    Marking the query itself costs half a second for each text, if both repeat the same words.
    """
    cursor = await connection.execute(
        """
        SELECT coalesce(string_agg(DISTINCT word[1], ' | '), '')
        FROM regexp_matches(querytree(prefix_query(%s)), $$'(?:[^']|'')+'(?::\\*)?$$, 'g') AS word
        """,
        [words],
    )
    row = await cursor.fetchone()
    return row[0] if row else ""


async def _find_newest(
    connection: Connection, definition: ListDefinition, values: Mapping[str, str]
) -> list[Any]:
    """The newest matches, as the list of messages or documents finds them."""
    query = await list_reading.search(
        connection, ListQuery(definition, values, definition.sorts[0], is_descending=True)
    )
    ids, _ = await list_reading.read_ids(connection, query, MAX_RANKED)
    return ids


async def has_words(connection: Connection, words: str) -> bool:
    """Whether the query has a positive term. Punctuation and excluded words alone match nothing."""
    cursor = await connection.execute("SELECT querytree(prefix_query(%s))", [words])
    row = await cursor.fetchone()
    return row is not None and row[0] not in {"", "T"}


def parse_headline(marked: str) -> Headline:
    """Split a marked headline into its pieces."""
    pieces: list[tuple[str, bool]] = []
    for part in marked.split(_BEGIN):
        match, end, rest = part.partition(_END)
        if end:
            pieces.append((match, True))
        pieces.append((rest if end else part, False))
    return tuple(piece for piece in pieces if piece[0])


async def index_file_names(connection: Connection, *, after: int, limit: int) -> int | None:
    """Add attachment names to the next messages that lack them; the last id, or None if there are no more."""
    cursor = await connection.execute(
        """
        WITH named AS MATERIALIZED (
            SELECT message_id, string_agg(file_name, ' ' ORDER BY part) AS names FROM attachments
            WHERE message_id IN (
                SELECT DISTINCT message_id FROM attachments
                WHERE message_id > %(after)s AND file_name <> '' ORDER BY message_id LIMIT %(limit)s
            ) GROUP BY message_id
        ), locked AS MATERIALIZED (
            SELECT contents.message_id, names FROM message_contents AS contents JOIN named USING (message_id)
            WHERE ts_filter(search, '{c}') = '' ORDER BY contents.message_id FOR UPDATE OF contents
        ), indexed AS (
            UPDATE message_contents AS contents SET search = contents.search || file_name_search(names)
            FROM locked WHERE contents.message_id = locked.message_id
        )
        SELECT max(message_id) FROM named
        """,
        {"after": after, "limit": limit},
    )
    row = await cursor.fetchone()
    return row[0] if row else None
