"""API operations on mailboxes and their mail: folders, threads, messages, attachments, mail events.

Also changes and syncs a mailbox, and searches messages. Each calls `flow` or a query of `store`.
"""

import asyncio
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from starlette.responses import Response

from postroom.api_types import (
    AttachmentResource,
    BigInt,
    FolderResource,
    LedgerEntryResource,
    MailboxChange,
    MailboxResource,
    MailEventResource,
    MessageDetail,
    MessageResource,
    RequestAccepted,
    ResultPage,
    SyncRequest,
    ThreadResource,
)
from postroom.flow.mail.sync import sync_requests
from postroom.flow.mailboxes import lifecycle as connections
from postroom.model import ContentPolicy, MailboxId, Scope
from postroom.store import mailboxes as stored
from postroom.store.connection import Connection
from postroom.store.lists.messages import MESSAGES
from postroom.store.views import mail, mailbox_timeline
from postroom.web import message_body
from postroom.web.api import http_content, list_queries, paging
from postroom.web.api.list_queries import MessagesQuery
from postroom.web.api.operations import (
    ApiCall,
    ApiProblem,
    NoParameters,
    Operation,
    PageQuery,
    not_found,
    require_found,
)


class MailboxPath(msgspec.Struct, frozen=True):
    mailbox: UUID


class ThreadPath(msgspec.Struct, frozen=True):
    thread: BigInt


class MessagePath(msgspec.Struct, frozen=True):
    message: BigInt


class AttachmentPath(msgspec.Struct, frozen=True):
    message: BigInt
    part: Annotated[str, msgspec.Meta(max_length=200)]


class FolderMessagesQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    folder: BigInt | None = None


async def list_mailboxes(call: ApiCall[NoParameters, PageQuery, None]) -> ResultPage[MailboxResource]:
    """List mailboxes."""
    after = paging.parse_cursor(call.query, UUID)
    async with call.transaction() as connection:
        found = await mail.list_mailboxes(connection, after=after, limit=call.query.limit + 1)
    return paging.build_page(found, call.query, lambda row: row.id)


async def get_mailbox(call: ApiCall[MailboxPath, NoParameters, None]) -> MailboxResource:
    """Get a mailbox with its health."""
    async with call.transaction() as connection:
        return await _get_mailbox(connection, call.path.mailbox)


async def change_mailbox(call: ApiCall[MailboxPath, NoParameters, MailboxChange]) -> MailboxResource:
    """Pause or resume a mailbox, or change its content policy.

    With `If-Match`, the call fails if the mailbox has changed.
    """
    connect, organization = call.context.connect, call.caller.organization
    mailbox = MailboxId(call.path.mailbox)
    async with call.transaction() as connection:
        found = await _get_mailbox(connection, mailbox)
    http_content.require_if_match(call.request, found)
    if call.body.content_policy is not None and call.body.content_policy != found.content_policy:
        policy = ContentPolicy(call.body.content_policy)
        await connections.set_policy(connect, organization, mailbox, policy, actor=call.caller.actor)
    if call.body.paused is not None:
        action = connections.pause if call.body.paused else connections.resume
        await action(connect, organization, mailbox, actor=call.caller.actor)
    async with call.transaction() as connection:
        return await _get_mailbox(connection, mailbox)


async def sync_mailbox(call: ApiCall[MailboxPath, NoParameters, SyncRequest]) -> RequestAccepted:
    """Sync a mailbox with its provider now."""
    async with call.transaction() as connection:
        found = await _get_mailbox(connection, call.path.mailbox)
        if found.paused_at is not None or found.disconnected_at is not None:
            raise ApiProblem(
                409, "not-connected", "The mailbox is paused or disconnected. Resume or reconnect it first."
            )
        mailbox = MailboxId(found.id)
        caller = call.caller
        await sync_requests.request_sync(
            connection, caller.organization, mailbox, full=call.body.full, actor=caller.actor
        )
    return RequestAccepted()


async def list_folders(call: ApiCall[MailboxPath, PageQuery, None]) -> ResultPage[FolderResource]:
    """List the folders (Microsoft 365) or labels (Gmail) of a mailbox."""
    after = paging.parse_number_cursor(call.query) or 0
    async with call.transaction() as connection:
        await _get_mailbox(connection, call.path.mailbox)
        found = await mail.list_folders(
            connection, call.path.mailbox, after=after, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: row.id)


async def list_threads(call: ApiCall[MailboxPath, PageQuery, None]) -> ResultPage[ThreadResource]:
    """List the threads of a mailbox, newest first."""
    after = paging.parse_cursor(call.query, tuple[datetime | None, BigInt])
    async with call.transaction() as connection:
        await _get_mailbox(connection, call.path.mailbox)
        found = await mail.list_threads(
            connection, call.path.mailbox, after=after, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: (row.last_message_at, row.id))


async def list_messages(call: ApiCall[MailboxPath, FolderMessagesQuery, None]) -> ResultPage[MessageResource]:
    """List the messages of a mailbox, newest first."""
    after = paging.parse_cursor(call.query, tuple[datetime | None, BigInt])
    async with call.transaction() as connection:
        found = await mail.list_messages(
            connection,
            call.path.mailbox,
            folder=call.query.folder,
            after=after,
            limit=call.query.limit + 1,
        )
        if not found:
            await _get_mailbox(connection, call.path.mailbox)
    return paging.build_page(found, call.query, lambda row: (row.received_at, row.id))


async def list_mail_events(call: ApiCall[MailboxPath, PageQuery, None]) -> ResultPage[MailEventResource]:
    """List the observed changes of messages in a mailbox, newest first."""
    below = paging.parse_number_cursor(call.query)
    async with call.transaction() as connection:
        await _get_mailbox(connection, call.path.mailbox)
        found = await mail.list_mail_events(
            connection, call.path.mailbox, below=below, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: row.id)


async def list_timeline(call: ApiCall[MailboxPath, PageQuery, None]) -> ResultPage[LedgerEntryResource]:
    """List what happened to a mailbox, newest first: its ledger entries and those of its subscriptions.

    Leaves out syncs without errors and renewals of subscriptions; the ledger has them.
    """
    below = paging.parse_number_cursor(call.query)
    async with call.transaction() as connection:
        await _get_mailbox(connection, call.path.mailbox)
        found = await mailbox_timeline.list_entries(
            connection, call.path.mailbox, below=below, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: row.id)


async def get_thread(call: ApiCall[ThreadPath, NoParameters, None]) -> ThreadResource:
    """Get a thread."""
    async with call.transaction() as connection:
        return require_found(await mail.get_thread(connection, call.path.thread), "thread")


async def list_messages_of_thread(call: ApiCall[ThreadPath, PageQuery, None]) -> ResultPage[MessageResource]:
    """List the messages of a thread, oldest first."""
    after = paging.parse_number_cursor(call.query) or 0
    async with call.transaction() as connection:
        require_found(await mail.get_thread(connection, call.path.thread), "thread")
        found = await mail.list_thread_messages(
            connection, call.path.thread, after=after, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: row.id)


async def search_messages(call: ApiCall[NoParameters, MessagesQuery, None]) -> ResultPage[MessageResource]:
    """List or search the messages of all mailboxes, newest first.

    Filters have the same names as in the URL of the page `/messages`.
    """
    async with call.transaction() as connection:
        ids, following = await list_queries.read_ids(connection, MESSAGES, call.query)
        return ResultPage(await mail.list_found_messages(connection, ids), following)


async def get_message(call: ApiCall[MessagePath, NoParameters, None]) -> MessageDetail:
    """Get a message with its text and attachments, as far as the content policy stores them."""
    async with call.transaction() as connection:
        found = await _get_message(connection, call.path.message)
        content = await mail.get_content(connection, found.id)
        attachments = await mail.list_attachments(connection, found.id)
    if content is not None and content.body_html is not None:
        text = await asyncio.to_thread(message_body.get_text, content.body_plain, content.body_html)
        derived = text != content.body_plain
        content = msgspec.structs.replace(content, body_plain=text, is_plain_from_html=derived)
    return MessageDetail(found, content, attachments)


async def get_raw_message(call: ApiCall[MessagePath, NoParameters, None]) -> Response:
    """Download the original message (RFC 5322), from the store or else from the provider."""
    async with call.transaction() as connection:
        found = await _get_message(connection, call.path.message)
        digest = await mail.find_raw_digest(connection, found.id)
        mailbox = await stored.get(connection, MailboxId(found.mailbox_id))
    name = f"message-{found.id}.eml"
    if digest is not None:
        return await http_content.respond_with_blob(call, digest, "message/rfc822", name)
    if mailbox is None or mailbox.policy is ContentPolicy.METADATA:
        raise ApiProblem(
            409,
            "not-stored",
            "The content policy of this mailbox is `metadata`: messages are neither stored nor fetched.",
        )
    if mailbox.disconnected_at is not None or found.deleted_at is not None:
        raise ApiProblem(
            410,
            "gone",
            "The message was deleted or its mailbox disconnected, so the provider no longer serves it.",
        )
    raw = await call.context.remote(mailbox).fetch_raw(found.provider_message_id)
    return http_content.respond_with_bytes(call.request, raw, "message/rfc822", name)


async def list_attachments(call: ApiCall[MessagePath, NoParameters, None]) -> ResultPage[AttachmentResource]:
    """List the attachments of a message."""
    async with call.transaction() as connection:
        await _get_message(connection, call.path.message)
        return ResultPage(await mail.list_attachments(connection, call.path.message), None)


async def get_attachment(call: ApiCall[AttachmentPath, NoParameters, None]) -> Response:
    """Download an attachment, or a range of it."""
    async with call.transaction() as connection:
        found = (
            await mail.get_attachment(connection, call.path.message, call.path.part)
            if "\0" not in call.path.part
            else None
        )
    if found is None:
        raise not_found("attachment")
    if found.sha256 is None:
        raise ApiProblem(409, "not-stored", "The content policy does not store this attachment.")
    digest = bytes.fromhex(found.sha256)
    return await http_content.respond_with_blob(
        call, digest, found.media_type, found.file_name or "attachment"
    )


async def _get_mailbox(connection: Connection, mailbox: UUID) -> MailboxResource:
    return require_found(await mail.get_mailbox(connection, mailbox), "mailbox")


async def _get_message(connection: Connection, message: int) -> MessageResource:
    return require_found(await mail.get_message(connection, message), "message")


_BYTES = "application/octet-stream"
OPERATIONS = [
    Operation("GET", "/mailboxes", list_mailboxes, Scope.READ, "Mailboxes"),
    Operation("GET", "/mailboxes/{mailbox}", get_mailbox, Scope.READ, "Mailboxes"),
    Operation("PATCH", "/mailboxes/{mailbox}", change_mailbox, Scope.MAILBOXES, "Mailboxes", matched=True),
    Operation("POST", "/mailboxes/{mailbox}/sync", sync_mailbox, Scope.MAILBOXES, "Mailboxes", 202),
    Operation("GET", "/mailboxes/{mailbox}/folders", list_folders, Scope.READ, "Mail"),
    Operation("GET", "/mailboxes/{mailbox}/threads", list_threads, Scope.READ, "Mail"),
    Operation("GET", "/mailboxes/{mailbox}/messages", list_messages, Scope.READ, "Mail"),
    Operation("GET", "/mailboxes/{mailbox}/events", list_mail_events, Scope.READ, "Mail"),
    Operation("GET", "/mailboxes/{mailbox}/timeline", list_timeline, Scope.LEDGER, "Mailboxes"),
    Operation("GET", "/threads/{thread}", get_thread, Scope.READ, "Mail"),
    Operation("GET", "/threads/{thread}/messages", list_messages_of_thread, Scope.READ, "Mail"),
    Operation("GET", "/messages", search_messages, Scope.READ, "Mail"),
    Operation("GET", "/messages/{message}", get_message, Scope.READ, "Mail"),
    Operation(
        "GET", "/messages/{message}/raw", get_raw_message, Scope.READ, "Mail", media_type="message/rfc822"
    ),
    Operation("GET", "/messages/{message}/attachments", list_attachments, Scope.READ, "Mail"),
    Operation(
        "GET", "/messages/{message}/attachments/{part}", get_attachment, Scope.READ, "Mail", media_type=_BYTES
    ),
]
