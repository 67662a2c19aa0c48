"""Whether the store equals the provider: messages, folders, labels, flags, threads, row by row."""

from collections import defaultdict
from collections.abc import Iterator

from postroom_chaos.oracle.evidence import ObservedMailbox, Violation
from postroom_chaos.oracle.expectation import Expectation, expect
from postroom_chaos.oracle.mail_content import compare_content
from postroom_chaos.oracle.sources import RemoteMailbox, RemoteMessage, Row, Sources

_MESSAGES = """
    SELECT messages.id, provider_message_id, provider_thread_id, provider_folder_id, messages.labels,
        categories, is_read, is_flagged, is_draft, importance, received_at, messages.subject,
        from_address, messages.snippet, encode(raw_sha256, 'hex') AS raw_sha256, messages.deleted_at,
        threads.id AS thread_id, headers IS NOT NULL AS has_headers, body_plain, body_html,
        message_contents.message_id AS content_id
    FROM messages
    JOIN threads ON threads.organization_id = messages.organization_id AND threads.id = thread_id
    LEFT JOIN folders ON folders.organization_id = messages.organization_id AND folders.id = folder_id
    LEFT JOIN message_contents ON message_contents.organization_id = messages.organization_id
        AND message_contents.message_id = messages.id
    WHERE messages.mailbox_id = %s
"""
_ATTACHMENTS = """
    SELECT message_id, part, attachments.kind, file_name, encode(sha256, 'hex') AS sha256, is_inline
    FROM attachments JOIN messages
        ON messages.organization_id = attachments.organization_id AND messages.id = message_id
    WHERE mailbox_id = %s ORDER BY message_id, part
"""
_THREADS = """
    SELECT id, provider_thread_id, message_count, first_message_at, last_message_at, labels, snippet
    FROM threads WHERE mailbox_id = %s
"""


async def check_mail(sources: Sources) -> list[Violation]:
    found: list[Violation] = []
    for mailbox in sources.evidence.mailboxes:
        if mailbox.state == "mirrored":
            found += await _check_mirrored(sources, mailbox)
    return found


async def _check_mirrored(sources: Sources, mailbox: ObservedMailbox) -> list[Violation]:
    remote = await sources.remote(mailbox)
    rows = await sources.rows(_MESSAGES, mailbox.id)
    attachments: dict[int, list[Row]] = defaultdict(list)
    for attachment in await sources.rows(_ATTACHMENTS, mailbox.id):
        attachments[attachment["message_id"]].append(attachment)
    live = {row["provider_message_id"]: row for row in rows if row["deleted_at"] is None}
    deleted = {row["provider_message_id"]: row for row in rows if row["deleted_at"] is not None}
    found = list(_compare_presence(sources, mailbox, remote, live, deleted))
    for key, row in live.items():
        if (message := remote.messages.get(key)) is not None:
            found += _compare_state(mailbox, message, row)
            found += compare_content(mailbox, message, row, attachments[row["id"]])
    found += _compare_threads(mailbox, remote, live, await sources.rows(_THREADS, mailbox.id))
    found += await _compare_folders(sources, mailbox, remote)
    found += await _check_failures(sources, mailbox)
    return found


def name_message(mailbox: ObservedMailbox, key: str, row: Row | None = None) -> str:
    stored = f", row {row['id']}" if row else ""
    return f"mailbox {mailbox.address} ({mailbox.id}), message {key}{stored}"


def _compare_presence(
    sources: Sources,
    mailbox: ObservedMailbox,
    remote: RemoteMailbox,
    live: dict[str, Row],
    deleted: dict[str, Row],
) -> Iterator[Violation]:
    for key, message in remote.messages.items():
        expected = expect(sources.evidence, mailbox, message)
        if expected is Expectation.REQUIRED and key not in live:
            where = "its row is marked deleted" if key in deleted else "there is no row"
            received = message.received_at.isoformat()
            yield Violation(
                "mail.missing",
                name_message(mailbox, key, deleted.get(key)),
                f"number {message.number}, received {received}, in {message.keys}: {where}",
            )
        elif expected is Expectation.FORBIDDEN and key in live:
            yield Violation(
                "mail.forbidden",
                name_message(mailbox, key, live[key]),
                "is stored, but is purged, expired or out of scope",
            )
    for key, row in live.items():
        if key not in remote.messages:
            yield Violation(
                "mail.extra",
                name_message(mailbox, key, row),
                "is stored, but not at the provider (deleted there, or never was there)",
            )


def _compare_state(mailbox: ObservedMailbox, message: RemoteMessage, row: Row) -> Iterator[Violation]:
    def compare(check: str, expected: object, stored: object) -> Iterator[Violation]:
        if expected != stored:
            subject = name_message(mailbox, message.id, row)
            yield Violation(check, subject, f"the provider has {expected!r}, the store {stored!r}")

    yield from compare("mail.thread", message.thread, row["provider_thread_id"])
    if mailbox.provider == "gmail":
        yield from compare("mail.labels", sorted(message.folders), sorted(row["labels"]))
        yield from compare("mail.received", message.received_at, row["received_at"])
    else:
        yield from compare("mail.folder", message.folders[0], row["provider_folder_id"])
        yield from compare("mail.categories", sorted(message.categories), sorted(row["categories"]))
        yield from compare("mail.importance", message.importance, row["importance"])
        # Graph has whole seconds.
        yield from compare("mail.received", message.received_at.replace(microsecond=0), row["received_at"])
    for flag in ("is_read", "is_flagged", "is_draft"):
        yield from compare("mail.flags", f"{flag}={getattr(message, flag)}", f"{flag}={row[flag]}")
    if message.has_clear_sender:
        yield from compare("mail.sender", message.sender, row["from_address"])
    yield from compare("mail.subject", _squeeze(message.subject), _squeeze(row["subject"] or ""))


def _squeeze(text: str) -> str:
    return " ".join(text.replace("\0", "").split())


def _compare_threads(
    mailbox: ObservedMailbox, remote: RemoteMailbox, live: dict[str, Row], threads: list[Row]
) -> Iterator[Violation]:
    """Totals of a thread are those of its live messages, whose threads were compared one by one."""
    members: dict[int, list[Row]] = defaultdict(list)
    for row in live.values():
        members[row["thread_id"]].append(row)
    for thread in threads:
        inside = members[thread["id"]]
        moments = [row["received_at"] for row in inside if row["received_at"] is not None]
        expected = {
            "message_count": len(inside),
            "first_message_at": min(moments, default=None),
            "last_message_at": max(moments, default=None),
            "labels": sorted({label for row in inside for label in row["labels"]}),
        }
        stored = {name: thread[name] for name in expected} | {"labels": sorted(thread["labels"])}
        subject = f"mailbox {mailbox.address} ({mailbox.id}), thread {thread['provider_thread_id']}"
        if expected != stored:
            text = f"its messages amount to {expected}, the thread says {stored}"
            yield Violation("mail.thread_totals", f"{subject}, row {thread['id']}", text)
        if mailbox.policy != "full" and thread["snippet"] is not None:
            text = f"the policy {mailbox.policy} stores no snippet, but there is one"
            yield Violation("mail.policy", f"{subject}, row {thread['id']}", text)
    del remote


async def _compare_folders(
    sources: Sources, mailbox: ObservedMailbox, remote: RemoteMailbox
) -> list[Violation]:
    rows = await sources.rows(
        "SELECT provider_folder_id, parent_provider_id, name FROM folders"
        " WHERE mailbox_id = %s AND deleted_at IS NULL",
        mailbox.id,
    )
    stored = {row["provider_folder_id"]: row["name"] for row in rows}
    root = {each.id for each in remote.folders.values() if each.key == "msgfolderroot"}
    there = {
        each.id: each.name for each in remote.folders.values() if not each.is_search and each.id not in root
    }
    return [
        Violation(
            "mail.folders",
            f"mailbox {mailbox.address} ({mailbox.id}), folder {key}",
            f"the provider has {there.get(key)!r}, the store {stored.get(key)!r}",
        )
        for key in sorted(there.keys() | stored.keys())
        if there.get(key) != stored.get(key)
    ]


async def _check_failures(sources: Sources, mailbox: ObservedMailbox) -> list[Violation]:
    subject = f"mailbox {mailbox.address} ({mailbox.id})"
    failures = await sources.rows(
        "SELECT kind, subject, last_error FROM failures WHERE mailbox_id = %s AND resolved_at IS NULL",
        mailbox.id,
    )
    open_ids = {row["subject"] for row in failures}
    found = [
        Violation(
            "mail.failures", f"{subject}, {row['kind']} {row['subject']}", f"still fails: {row['last_error']}"
        )
        for row in failures
        if row["subject"] not in mailbox.unreadable
    ]
    found += [
        Violation(
            "mail.failures", f"{subject}, message {key}", "cannot be read, but there is no open failure"
        )
        for key in sorted(mailbox.unreadable - open_ids)
    ]
    listings = await sources.rows(
        """
        SELECT kind, scope, started_at FROM cursors WHERE mailbox_id = %s
            AND (kind IN ('resync', 'refill') OR kind = 'backfill' AND completed_at IS NULL)
        """,
        mailbox.id,
    )
    return found + [
        Violation(
            "mail.listing",
            subject,
            f"{row['kind']} of {row['scope']!r} since {row['started_at']} is not over",
        )
        for row in listings
    ]
